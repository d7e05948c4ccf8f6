package coordinator_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Cached locks among themselves. recipes has what a cached node does next, and its
// explorer plays every interleaving of its contenders; coordinator/reliability/schedules
// plays random ones with faults.

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
func outsider(t *testing.T, srv *zktest.Server) (node string) {
	t.Helper()
	conn := coordtest.Admin(t, srv.Addr(), srv.DialContext)
	node, err := conn.CreateProtectedEphemeralSequential(lockPath+"/lock-", nil, zk.WorldACL(zk.PermAll))
	eventstest.Must(t, err)
	synctest.Wait()
	return node
}

// later reports whether Grant a comes after Grant b in the order of all Grants of a path.
func later(a, b events.Grant) bool { return a.Token > b.Token || a.Token == b.Token && a.Turn > b.Turn }

// inTurn waits for each acquisition, and releases it. Their Grants come one after the
// other.
func inTurn(t *testing.T, last events.Grant, all ...*coordinator.Acquisition) (grants []events.Grant) {
	t.Helper()
	for i, a := range all {
		g := coordtest.Soon(t, a)
		expect(t, later(g, last), "after %+v waiter %d is granted %+v", last, i, g)
		last, grants = g, append(grants, g)
		coordtest.End(a)
	}
	return grants
}

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
	got := nodesBelow(srv, lockPath)
	expect(t, len(got) == want, "%s: there are the nodes %v, want %d", when, got, want)
}

// TestACachedLockIsAcquiredWithoutARequest, again and again.
func TestACachedLockIsAcquiredWithoutARequest(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		last := cycle(t, l)
		traffic := coordtest.Traffic(srv)
		for range 100 {
			g := cycle(t, l)
			expect(t, later(g, last), "%+v is granted after %+v", g, last)
			last = g
		}
		expect(t, traffic.Load() == 0, "100 acquisitions took %d requests, want none", traffic.Load())
	})
}

// TestANodeIsKeptWhereItPays: from the second one on, and more rarely where others come
// soon.
func TestANodeIsKeptWhereItPays(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l, other := cachedAt(coordtest.Connect(t, srv)), coordtest.Connect(t, srv).Mutex(lockPath)
		coordtest.Warm(t, coordtest.Connect(t, srv))
		untilKept := func() (n int) { // acquisitions
			for n = 1; n < 200; n++ {
				if cycle(t, l); len(nodesBelow(srv, lockPath)) > 0 {
					break
				}
			}
			return n
		}
		// The first node after another contender is not in succession. Then come the
		// nodes that are let go, and the node that is kept.
		for _, want := range []int{2, 3, 5, 9, 17, 33, 65, 65} {
			got := untilKept()
			expect(t, got == want, "another contender came soon: kept after %d acquisitions, want %d", got, want)
			cycle(t, other)
		}
		untilKept()
		for range 10 {
			cycle(t, l)
		}
		cycle(t, other)
		got := untilKept()
		expect(t, got <= 66,
			"after a node that was worth it the next is kept after %d acquisitions, want 66 at most", got)
		cycle(t, other)
		got = untilKept()
		expect(t, got == 3, "when a node was worth it, the next that is not costs %d acquisitions, want 3", got)
	})
}

// TestAnIdleNodeCostsNothing but pings, and the next acquisition takes one claim.
func TestAnIdleNodeCostsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv, coordinator.WithCacheIdle(24*time.Hour)))
		time.Sleep(3 * time.Second)
		traffic := coordtest.Traffic(srv)
		time.Sleep(time.Hour)
		synctest.Wait()
		expect(t, traffic.Load() == 0, "idle for an hour it has sent %d requests, want none", traffic.Load())
		a, g := coordtest.Hold(t, l)
		expect(t, traffic.Load() == 1 && g.Turn > 0,
			"the next acquisition took %d requests, and its turn is %d; want one, under the same node",
			traffic.Load(), g.Turn)
		left := time.Until(a.Deadline())
		expect(t, left > 5*time.Second, "the next Grant is good for %v, want a fresh lease", left)
		time.Sleep(time.Minute)
		coordtest.NotLost(t, a)
	})
}

// TestTheLeaseOfATurnBehindARestIsRenewed, also if it was proven shortly before.
func TestTheLeaseOfATurnBehindARestIsRenewed(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		for after := 100 * time.Millisecond; after < 4*time.Second; after += 300 * time.Millisecond {
			time.Sleep(after)
			a, _ := coordtest.Hold(t, l)
			time.Sleep(30 * time.Second)
			expect(t, a.Valid(), "%v after a release it is acquired, and not valid half a minute later", after)
			coordtest.End(a)
		}
	})
}

// TestAnIdleNodeIsGivenUpInTime: after a minute by default, and as WithCacheIdle says.
func TestAnIdleNodeIsGivenUpInTime(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		kept(t, coordtest.Connect(t, srv))
		time.Sleep(time.Minute - time.Millisecond)
		wantNodes(t, srv, 1, "for a minute, by default")
		time.Sleep(2 * time.Millisecond)
		wantNodes(t, srv, 0, "after that")
		kept(t, coordtest.Connect(t, srv, coordinator.WithCacheIdle(0)))
		time.Sleep(time.Second)
		wantNodes(t, srv, 0, "a probe interval after the release, of those that are to be idle for no time")
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
}

// TestIdleNodesAreBounded: the node that was used least recently goes first.
func TestIdleNodesAreBounded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithCacheSize(2))
		at := func(path string) *coordinator.Lock { return c.Mutex(path, coordinator.Cached()) }
		use := func(paths ...string) {
			for _, path := range paths {
				cycle(t, at(path))
				cycle(t, at(path))
			}
		}
		wantAt := func(when string, want ...string) {
			t.Helper()
			empty := func(path string) bool { return len(nodesBelow(srv, path)) == 0 }
			got := slices.DeleteFunc([]string{"/a", "/b", "/c"}, empty)
			expect(t, slices.Equal(got, want), "%s the nodes are at %v, want %v", when, got, want)
		}
		use("/a", "/b", "/a", "/c")
		wantAt("with room for two", "/a", "/c")
		held, _ := coordtest.Hold(t, at("/a"))
		use("/b")
		wantAt("with one held and two idle", "/a", "/b", "/c")
		coordtest.NotLost(t, held)
		coordtest.End(held)
		synctest.Wait()
		wantAt("when it is idle, too,", "/a", "/b")

		l := kept(t, coordtest.Connect(t, srv, coordinator.WithCacheSize(0)))
		wantNodes(t, srv, 0, "without room for idle nodes")
		first, g := coordtest.Hold(t, l)
		second := coordtest.Queue(l)
		first.Release()
		next := coordtest.Soon(t, second)
		expect(t, next.Token == g.Token && next.Turn == 1,
			"after %+v a waiter is granted %+v, want the next turn", g, next)
		coordtest.End(second)
		wantNodes(t, srv, 0, "after the last one")
	})
}
