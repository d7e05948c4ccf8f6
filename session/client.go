package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/lease"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/watch"
	"github.com/zkgrant/zkgrant/session/internal/wire"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

const (
	// restoreWait bounds how long requests are held back after a reconnect for the
	// client to restore its watches.
	restoreWait = 100 * time.Millisecond
	// expiredGrace is how long requests under way may take in a session that is over, if its timeout is not short.
	expiredGrace = time.Second
)

// client is one zk.Conn and everything that belongs to it: one session, one
// epoch, from the dial to the end of the last goroutine.
type client struct {
	epoch     recipes.Epoch
	conn      *zk.Conn
	link      *wire.Link
	hosts     *wire.Hosts
	dialer    *wire.Dialer
	clock     clock
	lease     *lease.Lease
	watches   watch.Set[*Seat, recipes.Moment] // what seats watch, and by when somebody wants the lock of a node back
	looks     watch.Set[subscriber, struct{}]  // what is watched for changes, and for goroutines that read a node again and again
	dirs      *directories
	claimants *claimants
	listings  *listings // only the session actor touches it
	logger    *zap.Logger
	ended     chan struct{}                  // closed when the client's own goroutines are gone
	greeted   chan struct{}                  // size 1: a handshake was answered
	rewatch   func(string)                   // has a path watched again; does not block
	unsure    func(string)                   // has those look again who look out on a path; does not block
	verify    func(*Seat)                    // has it looked whether the seat's node is still there; does not block
	askedBack func(node string, wish asking) // tells the owner of the node that somebody wants the lock back; does not block

	told     atomic.Bool   // a server has said that the session was ended
	retired  atomic.Bool   // over; other goroutines than the session actor's read it
	readings chan struct{} // has a place for each of a look that is under way

	// Only the session actor touches these.
	opened   bool         // the session was announced
	greeting bool         // identities are being added
	up       bool         // requests may be made
	resumed  int          // how often the session got another connection
	outdated bool         // the answer that is being settled was asked for on an earlier connection
	watchdog *time.Timer  // looks at the lease when it may have run out
	pacer    *time.Timer  // posts paced; nil while none is due
	probing  bool         // a probe is under way
	hungUp   [2]time.Time // when the session gave up a server that was silent, the latest first
	over     bool         // no more requests: expired, replaced, or closing
	inflight int
	farewell time.Time // until when a server may answer the end of the session
	closing  bool
}

// newClient starts a client. It posts to the session actor, which does not look
// at the messages before newClient has returned, because it is the caller.
func (s *Session) newClient(epoch recipes.Epoch, failures int) (*client, error) {
	c := &client{
		epoch: epoch, clock: s.clock, lease: lease.New(s.cfg.Tick), dirs: newDirectories(),
		claimants: newClaimants(), ended: make(chan struct{}), greeted: make(chan struct{}, 1), readings: make(chan struct{}, mostReadings),
		logger: s.cfg.Logger.With(zap.Uint32("epoch", uint32(epoch))),
	}
	c.listings = newListings(func(dir string) int { return c.dirs.book(dir).Children() })
	c.rewatch = func(path string) { s.actor.Post(&rearming{epoch: epoch, node: path}) }
	c.unsure = func(path string) { s.actor.Post(shaken{c, path}) }
	c.verify = func(t *Seat) { s.actor.Post(&verifying{epoch: epoch, seat: t}) }
	c.askedBack = func(node string, wish asking) { s.actor.Post(wished{c, node, wish}) }
	c.link = wire.NewLink(wire.Events{
		Now:   s.clock.now,
		Start: s.group.Go,
		OnAnswered: func(sent, answered time.Time, op, zkErr int32) {
			if c.lease.Answered(sent, answered, op, zkErr, c.link.Timeout()) {
				s.actor.Post(lapsed{c})
			}
			if s.cfg.OnLease != nil {
				c.tellLease(s.cfg.OnLease)
			}
			if op == opcode.CloseSession && zkErr == zkerr.CodeNone {
				c.told.Store(true)
			}
			if op == opcode.SetWatches {
				if zkErr != zkerr.CodeNone {
					s.actor.Post(unwatched{c}) // the client only logs it
				}
				s.actor.Post(restored{c})
			}
		},
		OnRequest:  s.cfg.OnRequest,
		OnReplaced: func(err error) { s.actor.Post(replaced{c, err}) },
		OnRefused:  func(_ int64, err error) { s.actor.Post(turnedAway{c, err}) },
	})
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	c.hosts = wire.NewHosts(s.servers.Hosts, rng)
	c.dialer = wire.NewDialer(context.Background(), c.link, wire.Dialing{Dial: s.cfg.Dial, TLS: s.cfg.TLS, Asked: s.cfg.Timeout, Rng: rng, Failures: failures})
	conn, events, err := zk.Connect(s.servers.Hosts, s.cfg.Timeout,
		zk.WithDialer(c.dialer.Dial),
		zk.WithHostProvider(c.hosts),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.State == zk.StateHasSession {
				select {
				case c.greeted <- struct{}{}:
				default:
				}
			}
			switch ev.Type {
			case zk.EventNotWatching: // one for each watch of a session that has ended, which is told once
			case zk.EventSession:
				s.actor.Post(happened{c, ev}) // the client has locked who knows what
			default:
				if !c.retired.Load() { // else each node that goes with the session has its event
					s.actor.Hand(happened{c, ev})
				}
			}
		}),
		zk.WithLogger(clientLogger{c.logger, c.link}),
		zk.WithLogInfo(false),
	)
	if err != nil {
		c.dialer.Stop()
		return nil, err
	}
	c.conn = conn
	s.group.Go(func() {
		// The channel drops events when it is full; the callback has them all.
		// Its end is the only sign that the client's goroutines have ended.
		for range events {
		}
		close(c.ended)
	})
	return c, nil
}

// addAuth adds the identities. The client sends them again on each connection.
func (c *client) addAuth(auth []Auth) error {
	for _, a := range auth {
		if err := c.conn.AddAuth(a.Scheme, a.Auth); err != nil {
			return err
		}
	}
	return nil
}

// deadline returns until when the session can be believed alive, in ordinary time;
// the zero time if that was never so.
func (c *client) deadline() time.Time { return c.clock.ordinary(c.lease.Deadline()) }

// close ends the session if the server can be reached within the time, and the
// client's goroutines in any case. It returns when they have ended. No request may
// be under way or made: the client answers one twice when it is queued while the
// client quits, and has not always room for both answers.
//
// A connection that is being made is waited for: a session that is just beginning
// should be ended and not forgotten. If there is none by then, a [farewell] stands in.
func (c *client) close(wait time.Duration) {
	c.dialer.Stop()
	timer := time.AfterFunc(wait, c.hangUp)
	defer timer.Stop()
	for c.conn.State() != zk.StateHasSession {
		<-c.greeted
	}
	c.conn.Close()
	<-c.ended
	c.hangUp()
}

// hangUp closes the socket without a word.
func (c *client) hangUp() {
	if err := c.dialer.HardClose(); err != nil {
		c.logger.Debug("closing the socket failed", zap.Error(err))
	}
}

// clientLogger gives the client's log lines to ours.
type clientLogger struct {
	*zap.Logger
	link *wire.Link
}

// Printf logs on the debug level: whatever matters reaches us as an event.
func (l clientLogger) Printf(format string, args ...any) {
	l.link.Backlog.Complained()
	l.Sugar().Debugf("client: "+format, args...)
}

// rejected tells whether the error of an identity is final.
func rejected(err error) bool {
	return errors.Is(err, zk.ErrAuthFailed)
}
