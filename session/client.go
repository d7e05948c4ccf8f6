package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/lease"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/watch"
	"github.com/zkgrant/zkgrant/session/internal/wire"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file has the life of a client: connected, suspended, resumed, expired, closed.

const (
	// restoreWait is how long requests are held back at most after a reconnect, while the
	// client restores its watches.
	restoreWait = 100 * time.Millisecond
	// expiredGrace is how long requests in progress may still take once their session is
	// over. It is shorter if the session timeout is short.
	expiredGrace = time.Second
)

// client is one zk.Conn and everything that belongs to it: one session, one epoch, from
// the first dial to the end of its last goroutine.
type client struct {
	// Set by connect, and never changed. Any goroutine may read these, except listings.
	session  *Session
	epoch    recipes.Epoch
	conn     *zk.Conn
	link     *wire.Link
	hosts    *wire.Hosts
	dialer   *wire.Dialer
	clock    clock
	lease    *lease.Lease
	watches  watch.Set[*Seat, recipes.Moment] // nodes that seats watch, each with the deadline of a revocation request
	looks    watch.Set[subscriber, struct{}]  // watches for changes, also for goroutines that keep reading a node
	dirs     *directories
	owners   *owners
	listings map[string]*listing // by directory; only the loop touches it
	logger   *zap.Logger
	ended    chan struct{} // closed when the client's own goroutines have exited
	greeted  chan struct{} // size 1: signals an answered handshake

	phase      atomic.Int32    // see [phaseDialing]; only the loop writes it
	confirmed  atomic.Bool     // a server has confirmed the end of the session
	shown      time.Time       // the deadline last passed to OnLease; only the client's goroutines touch it
	containers *containerNodes // of the session
	readings   readings        // the reads of looks in progress
	throttle   wire.Throttle   // delays requests that were turned away

	// Only the loop touches these, except that the ending goroutine reads farewell, and
	// Session.Close reads announced once everything is closed.
	announced  bool         // Opened was sent for the session; never cleared
	resumed    int          // counts the session's reconnects
	movedOn    int          // resumed + 1 on the connection last ended because the session had moved
	outdated   bool         // the answer being settled belongs to a request of an earlier connection
	pacer      *time.Timer  // runs tend; nil while no seat needs the lease
	probes     int          // in progress
	probed     time.Time    // when the newest probe was sent, by the clock of the lease
	hungUp     [2]time.Time // when the session last hung up on a silent server, latest first
	refused    time.Time    // since when servers that serve have refused the session; zero: they do not
	turned     time.Time    // when a server refused the session last
	attempts   int          // the dialer's attempts until then
	unjudged   int          // the attempts after which no refusal counts for one round; 0: all count
	asked      time.Time    // when servers were last asked whether they serve, because of that
	asking     bool         // the answer to that is due
	silence    time.Time    // since when a server has owed an answer, at the last look
	others     wire.Others  // of this silence
	stopAsking func()       // cancels askOthers for this silence; never nil
	inflight   int          // calls of the client in progress; see [Session.finish]
	paused     int          // requests that a server turned away, until they are repeated; see afterPause
	farewell   time.Time    // until when to wait for a server to confirm the session's end
}

// The phases of a client's session. A client moves forward only, with two exceptions: a
// session may alternate between up and suspended, and a young one that loses its
// connection goes back to dialing.
const (
	// phaseDialing: there is no session yet.
	phaseDialing int32 = iota
	// phaseYoung: there is a session, but it is too early for requests.
	phaseYoung
	// phaseUp: requests may be sent.
	phaseUp
	// phaseSuspended: the session was announced, but has no usable connection.
	phaseSuspended
	// phaseOver: the session has expired, was replaced, or is being closed. No more
	// requests are sent.
	phaseOver
	// phaseEnding: no request is in progress, and the client's goroutines are ending.
	phaseEnding
)

// isOver reports whether the client's session is over, so that no more requests are sent.
// A client that is not over is the current one.
func (c *client) isOver() bool { return c.phase.Load() >= phaseOver }

// deadline returns the time until which the session counts as alive, in ordinary time. It
// is the zero time if there never was a session.
func (c *client) deadline() time.Time { return c.clock.ordinary(c.lease.Deadline()) }

// TurnedAway is the log message for requests that a server has been rejecting or failing
// for seconds.
const TurnedAway = "requests are turned away and retried"

// connect creates the client for an epoch. The client's events are posted to the loop.
// The loop also calls connect, so it handles none of them before connect returns.
//
//nolint:contextcheck,nolintlint // a client lasts as long as its session; the linter heeds this at the callers
func (s *Session) connect(epoch recipes.Epoch) {
	// A session that ends right away counts as a failure for the next dialer, too.
	failures := 0
	if s.client != nil {
		failures = s.client.dialer.Failed()
	}
	c := &client{
		session:    s,
		epoch:      epoch,
		clock:      s.clock,
		lease:      lease.New(s.cfg.Tick),
		containers: &s.containers,
		dirs: &directories{
			known: map[string]recipes.DirectoryBook{},
			sizes: map[string]sizeRead{},
			left:  map[string]recipes.LeaverBook[string]{},
		},
		owners:     &owners{at: map[string]recipes.OwnerBook[*Seat]{}},
		listings:   map[string]*listing{},
		logger:     s.cfg.Logger.With(zap.Uint32("epoch", uint32(epoch))),
		ended:      make(chan struct{}),
		greeted:    make(chan struct{}, 1),
		stopAsking: func() {},
	}
	c.readings.changed.L = &c.readings.mu
	// The link sees every frame of the client's connections. The client itself would
	// report neither when it sent a request nor how it was answered.
	c.link = wire.NewLink(wire.Events{
		Now: s.clock.now, Start: s.group.Go,
		OnAnswered: c.onAnswered, OnFailed: c.onFailed, OnRequest: s.cfg.OnRequest,
		OnUnresolved: func(server string, err error) {
			c.logger.Warn("name not resolved; dialing its earlier addresses", zap.String("server", server),
				zap.Error(err))
		},
	})
	// The client itself sends no identities. Each dial asks for them again, so that no
	// expired token is sent.
	identities := func() []Auth { return s.cfg.Auth }
	if s.cfg.Identities != nil {
		identities = func() []Auth { return s.whoWeAre.dial(c) }
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	c.hosts = wire.NewHosts(s.servers.Hosts, rng)
	c.dialer = wire.NewDialer(c.link, wire.Dialing{
		Hosts: c.hosts, Dial: s.cfg.Dial, Names: s.names, Rng: rng,
		TLS: s.cfg.TLS, SASL: s.cfg.SASL, Identities: identities,
		Asked: s.cfg.Timeout, Failures: failures,
	})
	conn, events, err := zk.Connect(s.servers.Hosts, s.cfg.Timeout,
		zk.WithDialer(c.dialer.Dial),
		zk.WithHostProvider(c.hosts),
		zk.WithEventCallback(c.onEvent),
		zk.WithLogger(clientLogger{c.logger, c.link}),
		zk.WithLogInfo(false),
	)
	if err != nil { // only for an empty list of servers, which the parser rejects
		c.dialer.Stop()
		s.cfg.Logger.Error("could not start a ZooKeeper client", zap.Error(err))
		s.reportReady(err)
		return
	}
	c.conn = conn
	s.group.Go(func() {
		// The channel drops events when it is full, so the callback is used instead. But
		// only the close of the channel shows that the client's goroutines have exited.
		for range events {
		}
		close(c.ended)
	})
	s.client = c
	// Close waits for every client, including those of past sessions.
	s.living[c] = struct{}{}
	s.mu.Lock()
	s.view.dialer = c.dialer
	s.mu.Unlock()
}

// reportReady notifies callers waiting for the first session that there is one, or why
// there is none.
func (s *Session) reportReady(err error) {
	s.mu.Lock()
	s.view.ready, s.view.refuse = s.view.ready || err == nil, err
	s.mu.Unlock()
	select {
	case <-s.first:
	default:
		close(s.first)
	}
}

// onConnection handles a completed handshake. If requests were left unanswered for so
// long that the server may be stuck, it first sends a read, and vouched calls
// onConnection again once that is answered.
func (s *Session) onConnection(c *client, server string) {
	c.logger.Debug("connected", zap.String("server", server))
	switch {
	case s.cfg.Identities != nil && s.whoWeAre.isOver():
		c.hangUp() // the connection was made with outdated identities
	case c.announced && c.stuck():
		// A stuck server may still complete handshakes, so requests wait until it has
		// answered a read.
		c.inflight++
		s.group.Go(func() {
			_, _, err := c.conn.Exists("/")
			s.loop.Hand(func() { s.vouched(c, server, err) })
		})
	case c.announced && (c.watches.Armed() || !c.looks.Empty()):
		// Requests wait until the client has restored its watches. It does so with a
		// request that others can overtake, and one that does could read a change before
		// the event that reports it.
		time.AfterFunc(min(restoreWait, c.link.Timeout()/10),
			func() { s.postFor(c, func() { s.restored(c) }) })
	case c.announced:
		s.resume(c)
	case c.phase.Load() == phaseDialing:
		// Requests sent now would race with the client, which is still looking for
		// watches to restore; see [wire.FirstRequest].
		c.phase.Store(phaseYoung)
		time.AfterFunc(wire.FirstRequest, func() { s.postFor(c, func() { s.announce(c) }) })
	}
}

// stuck reports whether requests have been unanswered for so long that a handshake alone
// is no proof of life.
func (c *client) stuck() bool {
	debt := c.link.Owing()
	return !debt.IsZero() && c.clock.now().Sub(debt) >= wire.MostPatience(c.link.Timeout())
}

// onIdentityError handles a server that refused the client's identity, or could not prove
// its own. The session continues; see turnedAway. The error is reported once, because
// such a server refuses every connection.
func (s *Session) onIdentityError(c *client, err error) {
	s.mu.Lock()
	known := s.view.refuse != nil
	s.mu.Unlock()
	if known {
		c.logger.Debug("the identities were not accepted again", zap.Error(err))
	} else {
		c.logger.Warn("the identities were not accepted", zap.Error(err))
	}
	s.reportReady(fmt.Errorf("%w: %w", ErrNoAuth, err))
}

// LongTick returns the servers' tickTime as implied by the current session's timeout, if
// it is longer than the lease assumes, and 0 otherwise.
func (s *Session) LongTick() time.Duration {
	c := s.present()
	if c == nil {
		return 0
	}
	granted := c.link.Timeout()
	return longTick(s.cfg.Timeout.Truncate(time.Millisecond), granted, lease.Tick(s.cfg.Tick, granted))
}

// The servers' default bounds for a session timeout, in ticks.
const (
	leastTicks = 2
	mostTicks  = 20
)

// longTick returns the servers' tickTime as implied by the timeout that they granted, if
// it is longer than the configured one, and 0 otherwise. Servers raise a short timeout to
// 2 ticks, and lower a long one to 20; an unchanged timeout implies nothing. The result
// is only a hint, because minSessionTimeout and maxSessionTimeout may set other bounds.
func longTick(asked, granted, assumed time.Duration) (tick time.Duration) {
	switch {
	case granted > asked:
		tick = granted / leastTicks
	case granted < asked:
		tick = granted / mostTicks
	}
	if tick <= assumed {
		return 0
	}
	return tick
}

// compareTimeout warns if the servers changed the requested session timeout, and if that
// implies a longer tickTime.
func (s *Session) compareTimeout(c *client) {
	asked, granted := s.cfg.Timeout.Truncate(time.Millisecond), c.link.Timeout() // rounded as in a request
	switch {
	case asked == granted:
		s.clamped = 0
	case granted != s.clamped:
		s.clamped = granted
		c.logger.Warn("the servers have changed the session timeout", zapSession(c),
			zap.Duration("asked", asked), zap.Duration("granted", granted), zapServer(c))
		if long := s.LongTick(); long > 0 {
			c.logger.Warn("the servers' tickTime seems longer than WithTickTime says, so a loss may be reported too late", zapSession(c),
				zap.Duration("tickTime", long), zap.Duration("assumed", lease.Tick(s.cfg.Tick, granted)),
				zapServer(c))
		}
	}
}

// suspend notifies the seats that the connection is gone.
func (s *Session) suspend(c *client) {
	if !c.announced {
		return
	}
	c.looks.Suspended()
	// During the outage, a lock's single node may be replaced by another contender's. So
	// no request deletes it by name without looking at it first.
	c.owners.shake()
	if c.phase.Load() == phaseSuspended {
		return
	}
	c.phase.Store(phaseSuspended)
	clear(s.next) // all waiters list at once after an outage
	s.noteAway(true)
	lost := "connection lost"
	if time.Now().Before(c.deadline()) { // else its locks are lost, and that was logged
		lost += "; the session may still be alive"
	}
	c.logger.Warn(lost, zapSession(c), zap.Time("deadline", c.deadline()), zap.Error(c.dialer.LastError()))
	s.news(events.Suspended{Session: c.link.Session(), Deadline: c.deadline()})
	s.broadcast(recipes.Suspended{})
}

// resume handles a new connection of the same session.
func (s *Session) resume(c *client) {
	suspended := c.phase.Load() == phaseSuspended
	c.phase.Store(phaseUp)
	// The broadcast below makes the machines verify what they know. Answers of earlier
	// connections that are settled after it count as lost.
	c.resumed++
	// A warm session trusts only watches and listings of the current connection; see
	// warmth.
	c.watches.Resumed()
	for _, seat := range s.seats {
		seat.listed = false
	}
	s.compareTimeout(c)
	// The server accepted the identities, so an old refusal no longer explains anything.
	s.mu.Lock()
	s.view.refuse = nil
	s.mu.Unlock()
	if suspended {
		s.noteAway(false)
		c.logger.Info("session resumed", zapSession(c), zapServer(c))
		s.news(events.Resumed{Session: c.link.Session()})
		s.broadcast(recipes.Reconnected{})
	}
	// Events between two connections may be lost, so every watcher reads again.
	s.renew()
	if s.quiet != nil {
		s.quiesce()
	}
	if c.pacer != nil {
		s.pace(c, 0) // the timeout may have become shorter
	}
}

// nextConnection returns a channel that is closed when there is a new usable connection,
// or when the session is closed.
func (s *Session) nextConnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.renewed
}

// renew wakes all callers of nextConnection. Once the session is closed, the channel
// stays closed, for calls that come later.
func (s *Session) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.view.renewed)
	if !s.view.closed {
		s.view.renewed = make(chan struct{})
	}
}

// expire handles the end of the session, as reported by a server, or by the wire, which
// stopped the client.
func (s *Session) expire(c *client) {
	if c.isOver() {
		return
	}
	// By the time an event or a seat reports the end, callers must find no session.
	s.show(nil)
	if c.announced {
		c.logger.Warn("session expired", zapSession(c))
		s.news(events.SessionExpired{Session: c.link.Session()})
		s.broadcast(recipes.Expired{})
	}
	s.budget.Next() // the next session has no nodes
	s.nodes = budget.Nodes{}
	s.roomMade()
	grace := min(expiredGrace, c.link.Timeout()/8)
	s.retire(c, grace, grace)
	s.connect(c.epoch + 1)
	s.sweep()
	if s.quiet != nil {
		s.quiesce()
	}
}

// retire gives the requests in progress the grace period to be answered, and then hangs
// up. After that, it ends the client, and gives a server the farewell period to confirm
// the end of the session.
func (s *Session) retire(c *client, grace, farewell time.Duration) {
	c.phase.Store(phaseOver)
	c.farewell = time.Now().Add(grace + farewell)
	c.stopAsking()
	if c.pacer != nil {
		c.pacer.Stop() // it would keep the old session in memory for a while
	}
	// The client must not end while a request is in progress; see [Session.endClient].
	if c.inflight == 0 {
		s.endClient(c)
		return
	}
	c.dialer.Stop()
	time.AfterFunc(grace, func() {
		s.loop.Post(func() {
			if c.phase.Load() != phaseEnding {
				c.logger.Warn("requests are not answered; closing the connection",
					zap.Int("requests", c.inflight))
				c.hangUp() // answers them all; the last answer ends the client
			}
		})
	})
}

// show publishes the client that has a session. It is called before anything reports that
// session.
func (s *Session) show(c *client) {
	s.mu.Lock()
	s.view.client = c
	s.mu.Unlock()
	s.noteAway(c == nil && !s.closing)
}

// happened handles an event of the client.
func (s *Session) happened(c *client, ev zk.Event) {
	switch ev.Type {
	case zk.EventNodeDeleted:
		s.tellGone(c, ev.Path, true)
		if !c.looks.Empty() {
			s.tellChanged(c, ofChildren.key(ev.Path), true)
			s.tellChanged(c, ofData.key(ev.Path), true)
		}
	case zk.EventNodeDataChanged:
		// The event has used up the watch. Without a new one, the end of the node would
		// go unnoticed.
		if c.watches.Changed(ev.Path) {
			c.rewatch(ev.Path)
		}
		// Whether a lock's single node was also replaced becomes known when its owner
		// watches it again (see found), but not if the owner no longer holds the lock.
		if t := c.owners.of(ev.Path); t != nil {
			t.single.uncertain.Store(true)
		}
		s.tellChanged(c, ofData.key(ev.Path), false)
	case zk.EventNodeChildrenChanged, zk.EventNodeCreated:
		s.tellChanged(c, ofChildren.key(ev.Path), false)
	case zk.EventSession:
		switch ev.State {
		case zk.StateHasSession:
			s.onConnection(c, ev.Server)
		case zk.StateDisconnected:
			s.suspend(c)
		case zk.StateExpired:
			s.expire(c)
		default: // in between
		}
	default:
		// onEvent drops the other type, EventNotWatching.
	}
}

// turnedAway handles a server that did not answer the handshake, or what follows it. A
// session that no server resumes is given up, for one of two reasons:
//
//   - A server does not answer a client that has seen a later state than its own. One
//     that merely lags catches up. But if the ensemble has lost its data, no server ever
//     answers, or reports that the session is over.
//   - A server answers the handshake, but then refuses the client's identity or falls
//     silent. Each time, it restarts the session's timeout. If the session were not given
//     up, no other one would ever get its locks.
//
// A server without a quorum also refuses handshakes. Then the session stays alive, however
// long that lasts, because the next leader gives it its full timeout. So only servers that
// serve count. From when one of them is known to serve, the session ends within a timeout
// and a tick, unless it is resumed. After that time, nothing is lost by giving it up. That
// time starts again after a quorum was lost, and after a timeout without a refusal, if all
// servers were dialed in that time: perhaps none was up. A round may take longer than the
// timeout, because each server that is silent takes a part of it. Then no refusal counts
// until every server was dialed again: the next one may resume the session.
//
//nolint:contextcheck,nolintlint // no caller waits for it; the linter heeds this at the callers
func (s *Session) turnedAway(c *client, err error) {
	timeout := c.link.Timeout()
	heard := c.lease.State().Heard
	now, enough := s.clock.now(), timeout+lease.Tick(s.cfg.Tick, timeout)
	attempts := c.dialer.Attempts()
	round := attempts-c.attempts > c.hosts.Len()+1 // the next attempt may have begun
	gap := now.Sub(c.turned) > timeout
	if c.refused.Before(heard) || gap && round {
		c.refused = time.Time{} // of an earlier outage
	}
	switch {
	case c.refused.IsZero(), c.unjudged > 0 && attempts-c.unjudged >= c.hosts.Len():
		c.unjudged = 0
	case gap && c.unjudged == 0:
		c.unjudged = attempts
	}
	c.turned, c.attempts = now, attempts
	// During an outage, all clients of the servers are refused again and again.
	due := now.Sub(c.asked) >= timeout/4 || !c.refused.IsZero() && now.Sub(c.refused) >= enough
	if heard.IsZero() || c.asking || !due || c.unjudged > 0 {
		return
	}
	c.asking, c.asked = true, now
	s.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wire.ClientPatience(timeout))
		defer cancel()
		serves := c.dialer.AskAll(ctx)
		s.postFor(c, func() {
			c.asking = false
			switch {
			case c.lease.State().Heard.After(heard): // it was resumed meanwhile
			case !serves:
				c.refused = time.Time{}
			case c.refused.IsZero():
				c.refused = s.clock.now()
			case s.clock.now().Sub(c.refused) >= enough:
				c.logger.Warn("no server resumes the session; giving it up", zap.Error(err))
				s.expire(c)
			}
		})
	})
}

// announce reports a new session once requests may be sent.
func (s *Session) announce(c *client) {
	if c.conn.State() != zk.StateHasSession {
		c.phase.Store(phaseDialing) // start over with the next connection
		return
	}
	c.announced = true
	c.phase.Store(phaseUp)
	s.show(c)
	c.logger.Info("session established", zapSession(c), zap.Duration("timeout", c.link.Timeout()),
		zapServer(c))
	s.compareTimeout(c)
	s.news(events.Connected{
		Session: c.link.Session(), Timeout: c.link.Timeout(), Server: c.conn.Server(),
		LongTick: s.LongTick(),
	})
	s.broadcast(recipes.Opened{Epoch: c.epoch, Session: c.link.Session()})
	s.renew()
	if s.quiet != nil {
		s.quiesce()
	}
	s.reportReady(nil)
}

// restored resumes the session once the watches were restored, or restoreWait has passed.
func (s *Session) restored(c *client) {
	if c.phase.Load() == phaseSuspended && c.conn.State() == zk.StateHasSession {
		s.resume(c)
	}
}

// vouched handles the answer to the read that onConnection sends on a connection whose
// predecessor left requests unanswered.
func (s *Session) vouched(c *client, server string, err error) {
	defer s.finish(c)
	// Any answer has settled the debt, even one with a code that says nothing about the
	// request.
	if outcome, _ := zkerr.Classify(err); outcome == zkerr.Unknown && c.stuck() {
		return // another connection follows
	}
	if c.phase.Load() == phaseSuspended && c.conn.State() == zk.StateHasSession {
		s.onConnection(c, server)
	}
}

// onEvent is the client's event callback. It does not block.
func (c *client) onEvent(ev zk.Event) {
	s := c.session
	if ev.State == zk.StateHasSession {
		select {
		case c.greeted <- struct{}{}:
		default:
		}
	}
	switch ev.Type {
	case zk.EventNotWatching: // one per watch of an ended session, whose end is reported once
	case zk.EventSession:
		s.postFor(c, func() { s.happened(c, ev) }) // the client may hold any of its mutexes
	default:
		if c.isOver() {
			return // every node deleted with the session has its event
		}
		s.loop.Hand(func() {
			if !c.isOver() {
				s.happened(c, ev)
			}
		})
	}
}

// onAnswered notes an answered request. It is called before the client gets the answer.
func (c *client) onAnswered(a wire.Answer) {
	s := c.session
	// The lease counts from when the request was sent: the servers may have renewed the
	// session that early.
	if c.lease.Answered(a.Sent, a.Answered, a.Op, a.Err, a.Timeout) {
		// It was renewed too late: the lease had run out, and a caller may have seen that,
		// or another session may have acted on it.
		s.postFor(c, func() { s.ranOut(c) })
	}
	if s.cfg.OnLease != nil {
		if deadline := c.lease.Deadline(); !deadline.Equal(c.shown) {
			c.shown = deadline
			s.cfg.OnLease(Lease{Session: c.link.Session(), Deadline: c.clock.ordinary(deadline)})
		}
	}
	if a.Err != zkerr.CodeNone && zkerr.IsMadeAgain(a.Err) &&
		c.throttle.TurnedAway(a.Answered, c.link.Timeout()) {
		c.logger.Warn(TurnedAway, zapSession(c), zapServer(c), zap.Error(zkerr.ErrorOf(a.Err)))
	}
	switch a.Op {
	case opcode.CloseSession:
		if a.Err == zkerr.CodeNone {
			c.confirmed.Store(true)
		}
	case opcode.CreateContainer:
		if a.Err == zkerr.CodeNone && a.Container != "" {
			s.loop.Post(func() { s.madeContainer(a.Container, a.Zxid) })
		}
	case opcode.SetWatches:
		if a.Refused {
			s.loop.Post(func() { s.rearmAll(c) }) // the client only logs the error
		}
		// Requests are waiting for the last of these answers; see onConnection.
		s.postFor(c, func() {
			if a.Restored {
				c.looks.Restored()
			}
			if !a.More {
				s.restored(c)
			}
		})
	}
}

// onFailed handles the error of a connection that failed or ended.
func (c *client) onFailed(err error) {
	s := c.session
	switch {
	case errors.Is(err, wire.ErrReplaced): // the wire did not let the client continue
		s.postFor(c, func() {
			c.logger.Info("the session is over", zap.Error(err))
			s.expire(c)
		})
	case errors.Is(err, wire.ErrRefused):
		s.postFor(c, func() { s.turnedAway(c, err) })
	}
	if errors.Is(err, wire.ErrDenied) {
		s.postFor(c, func() { s.onIdentityError(c, err) })
	}
}

// rewatch arms the watch on a path again for its subscribers. It does not block.
func (c *client) rewatch(path string) {
	c.session.submit(&rearm{slot: slot{epoch: c.epoch}, node: path})
}

// verify finds out whether the seat's node still exists. It does not block.
func (c *client) verify(t *Seat) {
	c.session.submit(&verification{slot: slot{epoch: c.epoch}, seat: t})
}

// An outage is logged only if it lasts.
const (
	// firstNotice is how long an outage lasts before it is logged. A server that restarts
	// is back by then, or another one is found.
	firstNotice = 3 * time.Second
	// laterNotice is the time between later log lines.
	laterNotice = time.Minute
)

// errTrying is logged as the cause during the first attempt.
var errTrying = errors.New("the first attempt goes on")

// noteAway starts the timer of noticeOutage when there is no connection, and stops it
// when there is one.
func (s *Session) noteAway(away bool) {
	switch {
	case away && s.away == nil:
		s.awaySince = time.Now()
		s.away = time.AfterFunc(firstNotice, func() { s.loop.Post(s.noticeOutage) })
	case !away && s.away != nil:
		s.away.Stop()
		s.away = nil
	}
}

// noticeOutage logs that there has been no connection for a long time. It may be called
// late, by the timer of an earlier outage.
func (s *Session) noticeOutage() {
	since := time.Since(s.awaySince)
	if s.away == nil || since < firstNotice {
		return
	}
	s.mu.Lock()
	refused := s.view.refuse
	s.mu.Unlock()
	s.cfg.Logger.Warn("no server can be used", zap.Stringer("servers", s.servers), zap.Duration("for", since),
		zap.Error(cmp.Or(refused, s.lastError(), errTrying)))
	s.away.Reset(laterNotice)
}

// endClient ends the client's goroutines and, if a server can be reached before the
// farewell deadline, the session. No request may be in progress or sent: a request queued
// while the client quits is answered twice, and the client does not always have room for
// both answers.
func (s *Session) endClient(c *client) {
	if c.phase.Load() == phaseEnding {
		return
	}
	c.phase.Store(phaseEnding)
	s.group.Go(func() {
		c.dialer.Stop()
		// A server that does not confirm the end must not keep the client alive.
		timer := time.AfterFunc(time.Until(c.farewell), c.hangUp)
		defer timer.Stop()
		// Wait for a connection that is being established: a session that is just
		// beginning should be ended, not forgotten. If there is no connection in time,
		// the dialer says farewell instead.
		for !c.dialer.Leave() || c.conn.State() != zk.StateHasSession { // in this order: Leave keeps the state
			<-c.greeted
		}
		c.conn.Close()
		<-c.ended
		c.hangUp()
		s.loop.Post(func() {
			delete(s.living, c)
			s.checkClosed()
		})
	})
}

// hangUp closes the socket without ending the session.
func (c *client) hangUp() {
	if err := c.dialer.HardClose(); err != nil {
		c.logger.Debug("closing the socket failed", zap.Error(err))
	}
}

// clientLogger passes the client's log lines to our logger.
type clientLogger struct {
	*zap.Logger
	link *wire.Link
}

// Printf logs at debug level, because everything that matters arrives as an event.
func (l clientLogger) Printf(format string, args ...any) {
	l.link.Complained()
	l.Sugar().Debugf("client: "+format, args...)
}

// zapSession returns the session's ID as ZooKeeper's own logs print it.
func zapSession(c *client) zap.Field {
	return zap.String("session", fmt.Sprintf("0x%x", uint64(c.link.Session())))
}

// zapServer returns the server as the connect string names it, with the dialed address if
// that is a host name.
func zapServer(c *client) zap.Field {
	server := c.conn.Server()
	if peer := c.dialer.Peer(); peer != "" {
		server += " at " + peer
	}
	return zap.String("server", server)
}
