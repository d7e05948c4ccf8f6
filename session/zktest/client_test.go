package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// client is the real client library with everything that its event callback saw.
type client struct {
	*zk.Conn
	t *testing.T

	mu   sync.Mutex
	seen []zk.Event
	more chan struct{} // closed and replaced with each event
}

// connect opens a client and waits for its session. When the test is over it is closed, and its goroutines
// have ended.
func connect(t *testing.T, addr string, timeout time.Duration, dial zk.Dialer) *client {
	t.Helper()
	c := dialClient(t, addr, timeout, dial)
	c.state(zk.StateHasSession)
	return c
}

func dialClient(t *testing.T, addr string, timeout time.Duration, dial zk.Dialer) *client {
	t.Helper()
	c := &client{t: t, more: make(chan struct{})}
	conn, events, err := zk.Connect([]string{addr}, timeout,
		zk.WithDialer(dial), zk.WithLogger(eventstest.Quiet{}), zk.WithEventCallback(c.record))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	c.Conn = conn
	t.Cleanup(func() {
		conn.Close()
		for range events { // closed when the client's goroutines are done
		}
	})
	return c
}

func (c *client) record(e zk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, e)
	close(c.more)
	c.more = make(chan struct{})
}

// await returns the first event from index on that fits, and the index after it.
func (c *client) await(from int, what string, fits func(zk.Event) bool) (zk.Event, int) {
	c.t.Helper()
	for {
		c.mu.Lock()
		seen, more := c.seen, c.more
		c.mu.Unlock()
		for i := from; i < len(seen); i++ {
			if fits(seen[i]) {
				return seen[i], i + 1
			}
		}
		eventstest.Receive(c.t, more, fmt.Sprintf("a %s event; seen %v", what, seen))
	}
}

// mark is the index of the next event.
func (c *client) mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// state waits for a session event, counted from the beginning.
func (c *client) state(want zk.State) { c.t.Helper(); c.stateFrom(0, want) }

func (c *client) stateFrom(from int, want zk.State) int {
	c.t.Helper()
	_, next := c.await(from, want.String(), func(e zk.Event) bool {
		return e.Type == zk.EventSession && e.State == want
	})
	return next
}

// watched returns what watches reported so far, in order.
func (c *client) watched() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, e := range c.seen {
		if e.Type > 0 {
			list = append(list, e.Type.String()+" "+e.Path)
		}
	}
	return list
}

// settle makes one round trip: what the server sent before is there afterwards.
func (c *client) settle() {
	c.t.Helper()
	if _, err := c.Sync("/"); err != nil {
		c.t.Fatalf("sync: %v", err)
	}
}

// make creates a node and returns its path.
func (c *client) make(path string, flags int32) string {
	c.t.Helper()
	created, err := c.Create(path, nil, flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		c.t.Fatalf("create %s: %v", path, err)
	}
	return created
}

// watch arms a watch on a node's data. watchExists and watchChildren do so on its existence and its
// children.
func (c *client) watch(path string) {
	c.t.Helper()
	_, _, _, err := c.GetW(path)
	eventstest.Must(c.t, err)
}

func (c *client) watchExists(path string) {
	c.t.Helper()
	_, _, _, err := c.ExistsW(path)
	eventstest.Must(c.t, err)
}

func (c *client) watchChildren(path string) {
	c.t.Helper()
	_, _, _, err := c.ChildrenW(path)
	eventstest.Must(c.t, err)
}

func (c *client) set(path string, data []byte) {
	c.t.Helper()
	_, err := c.Set(path, data, -1)
	eventstest.Must(c.t, err)
}

func (c *client) remove(path string) {
	c.t.Helper()
	eventstest.Must(c.t, c.Delete(path, -1))
}

// isCut creates a node, and the connection is cut before the answer.
func (c *client) isCut(path string) {
	c.t.Helper()
	if _, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrConnectionClosed) {
		c.t.Errorf("the create of %s ends with %v, want %v", path, err, zk.ErrConnectionClosed)
	}
}

// told checks what watches reported so far, in order.
func (c *client) told(want ...string) {
	c.t.Helper()
	if got := c.watched(); !slices.Equal(got, want) {
		c.t.Errorf("the watches reported %q, want %q", got, want)
	}
}

// keeps checks that the client is still in its session.
func (c *client) keeps(id int64) {
	c.t.Helper()
	if now := c.SessionID(); now != id {
		c.t.Errorf("session %#x became %#x, want it kept", id, now)
	}
}

// withClient runs a test in virtual time on a server with a client.
func withClient(t *testing.T, test func(t *testing.T, s *zktest.Server, c *client)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		test(t, s, memoryClient(t, s, 10*time.Second))
	})
}

// withClients is withClient with a second one.
func withClients(t *testing.T, test func(t *testing.T, s *zktest.Server, c, other *client)) {
	t.Helper()
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		t.Helper()
		test(t, s, c, memoryClient(t, s, 10*time.Second))
	})
}

func overTCP(network, address string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout(network, address, timeout)
}

// inMemory dials as a test in a bubble does.
func inMemory(s *zktest.Server) zk.Dialer {
	return func(network, address string, _ time.Duration) (net.Conn, error) {
		return s.DialContext(context.Background(), network, address)
	}
}

func memoryClient(t *testing.T, s *zktest.Server, timeout time.Duration) *client {
	t.Helper()
	return connect(t, s.Addr(), timeout, inMemory(s))
}
