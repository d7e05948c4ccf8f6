package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// parallel bounds the requests that are under way at a time. Each takes a
// goroutine; the server executes those of one session one after the other.
const parallel = 256

// State is what a health check wants to know.
type State uint8

const (
	// Connecting means that there is no session yet, or not any more.
	Connecting State = iota + 1
	// Connected means that there is a session and a connection.
	Connected
	// Suspended means that there is a session and no connection.
	Suspended
	// Closed is for good.
	Closed
)

// String names the state in lower case.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Suspended:
		return "suspended"
	case Closed:
		return "closed"
	default:
		return "unknown"
	}
}

// Session keeps one ZooKeeper session at a time, with a new one after each
// expiry. Its methods may be called from any goroutine.
type Session struct {
	servers Servers
	chroot  string
	cfg     Config
	group   *actors.Group
	news    func(events.Event)
	actor   *actors.Actor[message]
	first   chan error    // size 1: the first session is there, or never will be
	closed  chan struct{} // closed when the last client has ended

	// Only the drain touches these.
	client  *client
	living  int // clients that have not ended
	seats   map[*Seat]struct{}
	parked  []*request // waiting for a connection or for room
	running int
	closing bool

	mu   sync.Mutex
	view view
}

// view is what others may see of the actor's state.
type view struct {
	state   State
	client  *client // nil unless there is a session
	lasterr error
}

// Open starts a session with one of the servers and waits for it until ctx ends.
// Events about the session go to news, which must not block; the goroutines
// belong to the group.
func Open(ctx context.Context, servers Servers, cfg Config, group *actors.Group, news func(events.Event)) (*Session, error) {
	s := &Session{
		servers: servers, chroot: servers.Chroot, cfg: cfg, group: group, news: news,
		first: make(chan error, 1), closed: make(chan struct{}), seats: map[*Seat]struct{}{},
		view: view{state: Connecting},
	}
	s.actor = actors.NewActor(group, s.handle)
	s.actor.Post(begin{})
	var err error
	select {
	case err = <-s.first:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if last := s.lastError(); last != nil {
			err = fmt.Errorf("%w (%w)", err, last)
		}
	}
	if err != nil {
		s.Close(0)
		return nil, fmt.Errorf("zkgrant: no session with %v: %w", servers, err)
	}
	return s, nil
}

// Close ends the session. Requests under way get the grace to be answered. It
// returns when nothing of the session is left in this process. The last that
// seats hear is Expired.
func (s *Session) Close(grace time.Duration) {
	s.actor.Post(shut{grace})
	<-s.closed
}

// State returns where the session stands.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.state
}

// ID returns the id of the current session, or 0.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.client == nil {
		return 0
	}
	return s.view.client.link.session()
}

// Timeout returns the session timeout as negotiated, or as asked for while there
// is no session.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.client == nil {
		return s.cfg.Timeout
	}
	return s.view.client.link.timeout()
}

func (s *Session) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.lasterr
}

func (s *Session) inEpoch(epoch recipes.Epoch) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.view.client; c != nil && c.epoch == epoch {
		return c
	}
	return nil
}

func (s *Session) deadline(epoch recipes.Epoch) time.Time {
	if c := s.inEpoch(epoch); c != nil {
		return c.lease.deadline()
	}
	return time.Time{}
}

func (s *Session) sessionID(epoch recipes.Epoch) int64 {
	if c := s.inEpoch(epoch); c != nil {
		return c.link.session()
	}
	return 0
}

// message is what the session actor's mailbox takes: the types below.
type message interface{}

type (
	begin    struct{} // make the first client
	happened struct {
		c  *client
		ev zk.Event
	} // the client's callback
	replaced struct {
		c   *client
		err error
	} // the wire has ended the session
	turnedAway struct {
		c   *client
		err error
	} // by a server that did not answer the handshake
	greeted struct {
		c   *client
		err error
	} // the identities were added, or not
	settled  struct{ c *client } // the watches were restored, or have had their time
	ticked   struct{ c *client } // the lease may have run out
	entered  struct{ seat *Seat }
	left     struct{ seat *Seat }
	answered struct {
		*request
		c   *client
		in  recipes.Input
		err error
	}
	overdue struct{ c *client } // the grace for requests under way is over
	ended   struct{ c *client } // the client is gone
	shut    struct{ grace time.Duration }
)

// request is work for one of the client's blocking calls.
type request struct {
	seat    *Seat
	epoch   recipes.Epoch // 0: whatever comes next
	op      recipes.Op
	run     func(*client) (recipes.Input, error)
	discard string // a node to remove, in any epoch
	rearm   string // a path to watch again
}

// handle is the drain's.
func (s *Session) handle(m message) {
	switch m := m.(type) {
	case begin:
		s.connect(1)
	case happened:
		s.onEvent(m.c, m.ev)
	case replaced:
		m.c.logger.Info("the session is over", zap.Error(m.err))
		s.expire(m.c)
	case turnedAway:
		s.onTurnedAway(m.c, m.err)
	case greeted:
		s.onGreeted(m.c, m.err)
	case settled:
		if m.c == s.client && !m.c.up && m.c.opened && m.c.conn.State() == zk.StateHasSession {
			s.resume(m.c)
		}
	case ticked:
		s.onTick(m.c)
	case entered:
		s.onEntered(m.seat)
	case left:
		delete(s.seats, m.seat)
		m.seat.leave(s.client)
	case *request:
		s.onRequest(m)
	case answered:
		s.onAnswered(m)
	case overdue:
		if !m.c.closing {
			m.c.logger.Warn("requests are not answered; hanging up", zap.Int("requests", m.c.inflight))
			m.c.hangUp() // which answers them, and the last answer ends the client
		}
	case ended:
		s.living--
		s.checkClosed()
	case shut:
		s.onShut(m.grace)
	}
}

// connect makes the client of an epoch.
func (s *Session) connect(epoch recipes.Epoch) {
	c, err := s.newClient(epoch)
	if err != nil { // only a list without servers does that, and the parser refuses it
		s.cfg.Logger.Error("could not start a client", zap.Error(err))
		s.tellFirst(err)
		return
	}
	s.client = c
	s.living++
}

func (s *Session) tellFirst(err error) {
	select {
	case s.first <- err:
	default:
	}
}

func (s *Session) onEvent(c *client, ev zk.Event) {
	if c != s.client || c.over {
		return
	}
	switch ev.Type {
	case zk.EventNodeDeleted:
		s.tellGone(c, ev.Path)
	case zk.EventNodeDataChanged:
		if c.watches.changed(ev.Path) {
			c.rewatch(ev.Path)
		}
	case zk.EventSession:
		s.onState(c, ev)
	default:
		// Children are not watched, and what is not watched any more is told by
		// the expiry that caused it.
	}
}

func (s *Session) onState(c *client, ev zk.Event) {
	switch ev.State {
	case zk.StateHasSession:
		s.onConnection(c, ev.Server)
	case zk.StateDisconnected:
		s.noteError(c)
		s.suspend(c)
	case zk.StateExpired:
		s.expire(c)
	default:
		s.noteError(c)
	}
}

func (s *Session) noteError(c *client) {
	err := c.dialer.lastError()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.view.lasterr = err
	}
}

// onConnection: the handshake of a connection is done.
func (s *Session) onConnection(c *client, server string) {
	c.logger.Debug("connected", zap.String("server", server), zap.Duration("timeout", c.link.timeout()))
	switch {
	case c.opened && c.watches.any():
		// Requests wait for the watches: the client restores them by a request
		// that others can overtake, so what a missed event should have announced
		// could be read before the event.
		time.AfterFunc(min(settleMax, c.link.timeout()/10), func() { s.actor.Post(settled{c}) })
	case c.opened:
		s.resume(c)
	case !c.greeting:
		c.greeting = true
		s.begin(c, func() message { return greeted{c, c.addAuth(s.cfg.Auth)} })
	}
}

// begin counts what runs in the client, so that it is not closed meanwhile.
func (s *Session) begin(c *client, run func() message) {
	c.inflight++
	s.running++
	s.group.Go(func() { s.actor.Post(run()) })
}

// finish is the counterpart of begin.
func (s *Session) finish(c *client) {
	c.inflight--
	s.running--
	if c.over && c.inflight == 0 {
		s.endClient(c)
	}
	s.pump()
}

// onGreeted announces the session.
func (s *Session) onGreeted(c *client, err error) {
	defer s.finish(c)
	c.greeting = false
	if c != s.client || c.over {
		return
	}
	if err != nil {
		c.logger.Warn("the identities were not accepted", zap.Error(err))
		if rejected(err) {
			s.tellFirst(fmt.Errorf("%w: %w", ErrNoAuth, err))
		}
		if c.conn.State() == zk.StateHasSession && !rejected(err) {
			c.greeting = true
			s.begin(c, func() message { return greeted{c, c.addAuth(s.cfg.Auth)} })
		}
		return // else with the next connection
	}
	c.opened, c.up = true, true
	s.show(c, Connected)
	s.news(events.Connected{Session: c.link.session(), Timeout: c.link.timeout(), Server: c.conn.Server()})
	s.broadcast(recipes.Opened{Epoch: c.epoch, Session: c.link.session()})
	s.schedule(c)
	s.tellFirst(nil)
	if c.conn.State() != zk.StateHasSession {
		s.suspend(c) // its event came while the identities were being added
	}
}

// suspend: the connection is gone.
func (s *Session) suspend(c *client) {
	if !c.opened {
		return
	}
	was := s.State()
	c.up = false
	if was != Connected {
		return
	}
	s.show(c, Suspended)
	s.news(events.Suspended{Deadline: c.lease.deadline()})
	s.broadcast(recipes.Suspended{})
}

// resume: the same session has a connection again.
func (s *Session) resume(c *client) {
	c.up = true
	if s.State() == Suspended {
		s.show(c, Connected)
		s.news(events.Resumed{})
		s.broadcast(recipes.Reconnected{})
	}
	s.believable(c)
	s.pump()
}

// expire: the session is over, by a server's word or because the wire would not
// let the client go on.
func (s *Session) expire(c *client) {
	if c != s.client || c.over {
		return
	}
	s.show(nil, Connecting)
	if c.opened {
		s.news(events.SessionExpired{Session: c.link.session()})
		s.broadcast(recipes.Expired{})
	}
	s.retire(c, farewell)
	s.connect(c.epoch + 1)
	s.sweep()
}

// onTurnedAway gives the session up that no server takes back. A server does not
// answer a client that has seen more than itself: for a moment if it lags behind,
// for ever if the ensemble has lost its data, and then nobody will say that the
// session is over. A new leader gives every session its full time once more, so
// it takes one timeout beyond the lease until nothing can be left of it.
func (s *Session) onTurnedAway(c *client, err error) {
	end := c.lease.deadline()
	if c != s.client || c.over || end.IsZero() || time.Since(end) < c.link.timeout() {
		return
	}
	c.logger.Warn("no server takes the session back; giving it up", zap.Error(err))
	s.expire(c)
}

// retire lets the requests under way be answered, by hanging up when the grace is
// over, and then ends the client. Not before: no request may be under way then
// (see [client.close]), and an answer that came later could find no session to
// take it.
func (s *Session) retire(c *client, grace time.Duration) {
	c.over, c.up = true, false
	if c.inflight == 0 {
		s.endClient(c)
		return
	}
	c.stop()
	time.AfterFunc(grace, func() { s.actor.Post(overdue{c}) })
}

func (s *Session) endClient(c *client) {
	if c.closing {
		return
	}
	c.closing = true
	s.group.Go(func() {
		c.close()
		s.actor.Post(ended{c})
	})
}

// show publishes the actor's state, before anybody is told of it.
func (s *Session) show(c *client, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.client, s.view.state = c, state
}

func (s *Session) broadcast(in recipes.Input) {
	for seat := range s.seats {
		seat.post(in, nil)
	}
}

func (s *Session) tellGone(c *client, path string) {
	for _, seat := range c.watches.gone(path) {
		seat.post(recipes.Gone{Epoch: c.epoch, Node: seat.name(path)}, nil)
	}
}

// tellUnwatched has whoever is interested look again, and hear from the server
// itself why the node cannot be watched.
func (s *Session) tellUnwatched(c *client, path string) {
	for _, seat := range c.watches.gone(path) {
		seat.post(recipes.Unknown{Epoch: c.epoch, Op: recipes.OpWatch}, nil)
	}
}

func (s *Session) onEntered(seat *Seat) {
	s.seats[seat] = struct{}{}
	if c := s.client; c.opened && !c.over {
		seat.post(recipes.Opened{Epoch: c.epoch, Session: c.link.session()}, nil)
		if s.State() == Suspended {
			seat.post(recipes.Suspended{}, nil)
		}
	}
}

// schedule has the lease looked at when it may have run out.
func (s *Session) schedule(c *client) {
	time.AfterFunc(time.Until(c.lease.deadline()), func() { s.actor.Post(ticked{c}) })
}

func (s *Session) onTick(c *client) {
	switch {
	case c != s.client || c.over || c.leaseOut:
	case time.Now().Before(c.lease.deadline()):
		s.schedule(c)
	default:
		c.leaseOut = true
		s.broadcast(recipes.LeaseRanOut{})
	}
}

// believable tells whether the lease is good, and has it watched again if it had
// run out. It is asked in the order in which LeaseRanOut is sent, so whoever is
// told that a claim is fresh will hear of the end of that lease.
func (s *Session) believable(c *client) bool {
	if c != s.client || c.over || !time.Now().Before(c.lease.deadline()) {
		return false
	}
	if c.leaseOut {
		c.leaseOut = false
		s.schedule(c)
	}
	return true
}

func (s *Session) onRequest(r *request) {
	if s.late(r) {
		s.refuse(r) // those before it may wait for a connection, and it need not
		return
	}
	s.parked = append(s.parked, r)
	s.pump()
}

// late tells whether it is too late for the request.
func (s *Session) late(r *request) bool {
	c := s.client
	return s.closing || r.epoch != 0 && (c == nil || c.over || r.epoch != c.epoch)
}

// sweep answers every request that is too late.
func (s *Session) sweep() {
	s.parked = slices.DeleteFunc(s.parked, func(r *request) bool {
		late := s.late(r)
		if late {
			s.refuse(r)
		}
		return late
	})
}

// pump starts what can be started, in order.
func (s *Session) pump() {
	c := s.client
	for len(s.parked) > 0 {
		if !c.up || s.running >= parallel {
			return
		}
		r := s.parked[0]
		s.parked = s.parked[1:]
		if s.late(r) { // one that was to be made again
			s.refuse(r)
			continue
		}
		s.begin(c, func() message {
			a := answered{request: r, c: c}
			switch {
			case r.discard != "":
				if c.discard(r.discard) {
					a.in = recipes.Unknown{}
				}
			case r.rearm != "":
				a.in = c.rearm(r.rearm)
			default:
				a.in, a.err = r.run(c)
			}
			return a
		})
	}
	s.parked = nil
}

// refuse answers a request that will not be made.
func (s *Session) refuse(r *request) {
	if r.run != nil {
		r.seat.post(recipes.Unknown{Epoch: r.epoch, Op: r.op}, nil)
	}
}

func (s *Session) onAnswered(a answered) {
	defer s.finish(a.c)
	switch {
	case a.discard != "":
		if a.in != nil {
			s.parked = append(s.parked, a.request)
		}
	case a.rearm != "":
		switch a.in.(type) {
		case recipes.Gone:
			s.tellGone(a.c, a.rearm)
		case recipes.Unknown:
			s.parked = append(s.parked, a.request)
		case recipes.Refused:
			s.tellUnwatched(a.c, a.rearm)
		default: // it is armed
		}
	case a.in != nil:
		if a.err != nil {
			a.c.logger.Debug("request failed", zap.Stringer("request", a.op), zap.String("dir", a.seat.dir), zap.Error(a.err))
		}
		if claimed, ok := a.in.(recipes.Claimed); ok {
			claimed.Fresh = s.believable(a.c)
			a.in = claimed
		}
		a.seat.post(a.in, a.err)
	}
}

func (s *Session) onShut(grace time.Duration) {
	if s.closing {
		return
	}
	s.closing = true
	s.show(nil, Closed)
	s.broadcast(recipes.Expired{}) // or they would make their requests again and again
	clear(s.seats)
	if s.client != nil {
		s.retire(s.client, grace)
	}
	s.sweep()
	s.checkClosed()
}

func (s *Session) checkClosed() {
	if s.closing && s.living == 0 {
		close(s.closed)
	}
}
