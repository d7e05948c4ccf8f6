package session

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/wire"
)

// State is the state of the session, such as for a health check.
type State uint8

const (
	// Connecting means that there is no session yet, or not any more.
	Connecting State = iota + 1
	// Connected means that there is a session and a connection.
	Connected
	// Suspended means that there is a session but no connection.
	Suspended
	// Closed means that the session was closed, for good.
	Closed
)

// String returns the name of the state in lower case.
func (s State) String() string {
	names := [...]string{"unknown", "connecting", "connected", "suspended", "closed"}
	if int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

// Session has one ZooKeeper session at a time, and starts a new one after each expiry.
// Its methods are safe for concurrent use.
type Session struct {
	servers Servers
	chroot  string
	cfg     Config
	group   *actors.Group
	news    func(events.Event)
	clock   clock
	plain   map[events.Kind]*content // shared by seats without settings of their own
	loop    *actors.Loop
	first   chan struct{} // closed when view has the outcome of the first session
	closed  chan struct{} // closed when the last client has ended

	leaders    followers[events.Leader, events.Leader]
	queues     followers[QueueNodes, []events.Contender]
	names      *wire.Names // nil: the dialer gets host names
	whoWeAre   credentials
	containers containerNodes

	// Only the loop touches these.
	leftovers leftovers
	client    *client              // Close also reads it, once everything is closed
	living    map[*client]struct{} // clients that have not ended
	away      *time.Timer          // logs an outage; nil while there is a connection
	awaySince time.Time
	clamped   time.Duration           // the servers' timeout that was logged; 0: it was as requested
	seats     []*Seat                 // the seats that receive news, each at index Seat.place
	holders   map[*Seat]string        // the seats whose lease is kept, with their nodes; see prove
	unwatched map[*Seat]struct{}      // the seats whose nodes are not watched yet
	next      map[*Seat]time.Time     // the seats next in line, and until when to stay warm for each
	deadlines map[*Seat]deadline      // of the seats with a revocation request
	delays    map[*Seat]*time.Timer   // of the seats that have waited for a lock-delay, the latest of each
	pending   pending                 // the requests that wait to be made
	quiet     chan<- struct{}         // closed when the last flight was answered; nil: Quiesce does not wait
	last      bool                    // the last flight was sent: no more requests are
	joinable  map[string]*seatRequest // unsent deletes that a create may join, by directory
	budget    budget.Budget           // for the session's nodes; see [seeker]
	nodes     budget.Nodes            // created by users' transactions
	roomless  []roomRequest           // the requests that wait for room in the budget, oldest first
	waiting   budget.Load             // the room that they need in all
	closing   bool

	mu   sync.Mutex
	view view
}

// view is the part of the session's state that other goroutines may see.
type view struct {
	closed  bool
	client  *client       // nil unless there is a session
	dialer  *wire.Dialer  // of the latest client
	ready   bool          // there was a session
	renewed chan struct{} // see nextConnection
	fill    Fill
	refuse  error // why no session can be used, such as a refused identity; nil once one is
}

// Open starts a session with one of the servers, which lasts until Close. It passes the
// session's events to news, which must not block. All goroutines belong to the group.
func Open(servers Servers, cfg Config, group *actors.Group, news func(events.Event)) *Session {
	s := &Session{
		servers: servers, chroot: servers.Chroot, cfg: cfg, group: group, news: news,
		first: make(chan struct{}), closed: make(chan struct{}), clock: clock{cfg.Asleep},
		plain:    plainContents(cfg.ACL),
		whoWeAre: credentials{source: cfg.Identities},
		living:   map[*client]struct{}{},
		holders:  map[*Seat]string{}, unwatched: map[*Seat]struct{}{}, next: map[*Seat]time.Time{},
		deadlines: map[*Seat]deadline{}, delays: map[*Seat]*time.Timer{}, joinable: map[string]*seatRequest{},
		budget: budget.New(cfg.NodeBudget),
		view:   view{fill: Fill{Budget: cfg.NodeBudget}, renewed: make(chan struct{})},
	}
	if s.clock.asleep == nil {
		var err error
		if s.clock.asleep, err = asleep(); err != nil {
			cfg.Logger.Warn("cannot read the boot-time clock; time while the machine is suspended does not count", zap.Error(err))
		}
	}
	if cfg.Lookup != nil || cfg.Dial == nil {
		s.names = wire.NewNames(cfg.Lookup, group.Go)
	}
	if cfg.OnFill != nil {
		cfg.OnFill(s.view.fill)
	}
	s.leaders.session, s.leaders.what = s, "cannot read the election's leader"
	s.leaders.same, s.leaders.subject = sameWord, newLeaderWatch
	s.queues.session, s.queues.what = s, "cannot read the lock's queue"
	s.queues.same, s.queues.subject, s.queues.paced = sameNodes, newQueueWatch, true
	s.loop = actors.NewLoop(group, s.pump)
	s.loop.Post(func() {
		s.noteAway(true)
		s.connect(1)
	})
	return s
}

// Ready waits for the first session. It fails if a server refuses an identity, or if ctx
// ends, with the cause of ctx and the latest connection error. The session keeps trying,
// and Ready may be called again.
func (s *Session) Ready(ctx context.Context) error {
	select {
	case <-s.first:
	case <-ctx.Done():
	}
	s.mu.Lock()
	ready, err := s.view.ready, s.view.refuse
	s.mu.Unlock()
	if ready {
		return nil
	}
	if err == nil {
		err = context.Cause(ctx)
		if last := s.lastError(); last != nil {
			err = fmt.Errorf("%w (%w)", err, last)
		}
	}
	return fmt.Errorf("zkgrant: no session with %v: %w", s.servers, err)
}

// State returns the state of the session.
func (s *Session) State() State {
	s.mu.Lock()
	c, closed := s.view.client, s.view.closed
	s.mu.Unlock()
	switch {
	case closed:
		return Closed
	case c == nil:
		return Connecting
	case c.phase.Load() == phaseSuspended:
		return Suspended
	default:
		return Connected
	}
}

// Loop returns the loop of the session, in which its locks run, too.
func (s *Session) Loop() *actors.Loop { return s.loop }

// present returns the client of the current session, or nil if there is none.
func (s *Session) present() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.client
}

// ID returns the ID of the current session, or 0.
func (s *Session) ID() int64 {
	c := s.present()
	if c == nil {
		return 0
	}
	return c.link.Session()
}

// Timeout returns the negotiated session timeout, or the requested one while there is no
// session.
func (s *Session) Timeout() time.Duration {
	c := s.present()
	if c == nil {
		return s.cfg.Timeout
	}
	return c.link.Timeout()
}

// lastError returns why the latest connection failed.
func (s *Session) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.dialer == nil {
		return nil
	}
	return s.view.dialer.LastError()
}

func (s *Session) inEpoch(epoch recipes.Epoch) *client {
	if c := s.present(); c != nil && c.epoch == epoch {
		return c
	}
	return nil
}

// Interval returns [Session.Interval].
func (t *Seat) Interval() time.Duration { return t.session.Interval() }

// Interval returns the longest time without a write while a lock is held.
func (s *Session) Interval() time.Duration {
	c := s.present()
	if c == nil {
		return s.cfg.Timeout / probePart
	}
	return s.interval(c)
}

// Answers reports whether there is a connection whose server answers in time.
func (s *Session) Answers() bool {
	c := s.present()
	if c == nil || c.phase.Load() != phaseUp {
		return false
	}
	_, since := c.dialer.Owing()
	return since.IsZero() || c.clock.now().Sub(since) < c.link.Timeout()/3
}

// Calm reports whether there is a connection whose server has not turned away a request
// lately.
func (s *Session) Calm() bool {
	c := s.present()
	return c != nil && c.phase.Load() == phaseUp && c.throttle.Calm(c.clock.now(), c.link.Timeout())
}

// yieldTime returns how long a Try waits for an idle node of a cached lock to go: two
// round trips plus [DefaultCacheFor].
func (s *Session) yieldTime() time.Duration {
	const trips = 2
	c := s.present()
	if c == nil {
		return DefaultCacheFor
	}
	return DefaultCacheFor + trips*c.lease.State().Took
}

// Patience returns how long it is worth waiting for the end of the session: the session
// timeout, minus the time for which the servers have owed an answer already. After that,
// the session is over at the servers, too. It is never 0, in case a server has just come
// back.
func (s *Session) Patience() time.Duration {
	c := s.present()
	if c == nil {
		return s.cfg.Timeout
	}
	timeout, now := c.link.Timeout(), s.clock.now()
	_, since := c.dialer.Owing()
	switch debt := c.link.Owing(); {
	case !debt.IsZero():
		since = debt
	case c.phase.Load() == phaseSuspended:
		since = c.lease.State().Heard // requests sent since then were lost with the connection
	case since.IsZero():
		since = now
	}
	return max(timeout-now.Sub(since), timeout/wire.LeastPatience)
}

// Close ends the session, and returns no later than the end of ctx, which must have a
// deadline. Requests in progress get two thirds of the time, and then a server gets the
// last third to confirm the end of the session. No other requests are sent: nodes that
// they would delete are deleted with the session, in one transaction.
//
// When Close returns, nothing of the session is left in this process. Close reports
// whether nothing is left at the servers either: one of them has confirmed that, or there
// was no session. Each seat receives Expired before Close returns, so holders have lost
// their locks by then.
func (s *Session) Close(ctx context.Context) (gone bool) {
	deadline, _ := ctx.Deadline()
	s.loop.Post(func() { s.shut(max(0, time.Until(deadline))) })
	select {
	case <-s.closed:
	case <-ctx.Done():
		s.loop.Post(s.hangUpAll)
		<-s.closed
	}
	c := s.client
	if c != nil && c.announced {
		c.logger.Info("session closed", zapSession(c), zap.Bool("confirmed", c.confirmed.Load()))
	}
	return c == nil || !c.announced || c.confirmed.Load()
}

// Quiesce waits until every sent request is answered, or ctx ends. It lets one last batch
// be sent, on the next connection if there is none now, and nothing after that. It is
// called once, before Close.
func (s *Session) Quiesce(ctx context.Context) {
	quiet := make(chan struct{})
	begun := s.loop.Post(func() {
		s.quiet = quiet
		s.quiesce()
	})
	if !begun {
		return
	}
	select {
	case <-quiet:
	case <-ctx.Done():
	}
}

// checkClosed completes Close, if the session is closing, once no client is left.
func (s *Session) checkClosed() {
	if s.closing && len(s.living) == 0 {
		close(s.closed)
	}
}

// shut ends the session within the grace.
func (s *Session) shut(grace time.Duration) {
	if s.closing {
		return
	}
	s.closing = true
	if s.names != nil {
		s.names.Stop() // so that no stopped dialer waits for a lookup
	}
	s.mu.Lock()
	s.view.closed = true
	s.mu.Unlock()
	s.show(nil)
	if s.client != nil {
		// The servers would keep bare directories forever.
		s.removeBare(s.client)
		s.retire(s.client, 2*grace/3, grace/3)
	}
	// End the machines now, or they would repeat their requests while the servers end the
	// session.
	s.broadcast(recipes.Expired{})
	s.seats = nil
	s.renew()
	s.sweep()
	s.checkClosed()
}

// hangUpAll hangs up on all remaining clients, without ending their sessions.
func (s *Session) hangUpAll() {
	for c := range s.living {
		c.dialer.Stop()
		c.hangUp()
	}
}

// plainContents returns the contents shared by seats of a queue without settings of their
// own.
func plainContents(acl []zk.ACL) map[events.Kind]*content {
	all := map[events.Kind]*content{}
	for _, kind := range [...]events.Kind{
		events.KindLock, events.KindRead, events.KindWrite, events.KindKazooLock, events.KindKazooRead,
	} {
		all[kind] = &content{kind: kind, data: dataOf(kind, nil), acl: acl}
	}
	return all
}

// Seat returns a seat for the place. It does nothing before Open is called.
func (s *Session) Seat(p Place) *Seat {
	if p.Kind == 0 {
		p.Kind = events.KindLock
	}
	t := &Seat{session: s, dir: under(s.chroot, p.Dir), content: s.plain[p.Kind]}
	// Most locks have no special settings, and share the content of their kind.
	plain := p.Data == nil && p.ACL == nil && p.In == nil && p.Size <= 0 && p.Marks == 0 &&
		p.Delay == 0 && p.Members == nil
	if t.content == nil || !plain {
		t.content = &content{
			kind: p.Kind, marks: p.Marks, data: dataOf(p.Kind, p.Data), acl: p.ACL,
			in: p.In, lent: p.In.fence(), delay: p.Delay,
		}
		if p.ACL == nil {
			t.acl = s.cfg.ACL
		}
	}
	switch {
	case p.Kind == events.KindUnfair:
		t.layout, t.single = recipes.LayoutNode, &single{node: t.dir, glance: p.Try}
		t.dir = path.Dir(t.dir)
	case p.Size > 0:
		t.permits, t.several = &permits{
			root: t.dir, dir: path.Join(t.dir, permitDir), size: path.Join(t.dir, SizeNode),
			opinion: p.Size, wanted: p.Permits,
		}, &ownNodes{}
		t.dir = path.Join(t.dir, queueDir)
	case p.In != nil:
		t.layout = recipes.LayoutPlace
	case p.Members != nil:
		t.layout, t.members, t.several = recipes.LayoutSeveral, s.members(p.Members), &ownNodes{}
	}

	// A request has a limited size. Permits take half of it at most, and the deletes that
	// join them the other half.
	const mostOfIt, name = MaxRequest / 8, 128
	size := len(t.dir) + len(t.data) + SizeOfACL(t.acl) + TimeoutSize
	if t.permits != nil {
		size = max(size, (size+name)*int(t.permits.wanted)/4)
	}
	t.brief = size < mostOfIt
	return t
}

// dataOf returns the data of a node. When kazoo lists contenders, it omits nodes without
// data, but not those with empty data.
func dataOf(kind events.Kind, data []byte) []byte {
	if data == nil && kind.Kazoo() {
		return []byte{}
	}
	return data
}

// Place describes where an acquisition queues up, and as what.
type Place struct {
	Dir   string        // the lock's directory, without the chroot
	Kind  events.Kind   // of the node's name; 0 is KindLock, and with KindUnfair Dir is not a directory but the node itself
	Data  []byte        // stored in the node
	ACL   []zk.ACL      // nil: that of the session's config
	Try   bool          // the caller does not wait, so the read of a lock's single node leaves no watch
	In    *Seat         // a writer whose place in the queue the node takes; nil: it gets a place of its own
	Delay time.Duration // the lock-delay after a crash

	Marks events.Marks // of its nodes

	Size    int32 // of a semaphore: the size to write if none is written yet; 0: not a semaphore
	Permits int32 // of a semaphore: how many permits to take

	Members []Place // of a multi-lock; only their Dir, Kind and ACL count. Dir and Kind above are the first one's
}

func (s *Session) members(places []Place) []member {
	all := make([]member, len(places))
	for i, p := range places {
		all[i] = member{path: p.Dir, dir: under(s.chroot, p.Dir), kind: p.Kind, acl: p.ACL}
		if p.ACL == nil {
			all[i].acl = s.cfg.ACL
		}
	}
	return all
}

// SizeOfMembers returns the size of the largest request for a multi-lock of these places,
// in bytes, not counting the nodes' data and a fixed overhead.
func (s *Session) SizeOfMembers(places []Place) (size int) {
	for _, m := range s.members(places) {
		size += m.size(0)
	}
	return size
}
