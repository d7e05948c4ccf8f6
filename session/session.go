package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/wire"
)

// State is the state of the session, such as for a health check.
type State uint8

const (
	// Connecting means that there is no session.
	Connecting State = iota + 1
	// Connected means that there is a session and a connection.
	Connected
	// Suspended means that there is a session and no connection.
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

// Session keeps one ZooKeeper session at a time, and begins a new one after each expiry.
// Its methods are safe for concurrent use.
type Session struct {
	servers Servers
	chroot  string
	cfg     Config
	group   *actors.Group
	news    func(events.Event)
	clock   clock
	plain   map[events.Kind]*content // of seats that ask for nothing of their own
	loop    *actors.Loop
	first   chan struct{} // closed when the view says what came of the first session
	closed  chan struct{} // closed when the last client has ended

	leaders    followers[events.Leader, events.Leader]
	queues     followers[QueueNodes, []events.Contender]
	names      *wire.Names // nil: the dialer gets the names
	whoWeAre   credentials
	containers containerNodes

	// Only the loop touches these.
	leftovers leftovers
	client    *client              // Close reads it, too, when all is closed
	living    map[*client]struct{} // clients that have not ended
	away      *time.Timer          // logs an outage; nil while there is a connection
	awaySince time.Time
	clamped   time.Duration         // the servers' timeout that was logged; 0: they have taken what was asked for
	seats     []*Seat               // the seats that receive the news, each at its place
	holders   map[*Seat]string      // the seats whose machines hold by a proof, with their nodes
	unwatched map[*Seat]struct{}    // the seats whose nodes are theirs and not watched yet
	next      map[*Seat]time.Time   // the seats that are next in line, and until when the session writes for them
	deadlines map[*Seat]deadline    // of the seats that have to give their locks back by a moment
	delays    map[*Seat]*time.Timer // of the seats that wait after a crash
	pending   pending               // the requests that wait for a connection or for room
	quiet     chan<- struct{}       // closed when the last flight was answered; nil: no caller waits for that
	last      bool                  // the last flight has gone: no request is sent any more
	leaving   map[string]*turnover  // the parked deletes that a create may join, by directory
	budget    budget.Budget         // of the nodes, see room.go
	nodes     budget.Nodes          // that users made in transactions
	roomless  []roomRequest         // the requests that wait for room, the oldest first
	waiting   budget.Load           // what they need together
	closing   bool

	mu   sync.Mutex
	view view
}

// view is the part of the actor's state that other goroutines may see.
type view struct {
	closed  bool
	client  *client       // nil unless there is a session
	dialer  *wire.Dialer  // of the latest client
	ready   bool          // there was a session
	renewed chan struct{} // see nextConnection
	fill    Fill
	refuse  error // why there is none, and will be none until something is changed at the servers
}

// Ready waits for the first session. It fails when a server refuses an identity, and when
// ctx ends, with the cause of ctx and the latest connection error. The session keeps
// trying, and Ready may be called again.
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
	case c.is(phaseSuspended):
		return Suspended
	default:
		return Connected
	}
}

// Loop returns the loop of the session, in which its locks run as well.
func (s *Session) Loop() *actors.Loop { return s.loop }

// present returns the client of the present session, or nil if there is none.
func (s *Session) present() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.client
}

// ID returns the id of the current session, or 0.
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

func (s *Session) deadline(epoch recipes.Epoch) time.Time {
	if c := s.inEpoch(epoch); c != nil {
		return c.deadline()
	}
	return time.Time{}
}

// deadline is when a lock has to be given back.
type deadline struct {
	at    time.Time
	timer *time.Timer
}
