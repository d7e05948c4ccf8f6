package zktest_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestExpireEndsASessionAtOnce(t *testing.T) { //nolint:tparallel // one after the other, beside other tests
	t.Parallel() // it waits most of the time
	t.Run("bubble", func(t *testing.T) {
		eventstest.Bubble(t, func(t *testing.T) {
			s := zktest.Start(t)
			checkExpire(t, s, inMemory(s))
		})
	})
	t.Run("tcp", func(t *testing.T) {
		checkExpire(t, zktest.Start(t), overTCP)
	})
}

func checkExpire(t *testing.T, s *zktest.Server, dial zk.Dialer) {
	t.Helper()
	c := connect(t, s.Addr(), 10*time.Second, dial)
	other := connect(t, s.Addr(), 10*time.Second, dial)
	id := c.SessionID()
	c.make("/a", 0)
	c.make("/a/e1", zk.FlagEphemeral)
	c.make("/a/e2", zk.FlagEphemeral)
	other.watch("/a/e2")
	eventstest.Must(t, s.Expire(id))
	wantTree(t, s, "/a")
	other.settle()
	other.told("EventNodeDeleted /a/e2")
	c.stateFrom(c.stateFrom(0, zk.StateExpired), zk.StateHasSession)
	c.leaves(id)
	if err := s.Expire(id); err == nil {
		t.Error("Expire of the expired session = nil, want an error")
	}
}

func TestCutAndResume(t *testing.T) {
	withClients(t, func(t *testing.T, s *zktest.Server, c, other *client) {
		id := c.SessionID()
		for _, p := range []string{"/gone", "/changed", "/same", "/parent"} {
			c.make(p, 0)
			c.watch(p)
		}
		c.watchExists("/later")
		c.watchChildren("/parent")
		wantWatches(t, s, 6)
		from := c.mark()
		s.Cut(id)
		wantWatches(t, s, 0)
		// While the client is away (it waits a second before it dials again).
		other.remove("/gone")
		other.set("/changed", nil)
		other.make("/later", 0)
		other.make("/parent/child", 0)
		c.stateFrom(c.stateFrom(from, zk.StateDisconnected), zk.StateHasSession)
		time.Sleep(time.Second)
		c.keeps(id)
		got := c.watched()
		slices.Sort(got)
		want := []string{
			"EventNodeChildrenChanged /parent", "EventNodeCreated /later",
			"EventNodeDataChanged /changed", "EventNodeDeleted /gone",
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
		wantWatches(t, s, 2)
	})
}

func TestAServerThatIsDownKeepsSessions(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		from := c.mark()
		s.Down(true)
		from = c.stateFrom(from, zk.StateDisconnected)
		if _, err := s.DialContext(t.Context(), "tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to a server that is down: %v, want it refused", err)
		}
		time.Sleep(5 * time.Second)
		s.Down(false)
		from = c.stateFrom(from, zk.StateHasSession)
		c.keeps(id)
		s.Down(false) // says nothing new
		synctest.Wait()
		if n := s.Connections(); n != 1 {
			t.Errorf("%d connections are left after Down(false), want 1", n)
		}
		s.Down(true)
		if d := expired(t, s, id); d <= 10*time.Second || d > 12*time.Second {
			t.Errorf("without a server the session of 10 s expires after %v, want 10 to 12 s", d)
		}
		s.Down(false)
		c.stateFrom(from, zk.StateExpired)
	})
}

func TestAServerThatIsDownSaysNothingOverTCP(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := zktest.Start(t)
	c := connect(t, s.Addr(), 10*time.Second, overTCP)
	id, from := c.SessionID(), c.mark()
	s.Down(true)
	from = c.stateFrom(from, zk.StateDisconnected)
	nc, err := net.Dial("tcp", s.Addr())
	eventstest.Must(t, err)
	defer func() { _ = nc.Close() }()
	if b, _ := io.ReadAll(nc); len(b) != 0 {
		t.Errorf("a server that is down says %q, want nothing", b)
	}
	s.Down(false)
	c.stateFrom(from, zk.StateHasSession)
	c.keeps(id)
}

func TestMuteExecutesLate(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		c := memoryClient(t, s, 30*time.Second)
		id := c.SessionID()
		s.Mute(id, true)
		var work sync.WaitGroup
		work.Go(func() { c.make("/x", 0) })
		synctest.Wait()
		if s.Exists("/x") {
			t.Error("the mute server has created the node, want it held back")
		}
		time.Sleep(3 * time.Second)
		s.Mute(id, false)
		work.Wait()
		if !s.Exists("/x") || c.SessionID() != id {
			t.Errorf("no longer mute: node there %t, session %#x; want the node, in session %#x", s.Exists("/x"), c.SessionID(), id)
		}
	})
}

func TestMuteAllLeavesHandshakesUnanswered(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		s.MuteAll(true)
		c := dialClient(t, s.Addr(), 10*time.Second, inMemory(s))
		c.state(zk.StateConnected)
		time.Sleep(20 * time.Second)
		if n := len(s.Sessions()); n != 0 {
			t.Errorf("a mute server has %d sessions, want none", n)
		}
		s.MuteAll(false)
		c.state(zk.StateHasSession)
	})
}

func TestWipeForgetsNodesAndSessions(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		c.make("/x", 0)
		from := c.mark()
		s.Wipe()
		time.Sleep(time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.seen[from:] {
			if e.State == zk.StateHasSession || e.State == zk.StateExpired {
				t.Errorf("a client that knows more than the server gets %v, want no session", e)
			}
		}
		if len(s.Sessions()) != 0 || s.Exists("/x") {
			t.Errorf("after Wipe there are sessions %v and nodes %v, want none", s.Sessions(), s.Tree())
		}
	})
}

// TestStalledPeer has a client that never reads: it may hold up itself, but
// neither the server nor another client.
func TestStalledPeer(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		eventstest.Must(t, s.Create("/big", make([]byte, 500<<10)))
		stalled := &stallable{}
		c := connect(t, s.Addr(), 30*time.Second, func(network, address string, _ time.Duration) (net.Conn, error) {
			nc, err := s.DialContext(t.Context(), network, address)
			stalled.Conn = nc
			return stalled, err
		})
		other := memoryClient(t, s, 30*time.Second)
		stalled.stop()
		var work sync.WaitGroup
		for range 5 {
			work.Go(func() {
				if _, _, err := c.Get("/big"); err != nil {
					t.Errorf("get: %v", err)
				}
			})
		}
		synctest.Wait()
		other.make("/x", 0)
		stalled.resume()
		work.Wait()
	})
}

// stallable is a connection whose reads can be stopped.
type stallable struct {
	net.Conn
	mu   sync.Mutex
	gate chan struct{}
}

func (c *stallable) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = make(chan struct{})
}

func (c *stallable) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.gate)
	c.gate = nil
}

func (c *stallable) Read(b []byte) (int, error) {
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return c.Conn.Read(b)
}
