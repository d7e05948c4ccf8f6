package schedules

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// client is one coordinator after the other, on its own network.
type client struct {
	clientPlan
	world   *world
	number  int
	name    string
	network *faultnet.Network
	faults  *frameFaults
	lossy   atomic.Bool // frames were lost, but not the connection
	deaf    atomic.Bool // an event was lost, but later frames were not

	restarting atomic.Bool

	mu       sync.Mutex
	current  *life // nil if there is none
	lives    []*life
	sessions []int64 // all of its sessions that id has seen
}

// life is one coordinator, and what its stream has reported.
type life struct {
	*coordinator.Coordinator
	client  *client
	read    chan struct{} // closed when the stream has ended; nil without one
	closing atomic.Pointer[time.Time]
	// cutShort is set if a slow reader was asleep when the coordinator was closed, so the
	// events left for it were dropped.
	cutShort bool

	mu    sync.Mutex
	said  map[uint64]string // the events of each acquisition, one letter each
	ended map[uint64]error
	known []*record
}

func newClient(w *world, number int, p clientPlan) *client {
	c := &client{clientPlan: p, world: w, number: number, name: fmt.Sprint("client ", number)}
	c.faults = &frameFaults{client: c, random: newRandom(w.seed, framing, number)}
	c.network = faultnet.New(w.srv.DialContext, c.faults.rule)
	return c
}

// connect connects a coordinator, unless ctx ends before there is a session.
func (c *client) connect(ctx context.Context) bool {
	options := []coordinator.Option{
		coordinator.WithDialer(c.network.Dial), coordinator.WithSessionTimeout(c.timeout),
		coordinator.WithProbeInterval(c.probe),
	}
	if c.told {
		options = append(options, coordinator.WithTickTime(c.world.tick))
	}
	if c.world.recipe == cached {
		options = append(options, coordinator.WithCacheSize(c.world.caching.size), coordinator.WithCacheIdle(c.world.caching.idle))
	}
	if c.strict {
		options = append(options, coordinator.WithLossOnSuspend())
	}
	made, err := coordinator.Connect(ctx, c.world.srv.Addr(), options...)
	if err != nil {
		c.world.logf("%s: %v", c.name, err)
		return false
	}
	l := &life{Coordinator: made, client: c, said: map[uint64]string{}, ended: map[uint64]error{}}
	if c.stream != noStream {
		l.read = make(chan struct{})
		stream := made.Events(context.Background())
		go l.listen(stream)
	}
	c.world.logf("%s: session %x", c.name, made.SessionID())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = l
	c.lives = append(c.lives, l)
	return true
}

// get returns the current coordinator, or nil.
func (c *client) get() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// id returns the current session, or 0.
func (c *client) id() int64 {
	l := c.get()
	if l == nil {
		return 0
	}
	id := l.SessionID()
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != 0 && !slices.Contains(c.sessions, id) {
		c.sessions = append(c.sessions, id)
	}
	return id
}

// ids returns all sessions that id has seen.
func (c *client) ids() []int64 {
	c.id()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sessions)
}

// stop closes the coordinator, within the session timeout. On a healthy network, Close
// must return no error.
func (c *client) stop() {
	c.mu.Lock()
	l := c.current
	c.current = nil
	c.mu.Unlock()
	if l == nil {
		return
	}
	w := c.world
	start, healthy := time.Now(), w.healed()
	l.closing.Store(&start)
	l.cutShort = c.stream == slowStream && !healthy
	err := l.Close()
	took := time.Since(start)
	w.logf("%s: closed after %v: %v", c.name, took, err)
	w.expect(took <= c.timeout, "%s: Close took %v, with a timeout of %v", c.name, took, c.timeout)
	w.expect(err == nil || !healthy, "%s: Close, with nothing wrong: %v", c.name, err)
	if l.read != nil {
		<-l.read
	}
}

// restart replaces the coordinator. The next one is in use once it has a session.
func (c *client) restart() {
	defer c.restarting.Store(false)
	c.stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.world.abandoned:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.connect(ctx)
	c.world.count("coordinators replaced", 1)
}

// listen reads the stream.
func (l *life) listen(stream <-chan events.Event) {
	defer close(l.read)
	r := newRandom(l.client.world.seed, reading, l.client.number)
	for ev := range stream {
		l.hear(ev)
		if l.client.stream == slowStream && l.closing.Load() == nil && !l.client.world.healed() {
			time.Sleep(r.upTo(l.client.timeout / 4))
		}
	}
}

func (l *life) hear(ev events.Event) {
	id, letter := uint64(0), ""
	switch ev := ev.(type) {
	case events.Grant:
		id, letter = ev.ID, "G"
	case events.Lost:
		id, letter = ev.ID, "L"
	case events.Ended:
		id, letter = ev.ID, "E"
		l.mu.Lock()
		l.ended[id] = ev.Err
		l.mu.Unlock()
	case events.Queued:
		id, letter = ev.ID, "q"
	case events.Revoked:
		id, letter = ev.ID, "b"
		l.client.world.count("asked back", 1)
		l.overdue(ev)
	case events.Requeued:
		id, letter = ev.ID, "r"
		l.client.world.count("requeued", 1)
	case events.Suspended:
		l.client.world.count("suspended", 1)
	case events.Resumed:
		l.client.world.count("resumed", 1)
	case events.SessionExpired:
		l.client.world.count("sessions expired", 1)
	default:
	}
	if letter == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[id] += letter
}
