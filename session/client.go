package session

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/lease"
	"github.com/zkgrant/zkgrant/session/internal/watch"
	"github.com/zkgrant/zkgrant/session/internal/wire"
)

const (
	// restoreWait bounds how long requests are held back after a reconnect while the
	// client restores its watches.
	restoreWait = 100 * time.Millisecond
	// expiredGrace is how long requests in progress may take in a session that is over,
	// if its timeout is not short.
	expiredGrace = time.Second
)

// client is one zk.Conn and everything that belongs to it: one session, one
// epoch, from the dial to the end of the last goroutine.
type client struct {
	session  *Session
	epoch    recipes.Epoch
	conn     *zk.Conn
	link     *wire.Link
	hosts    *wire.Hosts
	dialer   *wire.Dialer
	clock    clock
	lease    *lease.Lease
	watches  watch.Set[*Seat, recipes.Moment] // what seats watch, and by when the lock of a node is requested by a revocation
	looks    watch.Set[subscriber, struct{}]  // what is watched for changes, and for goroutines that read a node again and again
	dirs     *directories
	owners   *owners
	listings map[string]*listing // by directory; only the loop touches it
	logger   *zap.Logger
	ended    chan struct{} // closed when the client's own goroutines are gone
	greeted  chan struct{} // size 1: a handshake was answered

	phase      atomic.Int32    // see [phaseDialing]; only the loop writes it
	told       atomic.Bool     // a server has said that the session was ended
	shown      time.Time       // the deadline that the hook received last; only the client's goroutines touch it
	containers *containerNodes // of the session
	readings   readings        // the readings of looks
	throttle   wire.Throttle   // for how long requests wait that were turned away

	// Only the loop touches these.
	announced  bool         // the session was, and stays so
	resumed    int          // how often the session got another connection
	outdated   bool         // the answer that is being settled was asked for on an earlier connection
	pacer      *time.Timer  // looks after the lease; nil while nothing is held
	probes     int          // in progress
	probed     time.Time    // when the newest probe was sent, by the clock of the lease
	hungUp     [2]time.Time // when the session gave up a server that was silent, the latest first
	silence    time.Time    // since when an answer was owed at the last look
	others     wire.Others  // of this silence
	stopAsking func()       // ends the questions of this silence; not nil
	inflight   int          // calls that were made and not finished, see [Session.finish]
	farewell   time.Time    // until when a server may answer the end of the session
}

// The phase of a client says how far its session has come. It moves forward only, except
// that a session may be up and suspended in turn, and that one that loses its connection
// while it is young begins again.
const (
	// phaseDialing: no server has given out a session.
	phaseDialing int32 = iota
	// phaseYoung: a server has, and it is too early for requests.
	phaseYoung
	// phaseUp: requests may be made.
	phaseUp
	// phaseSuspended: the session was announced, and has no connection for requests.
	phaseSuspended
	// phaseOver: it has expired, was replaced, or is being closed. No request is made any
	// more.
	phaseOver
	// phaseEnding: no request is in progress any more, and the client's goroutines end.
	phaseEnding
)

// isOver reports whether no request is made any more. A client that is not over is the
// session's present one.
func (c *client) isOver() bool { return c.phase.Load() >= phaseOver }

// deadline returns until when the session can be believed alive, in ordinary time. It
// returns the zero time if that was never so.
func (c *client) deadline() time.Time { return c.clock.ordinary(c.lease.Deadline()) }

// close ends the session if the server can be reached within the time, and the client's
// goroutines in any case. It returns when they have ended. No request may be in progress
// or be made meanwhile: the client answers a request twice that is queued while the
// client quits, and has not always room for both answers.
//
// close waits for a connection that is being made: a session that is just beginning
// should be ended and not forgotten. If there is no connection by then, a [farewell]
// stands in.
func (c *client) close(wait time.Duration) {
	c.dialer.Stop()
	timer := time.AfterFunc(wait, c.hangUp)
	defer timer.Stop()
	for !c.dialer.Leave() || c.conn.State() != zk.StateHasSession { // in this order: Leave keeps the state
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

// clientLogger gives the client's log lines to our logger.
type clientLogger struct {
	*zap.Logger
	link *wire.Link
}

// Printf logs on the debug level: whatever matters reaches us as an event.
func (l clientLogger) Printf(format string, args ...any) {
	l.link.Complained()
	l.Sugar().Debugf("client: "+format, args...)
}

func (s *Session) endClient(c *client) {
	if c.phase.Load() == phaseEnding {
		return
	}
	c.phase.Store(phaseEnding)
	s.group.Go(func() {
		c.close(time.Until(c.farewell))
		s.loop.Post(func() {
			delete(s.living, c)
			s.checkClosed()
		})
	})
}

// zapSession logs the session's id in the form of ZooKeeper's own logs.
func zapSession(c *client) zap.Field {
	return zap.String("session", fmt.Sprintf("0x%x", uint64(c.link.Session())))
}

// zapServer is for log lines: the server as the connect string names it, and the dialled
// address if that is a name.
func zapServer(c *client) zap.Field {
	server := c.conn.Server()
	if peer := c.dialer.Peer(); peer != "" {
		server += " at " + peer
	}
	return zap.String("server", server)
}
