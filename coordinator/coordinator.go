package coordinator

import (
	"context"
	"sync/atomic"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// State is where the coordinator's session stands.
type State = session.State

// The states of a session.
const (
	// StateConnecting means that there is no session yet, or not any more.
	StateConnecting = session.Connecting
	// StateConnected means that there is a session and a connection.
	StateConnected = session.Connected
	// StateSuspended means that there is a session and no connection at the moment.
	StateSuspended = session.Suspended
	// StateClosed means that the coordinator was closed.
	StateClosed = session.Closed
)

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

// Connect makes a session with one of the servers, named in ZooKeeper's own form
// (`host:port,host:port/chroot`), and waits for it until ctx ends. Names are
// resolved at each dial. After that ctx is of no importance: the session is kept,
// and made anew after an expiry, until Close.
func Connect(ctx context.Context, servers string, options ...Option) (*Coordinator, error) {
	parsed, err := session.ParseConnectString(servers)
	if err != nil {
		return nil, err
	}
	cfg := session.NewConfig(options...)
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
	s, err := session.Open(ctx, parsed, cfg, group, stream.Publish)
	if err != nil {
		group.Close()
		return nil, err
	}
	open, shut := context.WithCancel(context.WithoutCancel(ctx))
	return &Coordinator{
		open: open, shut: shut,
		cfg: cfg, hooks: hooks, chroot: parsed.Chroot, session: s, house: actors.House{Group: group, Stream: stream, Logger: cfg.Logger},
		terms: actors.House{Group: group, Stream: stream, Logger: cfg.Logger, Elects: true},
		live:  live{paths: map[string]*Acquisition{}}, ended: make(chan struct{}),
	}, nil
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
func (c *Coordinator) State() State { return c.session.State() }

// SessionID returns the ZooKeeper id of the current session, or 0 if there is none.
func (c *Coordinator) SessionID() int64 { return c.session.ID() }
