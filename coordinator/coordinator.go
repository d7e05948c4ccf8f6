package coordinator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
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
	chroot  string // what every path is relative to; empty: the root
	session *session.Session
	house   actors.House
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
	cfg.Logger = limited(cfg.Logger)
	group := &actors.Group{}
	stream := actors.NewStream(group)
	s, err := session.Open(ctx, parsed, cfg, group, stream.Publish)
	if err != nil {
		group.Close()
		return nil, err
	}
	open, shut := context.WithCancel(context.WithoutCancel(ctx))
	return &Coordinator{
		open: open, shut: shut,
		cfg: cfg, chroot: parsed.Chroot, session: s, house: actors.House{Group: group, Stream: stream, Logger: cfg.Logger},
		live: live{paths: map[string]*Acquisition{}}, ended: make(chan struct{}),
	}, nil
}

// Close withdraws every acquisition, which ends with [ErrClosed], gives their
// nodes back, ends the session and waits for every goroutine. It takes no longer
// than the session timeout, however dead the network is; if the servers could not
// be told to remove the locks' nodes, it returns an error, and they go with the session. A
// function that runs in [Lock.Do] is waited for, for half the session timeout at
// most: to call Close from inside one is to wait in vain. Closing twice is
// harmless.
func (c *Coordinator) Close() error {
	locks, empty, first := c.live.close()
	if !first {
		<-c.ended
		return nil
	}
	c.shut()
	defer close(c.ended)

	bound := c.session.Timeout()
	for _, a := range locks {
		a.actor.Withdraw(recipes.WhyClosed)
	}
	var err error
	if !emptied(empty, bound/2) {
		for _, a := range locks {
			a.actor.Force() // functions have had their time
		}
		if !emptied(empty, bound/8) {
			err = fmt.Errorf("zkgrant: closed without the servers knowing; nodes left until the session expires: %d", c.live.len())
		}
	}
	c.session.Close(bound / 8) // twice that at most: for requests, and for the farewell
	<-empty                    // the end of the session ends what is left
	c.house.Stream.Close(bound / 8)
	c.house.Group.Close()
	return err
}

// emptied waits until nothing of any acquisition is left, for so long at most.
func emptied(empty <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-empty:
		return true
	case <-timer.C:
		return false
	}
}

// Events returns every event of every lock of this coordinator from now on, in
// order. The channel is closed when ctx ends, or with the coordinator once it has
// delivered what is left, if somebody reads it.
//
// Grant, Lost and Ended are never dropped; each Grant is followed by exactly one
// Lost or Ended of the same ID. A Grant seen here counts as taken. For a slow
// reader the other events are coalesced, and a Lost may be late: [Acquisition.Valid]
// is the word at the moment of use.
func (c *Coordinator) Events(ctx context.Context) <-chan events.Event {
	return c.house.Stream.Subscribe(ctx)
}

// State returns where the session stands.
func (c *Coordinator) State() State { return c.session.State() }

// SessionID returns the ZooKeeper id of the current session, or 0 if there is none.
func (c *Coordinator) SessionID() int64 { return c.session.ID() }
