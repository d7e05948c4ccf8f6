package zktest_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestALaggingFollowerShowsThePastUntilAWrite(t *testing.T) {
	withClients(t, func(t *testing.T, s *zktest.Server, c, other *client) {
		id := c.SessionID()
		for _, p := range []string{"/old", "/set", "/dir"} {
			c.make(p, 0)
		}
		c.watch("/old")
		c.watchChildren("/dir")
		s.Lag(id, true)
		other.remove("/old")
		other.make("/new", 0)
		other.set("/set", []byte("x"))
		if data, st, err := c.Get("/set"); err != nil || len(data) != 0 || st.Version != 0 {
			t.Errorf("a follower that lags gives %q, %+v, %v; want what was before the write", data, st, err)
		}
		names, _, _, err := c.ChildrenW("/")
		if want := []string{"dir", "old", "set", "zookeeper"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("children %v, %v; want %v", names, err, want)
		}
		c.watchExists("/new")
		if s.Watches() != 4 || len(c.watched()) != 0 {
			t.Errorf("%d watches, want 4; told %v", s.Watches(), c.watched())
		}
		other.make("/dir/child", 0)

		// The follower's own write is answered from the present, and the past comes before it.
		c.make("/dir/mine", 0)
		want := []string{"EventNodeDeleted /old", "EventNodeChildrenChanged /", "EventNodeCreated /new", "EventNodeChildrenChanged /dir"}
		c.told(want...)
		if names, _, err := c.Children("/dir"); err != nil || !slices.Equal(names, []string{"child", "mine"}) {
			t.Errorf("after a write of its own the children are %v, %v; want both", names, err)
		}
		// And it lags again.
		c.watch("/dir")
		other.set("/dir", []byte("y"))
		if data, _, err := c.Get("/dir"); err != nil || len(data) != 0 {
			t.Errorf("after its write the follower gives %q, %v; want it to lag again", data, err)
		}
		c.watch("/set")
		s.Lag(id, false)
		if data, _, err := c.Get("/dir"); err != nil || string(data) != "y" {
			t.Errorf("after the lag the follower gives %q, %v; want y", data, err)
		}
		other.set("/set", nil)
		c.settle()
		want = append(want, "EventNodeDataChanged /dir", "EventNodeDataChanged /set")
		c.told(want...)
	})
}

func TestLagEndsWithTheConnection(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		from := c.mark()
		s.Lag(c.SessionID(), true)
		s.Cut(c.SessionID())
		eventstest.Must(t, s.Create("/x", nil))
		c.stateFrom(from, zk.StateHasSession)
		if found, _, err := c.Exists("/x"); err != nil || !found {
			t.Errorf("on a new connection the node is there: %v, %v; want it there", found, err)
		}
	})
}

func TestStrandedSessionExpiresUnawares(t *testing.T) {
	withClients(t, func(t *testing.T, s *zktest.Server, c, other *client) {
		id, p := c.SessionID(), c.make("/e", zk.FlagEphemeral)
		c.watch(p)
		pings, from := s.Requests(zktest.OpPing), c.mark()
		s.Strand(id, true)
		time.Sleep(30 * time.Second)
		if found, _, err := other.Exists(p); err != nil || found || slices.Contains(s.Sessions(), id) {
			t.Errorf("after 30 s the stranded session's node is there: %v, %v; want the session expired", found, err)
		}
		// The client does not notice that.
		if found, _, err := c.Exists(p); err != nil || !found {
			t.Errorf("to the stranded client the node is there: %v, %v; want it there", found, err)
		}
		if n := s.Requests(zktest.OpPing) - pings; n < 10 || c.mark() != from {
			t.Errorf("%d pings and %d events of a stranded client, want 10 pings or more and no event", n, c.mark()-from)
		}
		s.Strand(id, false)
		c.stateFrom(c.stateFrom(from, zk.StateExpired), zk.StateHasSession)
		c.told("EventNodeDeleted /e")
	})
}

func TestStrandedWriteWaits(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		s.Strand(id, true)
		var work sync.WaitGroup
		work.Go(func() { c.make("/x", 0) })
		time.Sleep(3 * time.Second)
		if s.Exists("/x") {
			t.Error("a write on the stranded connection was executed, want it held back")
		}
		s.Strand(id, false)
		work.Wait()
		if !s.Exists("/x") || c.SessionID() != id {
			t.Error("after the lag the write is missing, want it executed")
		}

		// If it waits too long, the pings behind it wait as well, and the client gives up the connection.
		from := c.mark()
		s.Strand(id, true)
		c.isCut("/y")
		c.stateFrom(from, zk.StateHasSession)
		c.settle()
		if s.Exists("/y") || c.SessionID() != id {
			t.Errorf("on the new connection the node is there: %v, in session %#x; want it missing in %#x", s.Exists("/y"), c.SessionID(), id)
		}
	})
}

// outlives strands a session right after a write and returns for how long it lives.
func outlives(t *testing.T, after time.Duration, settings ...zktest.Setting) (lived time.Duration) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, settings...)
		c := memoryClient(t, s, 10*time.Second)
		time.Sleep(after)
		c.make("/x", zk.FlagEphemeral)
		sent := time.Now()
		s.Strand(c.SessionID(), true)
		for len(s.Sessions()) > 0 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		lived = time.Since(sent)
		s.Strand(c.SessionID(), false)
	})
	return lived
}

func TestAFollowerKeepsSignsOfLifeToItself(t *testing.T) {
	// The client pings 3.33 s after the handshake, and the leader hears of it at 4 s: the session ends at the first boundary beyond 14 s.
	const after = 4900 * time.Millisecond
	if lived, want := outlives(t, after), 16*time.Second-after; lived != want {
		t.Errorf("on the leader a session lives for %v after a write, want %v", lived, want)
	}
	if lived, want := outlives(t, after, zktest.Followers()), 16*time.Second-after; lived != want {
		t.Errorf("on a follower a session lives for %v after a write, want %v", lived, want)
	}
	// A little earlier the leader has heard of the handshake only, although there was a ping and a write was answered. So the session lives
	// for less than its timeout.
	const early = 3900 * time.Millisecond
	if lived, want := outlives(t, early, zktest.Followers()), 12*time.Second-early; lived != want {
		t.Errorf("on a follower a session lives for %v after a write, want %v", lived, want)
	}
}
