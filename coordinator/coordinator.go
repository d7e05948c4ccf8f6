package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// State is where the coordinator's session stands.
type State uint8

// The states of a session.
const (
	// StateConnecting means that there is no session yet, or not any more.
	StateConnecting = State(session.Connecting)
	// StateConnected means that there is a session and a connection.
	StateConnected = State(session.Connected)
	// StateSuspended means that there is a session and no connection at the moment.
	StateSuspended = State(session.Suspended)
	// StateClosed means that the coordinator was closed.
	StateClosed = State(session.Closed)
)

// String names the state in lower case.
func (s State) String() string { return session.State(s).String() }

// Coordinator shares one ZooKeeper session among any number of locks. Its
// methods may be called from any goroutine.
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

// Connect is [Open] and [Coordinator.Ready]: it waits for the first session until ctx ends. After that ctx is of no importance. If it
// fails it leaves nothing behind.
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

// Open returns at once, whether there is a server or not. It fails only if an argument is wrong. The servers are named in ZooKeeper's
// own form (`host:port,host:port/chroot`); names are resolved at each dial. A session is made as soon as a server answers, kept, and
// made anew after an expiry, until Close.
//
// Everything can be used from the first moment: what is asked for waits for the session, for as long as its context allows. While no
// server answers, that is logged as a warning: after three seconds, and then once a minute.
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

// Ready waits for the first session, and returns nil from then on until Close. It fails with [ErrNoAuth] when a server refuses an
// identity of [WithAuth], with [ErrClosed], and when ctx ends, with its cause and the latest error of a connection. A session is still
// tried for then, and Ready may be called again.
func (c *Coordinator) Ready(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })() //nolint:contextcheck // the coordinator's end, beside the caller's
	if c.open.Err() != nil {
		return ErrClosed
	}
	return c.session.Ready(ctx)
}

// Events returns every event of every lock of this coordinator from now on, in
// order. The channel is closed when ctx ends, or with the coordinator once it has
// delivered what is left, if somebody reads it.
//
// Grant, Lost and Ended are never dropped; each Grant is followed by exactly one
// Lost or Ended of the same ID. A Grant seen here counts as taken, unless the
// stream is [Passive]. For a slow
// reader the other events are coalesced, and a Lost may be late: [Acquisition.Valid]
// is the word at the moment of use.
func (c *Coordinator) Events(ctx context.Context, options ...StreamOption) <-chan events.Event {
	if streamConfigOf(options).passive {
		return c.house.Stream.SubscribePassively(ctx)
	}
	return c.house.Stream.Subscribe(ctx)
}

// State returns where the session stands.
func (c *Coordinator) State() State { return State(c.session.State()) }

// SessionID returns the ZooKeeper id of the current session, or 0 if there is none.
func (c *Coordinator) SessionID() int64 { return c.session.ID() }
