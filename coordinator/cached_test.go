package coordinator_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// cachedAt returns a handle of the lock that most tests fight for.
func cachedAt(c *coordinator.Coordinator, terms ...coordinator.CacheOption) *coordinator.Lock {
	return c.Mutex(lockPath, coordinator.Cached(terms...))
}

// kept returns a handle that has an idle node.
func kept(t *testing.T, c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	t.Helper()
	l := c.Mutex(lockPath, append([]coordinator.LockOption{coordinator.Cached()}, options...)...)
	for range 2 { // a node is kept from the second one in succession on
		cycle(t, l)
	}
	return l
}

// cycle holds the lock once.
func cycle(t *testing.T, l *coordinator.Lock, options ...coordinator.AcquireOption) events.Grant {
	t.Helper()
	a, grant := coordtest.Hold(t, l, options...)
	coordtest.End(a)
	synctest.Wait()
	return grant
}

// waiters returns acquisitions that wait in this order.
func waiters(l *coordinator.Lock, n int, options ...coordinator.AcquireOption) (all []*coordinator.Acquisition) {
	for range n {
		all = append(all, l.Acquire(context.Background(), options...))
	}
	synctest.Wait()
	return all
}

// outsider makes a contender's node that is not ours. It lasts until it is deleted.
func outsider(t *testing.T, srv *zktest.Server) (conn *zk.Conn, node string) {
	t.Helper()
	conn = coordtest.Admin(t, srv.Addr(), srv.DialContext)
	node, err := conn.CreateProtectedEphemeralSequential(lockPath+"/lock-", nil, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return conn, node
}

// later reports whether Grant a comes after Grant b in the order of all Grants of a path.
func later(a, b events.Grant) bool { return a.Token > b.Token || a.Token == b.Token && a.Turn > b.Turn }

// told returns the events on the stream.
func told(stream <-chan events.Event) (all []events.Event) {
	for {
		synctest.Wait()
		select {
		case ev := <-stream:
			all = append(all, ev)
		default:
			return all
		}
	}
}

// wantNodes checks how many contenders' nodes there are.
func wantNodes(t *testing.T, srv *zktest.Server, want int, when string) {
	t.Helper()
	synctest.Wait()
	if got := nodesBelow(srv, lockPath); len(got) != want {
		t.Errorf("%s: there are the nodes %v, want %d", when, got, want)
	}
}

// TestACachedLockIsAcquiredWithoutARequest counts the requests of acquisitions, one after the other.
func TestACachedLockIsAcquiredWithoutARequest(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		traffic := coordtest.Traffic(srv)
		var last events.Grant
		for i := range 100 {
			g := cycle(t, l)
			if i > 0 && !later(g, last) {
				t.Errorf("grant %d is %+v, want it after %+v", i, g, last)
			}
			last = g
		}
		if got := traffic.Load(); got != 0 {
			t.Errorf("100 acquisitions took %d requests, want none", got)
		}
	})
}

// untilKept returns how many acquisitions it takes until the node stays.
func untilKept(t *testing.T, srv *zktest.Server, l *coordinator.Lock) (n int) {
	t.Helper()
	for n = 1; n < 200; n++ {
		cycle(t, l)
		if len(nodesBelow(srv, lockPath)) > 0 {
			break
		}
	}
	return n
}

// TestANodeIsKeptWhereItPays: from the second node in succession on, and more rarely where other contenders come soon.
func TestANodeIsKeptWhereItPays(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l, other := cachedAt(coordtest.Connect(t, srv)), coordtest.Connect(t, srv).Mutex(lockPath)
		coordtest.Warm(t, coordtest.Connect(t, srv))
		soon := func() int {
			n := untilKept(t, srv, l)
			cycle(t, other)
			return n
		}
		// The first node after another contender is not in succession. Then come the nodes that are let go, and the node that
		// is kept.
		got := []int{soon(), soon(), soon(), soon(), soon(), soon(), soon(), soon()}
		if want := []int{2, 3, 5, 9, 17, 33, 65, 65}; !slices.Equal(got, want) {
			t.Errorf("each time another contender comes soon it takes %v acquisitions until the node is kept, want %v", got, want)
		}
		untilKept(t, srv, l)
		for range 10 {
			cycle(t, l)
		}
		cycle(t, other)
		cycle(t, l)
		cycle(t, l)
		if got, want := untilKept(t, srv, l), 64; got > want {
			t.Errorf("after a node that was worth it it takes %d more acquisitions, want %d at most", got, want)
		}
		cycle(t, other)
		if got := untilKept(t, srv, l); got != 3 {
			t.Errorf("when a node was worth it, the next that is not costs %d acquisitions, want 3", got)
		}
	})
}

// TestAnIdleNodeCostsNothing: only pings are sent, and the next acquisition takes one claim.
func TestAnIdleNodeCostsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv, coordinator.WithCacheIdle(24*time.Hour)))
		time.Sleep(3 * time.Second)
		traffic := coordtest.Traffic(srv)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := traffic.Load(); got != 0 {
			t.Errorf("idle for an hour it has sent %d requests, want none", got)
		}
		a, g := coordtest.Hold(t, l)
		if got := traffic.Load(); got != 1 || g.Turn == 0 {
			t.Errorf("the next acquisition has taken %d requests, and its turn is %d; want one, under the same node", got, g.Turn)
		}
		if left := time.Until(a.Deadline()); left < 5*time.Second {
			t.Errorf("the next Grant is good for %v, want a fresh lease", left)
		}
		time.Sleep(time.Minute)
		if !a.Valid() {
			t.Error("a minute later it does not hold, want its lease renewed")
		}
		coordtest.End(a)
	})
}

// TestTheLeaseOfATurnBehindARestIsRenewed, also if the lease was proven shortly before the turn.
func TestTheLeaseOfATurnBehindARestIsRenewed(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c)
		for after := 100 * time.Millisecond; after < 4*time.Second; after += 300 * time.Millisecond {
			time.Sleep(after)
			a, _ := coordtest.Hold(t, l)
			time.Sleep(30 * time.Second)
			if !a.Valid() {
				t.Errorf("%v after a release it is acquired, and not valid half a minute later", after)
			}
			coordtest.End(a)
		}
	})
}

// TestAnIdleNodeIsGivenUpInTime: see WithCacheIdle.
func TestAnIdleNodeIsGivenUpInTime(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv, coordinator.WithCacheIdle(10*time.Second)))
		for range 3 { // each use begins it anew
			time.Sleep(9 * time.Second)
			wantNodes(t, srv, 1, "9 s after the release")
			cycle(t, l)
		}
		time.Sleep(10 * time.Second)
		wantNodes(t, srv, 0, "10 s after the last release")
		cycle(t, l)
		wantNodes(t, srv, 1, "after another use")
	})
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		kept(t, coordtest.Connect(t, srv))
		time.Sleep(time.Minute - time.Millisecond)
		wantNodes(t, srv, 1, "for a minute, by default")
		time.Sleep(2 * time.Millisecond)
		wantNodes(t, srv, 0, "after that")
		kept(t, coordtest.Connect(t, srv, coordinator.WithCacheIdle(0)))
		time.Sleep(time.Second)
		wantNodes(t, srv, 0, "a probe interval after the release, of those that are to be idle for no time")
	})
}

// TestIdleNodesAreBounded: the node that was used least recently goes first.
func TestIdleNodesAreBounded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithCacheSize(2))
		use := func(path string) {
			for range 2 {
				cycle(t, c.Mutex(path, coordinator.Cached()))
			}
		}
		there := func() (all []string) {
			for _, path := range []string{"/a", "/b", "/c"} {
				if len(nodesBelow(srv, path)) > 0 {
					all = append(all, path)
				}
			}
			return all
		}
		use("/a")
		use("/b")
		use("/a")
		use("/c")
		if got, want := there(), []string{"/a", "/c"}; !slices.Equal(got, want) {
			t.Errorf("with room for two the idle nodes are at %v, want %v", got, want)
		}
		held, _ := coordtest.Hold(t, c.Mutex("/a", coordinator.Cached()))
		use("/b")
		if got, want := there(), []string{"/a", "/b", "/c"}; !slices.Equal(got, want) {
			t.Errorf("with one held and two idle the nodes are at %v, want %v", got, want)
		}
		coordtest.NotLost(t, held)
		coordtest.End(held)
		synctest.Wait()
		if got, want := there(), []string{"/a", "/b"}; !slices.Equal(got, want) {
			t.Errorf("when it is idle, too, the nodes are at %v, want %v", got, want)
		}
	})
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv, coordinator.WithCacheSize(0)))
		wantNodes(t, srv, 0, "without room for idle nodes")
		first, g := coordtest.Hold(t, l)
		second := coordtest.Queue(l)
		first.Release()
		if next := coordtest.Soon(t, second); next.Token != g.Token || next.Turn != 1 {
			t.Errorf("without room for idle nodes a waiter is granted %+v after %+v, want the next turn", next, g)
		}
		coordtest.End(second)
		wantNodes(t, srv, 0, "after the last one")
	})
}

// TestWrongTermsOfACache: each has an error of its own, at the first call that can tell.
func TestWrongTermsOfACache(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for name, option := range map[string]coordinator.Option{
			"size -1": coordinator.WithCacheSize(-1), "idle for -1 ns": coordinator.WithCacheIdle(-1),
		} {
			if c, err := coordinator.Open(srv.Addr(), option, srv.Option()); !errors.Is(err, coordinator.ErrInvalid) || c != nil {
				t.Errorf("Open with %s: %v, %v; want nil and ErrInvalid", name, c, err)
			}
		}
		c := coordtest.Connect(t, srv)
		cached := coordinator.Cached()
		for name, test := range map[string]struct {
			lock acquirer
			want error
		}{
			"-1 handoffs":      {cachedAt(c, coordinator.CacheHandoffs(-1)), coordinator.ErrInvalid},
			"2^20+1 handoffs":  {cachedAt(c, coordinator.CacheHandoffs(1<<20+1)), coordinator.ErrInvalid},
			"2^32 handoffs":    {cachedAt(c, coordinator.CacheHandoffs(math.MaxInt)), coordinator.ErrInvalid},
			"for -1 ns":        {cachedAt(c, coordinator.CacheFor(-1)), coordinator.ErrInvalid},
			"2^20 handoffs":    {cachedAt(c, coordinator.CacheHandoffs(1<<20)), nil},
			"no bound at all":  {cachedAt(c, nil), nil},
			"read":             {c.ReadWrite(lockPath, cached).Read(), coordinator.ErrKind},
			"write":            {c.ReadWrite(lockPath, cached).Write(), coordinator.ErrKind},
			"semaphore":        {c.Semaphore(lockPath, 2, cached), coordinator.ErrKind},
			"unfair":           {c.Unfair(lockPath, cached), coordinator.ErrKind},
			"tells of crashes": {c.Mutex(lockPath, cached, coordinator.DetectCrash()), coordinator.ErrKind},
			"kazoo's names":    {c.Mutex(lockPath, cached, coordinator.AsKazoo()), coordinator.ErrKind},
			"member":           {c.Multi(c.Mutex("/a"), c.Mutex("/b", cached)), coordinator.ErrKind},
		} {
			a := test.lock.Acquire(t.Context())
			if test.want == nil {
				coordtest.Soon(t, a)
				coordtest.End(a)
				synctest.Wait()
				continue
			}
			if <-a.Done(); !errors.Is(a.Err(), test.want) {
				t.Errorf("%s: ends with %v, want %v", name, a.Err(), test.want)
			}
		}
		election := c.Election(lockPath, cached).Campaign(t.Context())
		if <-election.Done(); !errors.Is(election.Err(), coordinator.ErrKind) {
			t.Errorf("election: ends with %v, want ErrKind", election.Err())
		}
		wantNodes(t, srv, 0, "after all that was refused")
	})
}
