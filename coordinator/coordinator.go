package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// State is the state of the coordinator's session.
type State uint8

// The states of a session.
const (
	StateConnecting = State(session.Connecting) // no session
	StateConnected  = State(session.Connected)  // a session and a connection
	StateSuspended  = State(session.Suspended)  // a session without a connection
	StateClosed     = State(session.Closed)
)

// String names the state in lower case.
func (s State) String() string { return session.State(s).String() }

// Coordinator shares one ZooKeeper session among locks. Its methods are safe for
// concurrent use.
type Coordinator struct {
	cfg       session.Config
	hooks     hookSet
	group     *actors.Group
	chroot    string // what every path is relative to; empty: the root
	session   *session.Session
	house     actors.House
	elections actors.House // like house, for elections
	keepers   actors.House // for the nodes of cached locks; its stream has no reader
	caches    *cache.Caches
	caching   atomic.Bool     // there is a Cached handle; without one, no cached node can be in the way
	open      context.Context // ends when Close begins
	shut      context.CancelFunc
	live      live
	waits     waitPath // of this coordinator, without a path
	updates   updates
	ended     chan struct{} // closed when Close is done
	left      error         // the error of Close, written before ended is closed

	parted      chan struct{} // closed when Close has ended the session
	unconfirmed bool          // no server has confirmed that; written before parted is closed
}

// Ready waits for the first session; from then on it returns nil until Close. It fails
// with [ErrNoAuth] if a server refuses an identity, with [ErrClosed], or with the cause
// of ctx and the latest connection error.
func (c *Coordinator) Ready(ctx context.Context) error { return c.whileOpen(ctx, c.session.Ready) }

// whileOpen calls read with a context that ends with ctx, or with ErrClosed when the
// coordinator closes.
func (c *Coordinator) whileOpen(ctx context.Context, read func(context.Context) error) error {
	if c.open.Err() != nil {
		return ErrClosed
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })() //nolint:contextcheck // the coordinator ends it, too
	return read(bounded)
}

// Events returns every event of every lock of this coordinator from now on, in order,
// until ctx ends or Close. Each acquisition sends at most one Grant, at most one Lost,
// then exactly one Ended; none is dropped before Close. Other events are coalesced for a
// slow reader. Reading takes no Grant, unlike in a [Group].
func (c *Coordinator) Events(ctx context.Context) <-chan events.Event {
	return c.house.Stream.Subscribe(ctx)
}

// State returns the state of the session.
func (c *Coordinator) State() State { return State(c.session.State()) }

// LongTick returns [events.Connected.LongTick] of the current session.
func (c *Coordinator) LongTick() time.Duration { return c.session.LongTick() }

// Nodes returns how much of [WithNodeBudget] the session uses.
func (c *Coordinator) Nodes() hooks.Nodes { return hooks.Nodes(c.session.Fill()) }

// SessionID returns the ID of the ZooKeeper session, or 0 if there is none.
func (c *Coordinator) SessionID() int64 { return c.session.ID() }
