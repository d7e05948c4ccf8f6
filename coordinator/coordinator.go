package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// State is the state of the coordinator's session.
type State uint8

// The states of a session.
const (
	StateConnecting = State(session.Connecting) // there is no session
	StateConnected  = State(session.Connected)  // a session and a connection
	StateSuspended  = State(session.Suspended)  // a session, and no connection
	StateClosed     = State(session.Closed)
)

// String names the state in lower case.
func (s State) String() string { return session.State(s).String() }

// Coordinator shares one ZooKeeper session among any number of locks. Its methods may be called from any goroutine.
type Coordinator struct {
	cfg     session.Config
	hooks   hooks
	chroot  string // what every path is relative to; empty: the root
	session *session.Session
	house   actors.House
	terms   actors.House // the same for elections
	lastID  atomic.Uint64
	open    context.Context // ends with the beginning of Close
	shut    context.CancelFunc
	live    live
	ended   chan struct{} // closed when Close is done
}

// partingTime is for ending a session that is just being made when Connect fails.
const partingTime = 200 * time.Millisecond

// Connect is [Open] and [Coordinator.Ready]: it waits for the first session until ctx ends. If it fails, it leaves nothing behind.
func Connect(ctx context.Context, servers string, options ...Option) (*Coordinator, error) {
	c, err := Open(servers, options...)
	if err != nil {
		return nil, err
	}
	if err := c.Ready(ctx); err != nil {
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
		defer cancel()
		_ = c.Shutdown(parting) // there is no session in which anything could be left
		return nil, err
	}
	return c, nil
}

// Open returns a coordinator at once, without waiting for a server. It fails only if an argument is wrong. The servers are in ZooKeeper's
// form, `host:port,host:port/chroot`, and are resolved at each dial. Everything may be used at once: calls wait for the session while their
// contexts allow.
func Open(servers string, options ...Option) (*Coordinator, error) {
	parsed, err := session.ParseConnectString(servers)
	if err != nil {
		return nil, err
	}
	cfg := sessionConfig(options)
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	hooks, err := hooksOf(options)
	if err != nil {
		return nil, err
	}
	hooks.configure(&cfg)
	cfg.Logger = limited(cfg.Logger)
	group := &actors.Group{}
	stream := actors.NewStream(group)
	hooks.overhear(stream)
	open, shut := context.WithCancel(context.Background())
	return &Coordinator{
		open: open, shut: shut,
		cfg: cfg, hooks: hooks, chroot: parsed.Chroot, session: session.Open(parsed, cfg, group, stream.Publish),
		house: actors.House{Group: group, Stream: stream, Logger: cfg.Logger},
		terms: actors.House{Group: group, Stream: stream, Logger: cfg.Logger, Elects: true},
		live:  live{paths: map[string]*Acquisition{}}, ended: make(chan struct{}),
	}, nil
}

// Ready waits for the first session, and returns nil from then on until Close. It fails with [ErrNoAuth] if a server refuses an identity,
// with [ErrClosed], or with the cause of ctx and the latest connection error. It may be called again.
func (c *Coordinator) Ready(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })() //nolint:contextcheck // the coordinator's end, beside the caller's
	if c.open.Err() != nil {
		return ErrClosed
	}
	return c.session.Ready(ctx)
}

// Events returns every event of every lock of this coordinator from now on, in order. The channel is closed when ctx ends, or after Close.
// Each Grant is followed by exactly one Lost or Ended of the same ID; these three are never dropped. Other events are coalesced for a slow
// reader. A Grant seen here counts as taken, unless the stream is [Passive].
func (c *Coordinator) Events(ctx context.Context, options ...StreamOption) <-chan events.Event {
	if streamConfigOf(options).passive {
		return c.house.Stream.SubscribePassively(ctx)
	}
	return c.house.Stream.Subscribe(ctx)
}

// State returns the state of the session.
func (c *Coordinator) State() State { return State(c.session.State()) }

// SessionID returns the ZooKeeper id of the session, or 0 if there is none.
func (c *Coordinator) SessionID() int64 { return c.session.ID() }
