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

// This file is about the life of a client: connected, suspended, resumed, expired, closed.

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

	// Only the loop touches these, except that the ending goroutine reads farewell.
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

// TurnedAway is the log message for requests that a server has turned away, or failed at,
// for seconds.
const TurnedAway = "requests are turned away and retried"

// connect makes the client of an epoch. The client's events are posted to the loop. The
// loop also calls connect, so it handles none of them before connect returns.
//
//nolint:contextcheck,nolintlint // a client lasts as long as its session; the linter heeds this at the callers
func (s *Session) connect(epoch recipes.Epoch) {
	// A session that ends as soon as it is made is a failure for the next dialer, too.
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
	// The link sees every frame of the client's connections. The client alone would say
	// neither when it has sent something nor what was answered to it.
	c.link = wire.NewLink(wire.Events{
		Now: s.clock.now, Start: s.group.Go,
		OnAnswered: c.onAnswered, OnFailed: c.onFailed, OnRequest: s.cfg.OnRequest,
		OnUnresolved: func(server string, err error) {
			c.logger.Warn("name not resolved; dialing its earlier addresses", zap.String("server", server),
				zap.Error(err))
		},
	})
	// The client itself sends no identities: each dial asks for them anew, so that an
	// expired token is not sent again.
	identities := func() []Auth { return s.cfg.Auth }
	if s.cfg.Identities != nil {
		identities = func() []Auth { return s.whoWeAre.dial(c) }
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	c.hosts = wire.NewHosts(s.servers.Hosts, rng)
	c.dialer = wire.NewDialer(context.Background(), c.link, wire.Dialing{
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
	if err != nil { // only a list without servers does that, and the parser refuses it
		c.dialer.Stop()
		s.cfg.Logger.Error("could not start a ZooKeeper client", zap.Error(err))
		s.reportReady(err)
		return
	}
	c.conn = conn
	s.group.Go(func() {
		// The channel drops events when it is full; the callback has them all.
		// Its end is the only sign that the client's goroutines have ended.
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

// reportReady reports to the callers that wait for the first session that there is one,
// or why there is none.
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

// onConnection handles the end of a handshake. If requests were left unanswered for so
// long that the servers may be stuck, a read comes first, and vouched calls onConnection
// again after its answer.
func (s *Session) onConnection(c *client, server string) {
	c.logger.Debug("connected", zap.String("server", server))
	switch {
	case s.cfg.Identities != nil && s.whoWeAre.isOver():
		c.hangUp() // a connection that was made with identities that are over
	case c.announced && c.stuck():
		// A stuck server may still complete handshakes. Requests wait until it has
		// answered a read.
		c.inflight++
		s.group.Go(func() {
			_, _, err := c.conn.Exists("/")
			s.loop.Hand(func() { s.vouched(c, server, err) })
		})
	case c.announced && (c.watches.Armed() || !c.looks.Empty()):
		// Requests wait for the watches: the client restores them by a request that
		// others can overtake. A request could then read what a missed event should have
		// announced, before the event.
		time.AfterFunc(min(restoreWait, c.link.Timeout()/10),
			func() { s.postFor(c, func() { s.restored(c) }) })
	case c.announced:
		s.resume(c)
	case c.phase.Load() == phaseDialing:
		// Requests made at once would race with the client, which still looks for watches
		// to restore, see [wire.FirstRequest].
		c.phase.Store(phaseYoung)
		time.AfterFunc(wire.FirstRequest, func() { s.postFor(c, func() { s.announce(c) }) })
	}
}

// stuck reports whether requests were left unanswered for so long that a handshake alone
// does not show that they will be answered now.
func (c *client) stuck() bool {
	debt := c.link.Owing()
	return !debt.IsZero() && c.clock.now().Sub(debt) >= wire.MostPatience(c.link.Timeout())
}

// onIdentityError takes the news that a server has refused the client's identity, or
// could not prove its own. The session continues, see turnedAway. It is reported once: a
// server that refuses an identity does so again with each connection.
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

// LongTick returns the servers' tickTime as implied by the timeout of the current
// session, if the lease assumes a shorter one, and 0 otherwise.
func (s *Session) LongTick() time.Duration {
	c := s.present()
	if c == nil {
		return 0
	}
	granted := c.link.Timeout()
	return longTick(s.cfg.Timeout.Truncate(time.Millisecond), granted, lease.Tick(s.cfg.Tick, granted))
}

// The bounds that servers set to a session timeout, in ticks, unless their configuration
// names others.
const (
	leastTicks = 2
	mostTicks  = 20
)

// longTick returns the servers' tickTime that follows from the timeout that they granted,
// if it is longer than the one that is configured, and 0 otherwise. Servers raise a short
// timeout to 2 ticks, and lower a long one to 20. If they left it as it was asked for,
// that implies nothing. It is a hint: a server's minSessionTimeout and maxSessionTimeout
// may set other bounds.
func longTick(asked, granted, told time.Duration) (tick time.Duration) {
	switch {
	case granted > asked:
		tick = granted / leastTicks
	case granted < asked:
		tick = granted / mostTicks
	}
	if tick <= told {
		return 0
	}
	return tick
}

// compareTimeout logs a session timeout that is not the one that was asked for, and what
// that implies. It returns what longTick does.
func (s *Session) compareTimeout(c *client) (long time.Duration) {
	asked, granted := s.cfg.Timeout.Truncate(time.Millisecond), c.link.Timeout() // as a request names it
	if asked == granted {
		s.clamped = 0
		return 0
	}
	told := lease.Tick(s.cfg.Tick, granted)
	long = longTick(asked, granted, told)
	if granted != s.clamped {
		s.clamped = granted
		c.logger.Warn("the servers have changed the session timeout", zapSession(c),
			zap.Duration("asked", asked), zap.Duration("granted", granted), zapServer(c))
		if long > 0 {
			c.logger.Warn("the servers' tickTime seems longer than WithTickTime says, so a loss may be reported too late", zapSession(c),
				zap.Duration("tickTime", long), zap.Duration("told", told), zapServer(c))
		}
	}
	return long
}

// suspend tells the seats that the connection is gone.
func (s *Session) suspend(c *client) {
	if !c.announced {
		return
	}
	c.looks.Suspended()
	// During the outage the one node of a lock may become another contender's, so nothing
	// deletes it by name before looking at it.
	c.owners.shake()
	if c.phase.Load() == phaseSuspended {
		return
	}
	c.phase.Store(phaseSuspended)
	clear(s.next) // after the outage all waiters list at once, and each would be new
	s.noteAway(true)
	lost := "connection lost"
	if time.Now().Before(c.deadline()) { // else its locks are lost, which has been logged
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
	// The broadcast below makes the machines verify what they know. An answer of an
	// earlier connection that is settled later counts as lost.
	c.resumed++
	// A warm session trusts watches and listings of the present connection only, see
	// warmth.
	c.watches.Resumed()
	for _, seat := range s.seats {
		seat.listed = false
	}
	s.compareTimeout(c)
	// The server has accepted the identities, so an old refusal explains no later error.
	s.mu.Lock()
	s.view.refuse = nil
	s.mu.Unlock()
	if suspended {
		s.noteAway(false)
		c.logger.Info("session resumed", zapSession(c), zapServer(c))
		s.news(events.Resumed{Session: c.link.Session()})
		s.broadcast(recipes.Reconnected{})
	}
	// Events between two connections may be lost, so every watcher looks again.
	s.renew()
	if s.quiet != nil {
		s.quiesce()
	}
	if c.pacer != nil {
		s.pace(c, 0) // the timeout may have become shorter
	}
}

// nextConnection returns a channel. It is closed when there is another connection that
// requests may be made on, or when the session is closed.
func (s *Session) nextConnection() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.renewed
}

// renew has all watchers look again. Once the session is closed the channel stays closed,
// because a call that is in progress by then may have begun since.
func (s *Session) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.view.renewed)
	if !s.view.closed {
		s.view.renewed = make(chan struct{})
	}
}

// expire handles the end of the session: a server reported it, or the wire would not let
// the client go on.
func (s *Session) expire(c *client) {
	if c.isOver() {
		return
	}
	// Callers find no session before an event or a seat reports its end.
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

// retire lets the requests in progress be answered until the grace is over, and then
// hangs up. After that it ends the client, and a server has the time of the farewell to
// answer that.
func (s *Session) retire(c *client, grace, farewell time.Duration) {
	c.phase.Store(phaseOver)
	c.farewell = time.Now().Add(grace + farewell)
	c.stopAsking()
	if c.pacer != nil {
		c.pacer.Stop() // it would keep all of the past session for a while
	}
	// The client must not end while a request is in progress (see [Session.endClient]),
	// and a later answer could find no session to take it.
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
				c.hangUp() // which answers them, and the last answer ends the client
			}
		})
	})
}

// show publishes which client has a session, before anything reports it.
func (s *Session) show(c *client) {
	s.mu.Lock()
	s.view.client = c
	s.mu.Unlock()
	s.noteAway(c == nil && !s.closing)
}

// happened takes what the client's callback was called with.
func (s *Session) happened(c *client, ev zk.Event) {
	switch ev.Type {
	case zk.EventNodeDeleted:
		s.tellGone(c, ev.Path, true)
		if !c.looks.Empty() {
			s.tellChanged(c, ofChildren.key(ev.Path), true)
			s.tellChanged(c, ofData.key(ev.Path), true)
		}
	case zk.EventNodeDataChanged:
		// The event has used up the watch. Without another one, the end of the node would
		// go unnoticed.
		if c.watches.Changed(ev.Path) {
			c.rewatch(ev.Path)
		}
		s.rewritten(c, ev.Path)
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
		default: // on its way to one of these
		}
	default:
		// The expiry that caused it reports each watch that is gone.
	}
}

// turnedAway is for a server that did not answer the handshake, or not what has to
// follow. It gives up a session that no server takes back. A server does not answer a
// client that has seen a later state than the server's own. It does so for a moment if it
// lags behind. If the ensemble has lost its data it does so forever, and then no server
// will say that the session is over.
//
// A new leader gives every session its full time once more, so the session can be alive
// until two timeouts after the last answer. A server that answers the handshake and then
// refuses the client's identity, or falls silent, gives the session its full time each
// time. Without this, no other session would ever get what it holds.
func (s *Session) turnedAway(c *client, err error) {
	end := c.lease.State().Optimistic
	if end.IsZero() || s.clock.now().Sub(end) < c.link.Timeout() {
		return
	}
	c.logger.Warn("no server resumes the session; giving it up", zap.Error(err))
	s.expire(c)
}

// announce reports a new session, which is old enough for requests.
func (s *Session) announce(c *client) {
	if c.conn.State() != zk.StateHasSession {
		c.phase.Store(phaseDialing) // it begins again with the next connection
		return
	}
	c.announced = true
	c.phase.Store(phaseUp)
	s.show(c)
	c.logger.Info("session established", zapSession(c), zap.Duration("timeout", c.link.Timeout()),
		zapServer(c))
	long := s.compareTimeout(c)
	s.news(events.Connected{
		Session: c.link.Session(), Timeout: c.link.Timeout(), Server: c.conn.Server(), LongTick: long,
	})
	s.broadcast(recipes.Opened{Epoch: c.epoch, Session: c.link.Session()})
	s.renew()
	if s.quiet != nil {
		s.quiesce()
	}
	s.reportReady(nil)
}

// restored continues when the watches were restored, or their time is over.
func (s *Session) restored(c *client) {
	if c.phase.Load() == phaseSuspended && c.conn.State() == zk.StateHasSession {
		s.resume(c)
	}
}

// vouched continues with a connection that has answered a request, after one that left
// requests unanswered.
func (s *Session) vouched(c *client, server string, err error) {
	defer s.finish(c)
	if outcome, _ := zkerr.Classify(err); outcome == zkerr.Unknown {
		return // another connection follows
	}
	if c.phase.Load() == phaseSuspended && c.conn.State() == zk.StateHasSession {
		s.onConnection(c, server)
	}
}

// onEvent takes an event of the client. It does not block.
func (c *client) onEvent(ev zk.Event) {
	s := c.session
	if ev.State == zk.StateHasSession {
		select {
		case c.greeted <- struct{}{}:
		default:
		}
	}
	switch ev.Type {
	case zk.EventNotWatching: // one for each watch of a session that has ended, which is reported once
	case zk.EventSession:
		s.postFor(c, func() { s.happened(c, ev) }) // the client may hold any of its locks
	default:
		if c.isOver() {
			return // each node that is deleted with the session has its event
		}
		s.loop.Hand(func() {
			if !c.isOver() {
				s.happened(c, ev)
			}
		})
	}
}

// onAnswered takes an answered request. It is called before the client gets the answer.
func (c *client) onAnswered(a wire.Answer) {
	s := c.session
	// The lease counts from the sending, the earliest moment at which the servers can have
	// renewed the session.
	if c.lease.Answered(a.Sent, a.Answered, a.Op, a.Err, a.Timeout) {
		// The lease had run out, and another session may have seen that.
		s.loop.Post(func() { s.renewedLate(c) })
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
			c.told.Store(true)
		}
	case opcode.CreateContainer:
		if a.Err == zkerr.CodeNone && a.Container != "" {
			s.loop.Post(func() { s.madeContainer(a.Container, a.Zxid) })
		}
	case opcode.SetWatches:
		if a.Err != zkerr.CodeNone {
			s.loop.Post(func() { s.rearmAll(c) }) // the client itself only logs it
		}
		// Requests have waited for this answer, see onConnection.
		s.postFor(c, func() {
			if a.Restored {
				c.looks.Restored()
			}
			s.restored(c)
		})
	}
}

// onFailed takes the error of a connection that could not be made, or has ended.
func (c *client) onFailed(err error) {
	s := c.session
	switch {
	case errors.Is(err, wire.ErrReplaced): // the client was not allowed to continue
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

// rewatch watches a path again for its subscribers. Neither it nor the next two block.
func (c *client) rewatch(path string) { c.session.submit(&rearm{epoch: c.epoch, node: path}) }

// verify finds out whether the seat's node is still there.
func (c *client) verify(t *Seat) { c.session.submit(&verification{epoch: c.epoch, seat: t}) }

// askedBack passes a revocation request on to the owner of the node.
func (c *client) askedBack(node string, wish asking) {
	c.session.loop.Post(func() { c.session.askBack(c, node, wish) })
}

// An outage is logged when it lasts.
const (
	// firstNotice is after how long without a connection it is logged. A server that
	// restarts is back by then, or another one is found.
	firstNotice = 3 * time.Second
	// laterNotice is after how long it is logged once more.
	laterNotice = time.Minute
)

// errTrying represents the cause while the first attempt continues.
var errTrying = errors.New("the first attempt goes on")

// noteAway starts the timer when there is no connection, and stops it when there is one.
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

// noticeOutage logs that there has been no connection for long. Its timer may be that of
// an earlier time without one.
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

// endClient ends the session of a client if the server can be reached by the time of the
// farewell, and the client's goroutines in any case. No request may be in progress or be
// made meanwhile: the client answers a request twice that is queued while the client
// quits, and has not always room for both answers.
func (s *Session) endClient(c *client) {
	if c.phase.Load() == phaseEnding {
		return
	}
	c.phase.Store(phaseEnding)
	s.group.Go(func() {
		c.dialer.Stop()
		// A server that does not answer the farewell must not keep the client alive.
		timer := time.AfterFunc(time.Until(c.farewell), c.hangUp)
		defer timer.Stop()
		// A connection that is being made is waited for: a session that is just beginning
		// should be ended and not forgotten. If there is no connection by then, the
		// dialer's farewell stands in.
		for !c.dialer.Leave() || c.conn.State() != zk.StateHasSession { // in this order: Leave keeps the state
			<-c.greeted
		}
		c.conn.Close()
		<-c.ended
		c.hangUp()
		s.loop.Post(func() {
			delete(s.living, c)
			if s.closing {
				s.checkClosed()
			}
		})
	})
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
