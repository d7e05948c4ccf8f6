package zktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// defaultTick is ZooKeeper's own default tickTime.
	defaultTick = 2 * time.Second
	// defaultCheckInterval is how often a real server checks for containers and nodes
	// with a TTL.
	defaultCheckInterval = time.Minute
	// firstZxid begins epoch 1, as if a leader had been elected, so that truncating a
	// zxid to 32 bits is noticed.
	firstZxid = 1 << 32
	// memoryAddress is what Addr returns when there is no listener.
	memoryAddress = "127.0.0.1:2181"
)

// Server is a running in-process ZooKeeper. Its methods are safe for concurrent use.
type Server struct {
	tick          time.Duration
	checkInterval time.Duration
	extendedTypes bool
	maxBuffer     int // 0: transactions of any size
	dialect       dialect
	inMemory      bool
	started       time.Time
	listener      net.Listener // nil in memory
	address       string
	done          chan struct{}  // closed by Close
	wake          chan struct{}  // size 1, never closed; wakes the clock
	running       sync.WaitGroup // all goroutines of the server
	received      atomic.Int64   // frames from clients
	sent          atomic.Int64   // frames to clients

	mu           sync.Mutex // guards everything below; never held across a wait
	closed       bool
	down         bool
	dead         bool // it stays down
	leaderless   bool // it has no quorum
	muteAll      bool
	muted        map[int64]bool
	hook         func(Request) Action
	tree         *tree
	zxid         int64
	txn          txn // the latest
	sessions     map[int64]*session
	lastSession  int64
	conns        map[*conn]struct{}
	connected    int64 // connections ever made
	dataWatches  *watchTable
	childWatches *watchTable
	replicas     map[*conn]struct{} // the connections that do not see the current state
	requests     map[Op]int
	quotas       bool              // whether they are enforced
	users        map[string]string // passwords, for SASL
	nextWake     time.Time         // when the clock acts next; zero: never
	nextReap     time.Time         // zero: nothing will be due
	followers    bool
	nextAsk      time.Time // zero: no follower has anything to report
}

// New starts a server with an empty tree. The caller must Close it. New fails if a
// setting is out of range, or if it cannot listen.
//
// It listens on a free TCP port of 127.0.0.1, unless the clock shows a year before 2010.
// That is a testing/synctest bubble, whose fake clock starts in the year 2000. A listener
// would stop that clock, so then the server is reachable through [Server.DialContext]
// only.
func New(settings ...Setting) (*Server, error) {
	s := &Server{
		tick:          defaultTick,
		checkInterval: defaultCheckInterval,
		address:       memoryAddress,
		started:       time.Now(),
		done:          make(chan struct{}),
		wake:          make(chan struct{}, 1),
		muted:         make(map[int64]bool),
		tree:          newTree(),
		zxid:          firstZxid,
		sessions:      make(map[int64]*session),
		conns:         make(map[*conn]struct{}),
		dataWatches:   newWatchTable(),
		childWatches:  newWatchTable(),
		replicas:      make(map[*conn]struct{}),
		requests:      make(map[Op]int),
	}
	s.inMemory = s.started.UTC().Year() < 2010
	for _, set := range settings {
		set(s)
	}
	if s.tick < time.Millisecond {
		return nil, fmt.Errorf("zktest: tick %v is shorter than a millisecond", s.tick)
	}
	if s.checkInterval < time.Millisecond {
		return nil, fmt.Errorf("zktest: check interval %v is shorter than a millisecond", s.checkInterval)
	}
	// As on a real server with id 1: the time in it makes it unique across restarts.
	s.lastSession = 1<<56 | int64(uint64(s.started.UnixMilli())<<24>>8)
	if !s.inMemory {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("zktest: listen: %w", err)
		}
		s.listener, s.address = listener, listener.Addr().String()
		s.running.Go(s.acceptLoop)
	}
	s.running.Go(s.clockLoop)
	return s, nil
}

// Addr returns the address to connect to, "127.0.0.1:port". For an in-memory server, it
// is a fixed text that only DialContext understands.
func (s *Server) Addr() string { return s.address }

// Close stops the server and waits for its goroutines. It is idempotent. An Intercept
// function must not call it, because one of these goroutines runs that function.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		if s.listener != nil {
			// The accept loop ends even if this fails.
			_ = s.listener.Close()
		}
		for c := range s.conns {
			c.kill()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}

// DialContext returns a new in-memory connection to the server, regardless of the
// address. It never blocks. While the server is down or closed, connections are refused.
func (s *Server) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	here := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2181}
	there := net.TCPAddr{IP: here.IP, Port: 49152 + int(s.connected%16384)}
	client, server := newPipe(&there, &here)
	if !s.start(server) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: &here, Err: syscall.ECONNREFUSED}
	}
	return client, nil
}

// start serves a new connection, unless the server is down. It is called with mu held.
func (s *Server) start(nc net.Conn) bool {
	if s.closed || s.down {
		return false
	}
	s.connected++
	c := newConn(s, nc, s.connected, s.muteAll)
	s.conns[c] = struct{}{}
	s.running.Go(c.readLoop)
	s.running.Go(func() {
		c.writeLoop()
		// Once a client sees the end of the connection, the connection is no longer
		// counted.
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.kill()
	})
	return true
}

func (s *Server) acceptLoop() {
	for {
		nc, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // a client that gave up early, or too many open files
		}
		s.mu.Lock()
		started := s.start(nc)
		s.mu.Unlock()
		if !started {
			// Nothing was sent on it, so nothing is lost.
			_ = nc.Close()
		}
	}
}

// clockLoop is the only goroutine that acts as time passes. It sleeps until the earliest
// known deadline. Signs of life only postpone deadlines, so they need not wake it. If it
// wakes too early, it finds nothing to do, and looks for the next deadline.
func (s *Server) clockLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		case <-timer.C:
		}
		if next := s.advance(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// advance does what is due, and returns when something is due again.
func (s *Server) advance() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.ask(now)
	s.expireDue(now)
	if !s.nextReap.IsZero() && !now.Before(s.nextReap) {
		s.reap()
		s.nextReap = time.Time{}
		s.scheduleReap()
	}
	next := s.nextReap
	if next.IsZero() || !s.nextAsk.IsZero() && s.nextAsk.Before(next) {
		next = s.nextAsk
	}
	for _, ses := range s.sessions {
		if next.IsZero() || ses.deadline.Before(next) {
			next = ses.deadline
		}
	}
	s.nextWake = next
	return next
}

// wakeClock makes clockLoop run at the given time or earlier.
func (s *Server) wakeClock(at time.Time) {
	if !s.nextWake.IsZero() && !at.Before(s.nextWake) {
		return
	}
	s.nextWake = at
	select {
	case s.wake <- struct{}{}:
	default: // it was woken already, and has not run yet
	}
}

// run executes one request according to act, and queues the answer. It returns false if
// the connection accepts no more requests.
func (s *Server) run(c *conn, xid int32, q call, malformed error, act Action) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return false // expired or replaced while the request was in transit
	}
	if act.kind == cutBefore {
		s.leave(c)
		c.hangUp()
		return false
	}
	var a answer
	switch {
	case act.kind == fail:
		s.touch(c)
		a.code = act.code
	case malformed != nil:
		s.touch(c)
		if changes(q.op) {
			s.zxid++ // a real server also counts requests that it cannot read
		}
		a.code = MarshallingError
	default:
		a = s.execute(c, q)
		s.scheduleReap()
	}
	switch {
	case act.kind == cutAfter || a.silent:
		s.leave(c)
		c.hangUp()
		return false
	case act.kind == swallow:
	default:
		zxid := s.view(c).zxid
		switch a.stamp {
		case stampZero:
			zxid = 0
		case stampNone:
			zxid = -1
		}
		c.push(outgoing{frame: replyFrame(xid, zxid, a.code, a.reply), due: act.due()})
	}
	if a.hangUp {
		s.leave(c)
		c.hangUp()
		return false
	}
	return true
}
