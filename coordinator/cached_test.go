package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// Tests of cached locks among themselves. What a cached node does next is decided in
// recipes, whose explorer plays every interleaving of its contenders.
// coordinator/reliability/schedules plays random ones with faults.

func cachedAt(c *coordinator.Coordinator, terms ...coordinator.LockOption) *coordinator.Lock {
	return c.Mutex(lockPath, coordinator.Cached(terms...))
}

// kept returns a handle whose node is kept and idle.
func kept(t *testing.T, c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	t.Helper()
	return keep(t, c.Mutex(lockPath, append([]coordinator.LockOption{coordinator.Cached()}, options...)...))
}

// keep leaves an idle node of the lock, which is cached, and returns the lock.
func keep(t *testing.T, l *coordinator.Lock) *coordinator.Lock {
	t.Helper()
	for range 2 { // a node is kept from the second acquisition in a row
		cycle(t, l)
	}
	return l
}

func cycle(t *testing.T, l *coordinator.Lock, options ...coordinator.AcquireOption) events.Grant {
	t.Helper()
	a, grant := coordtest.Hold(t, l, options...)
	coordtest.End(a)
	synctest.Wait()
	return grant
}

func waiters(l *coordinator.Lock, n int) (all []*coordinator.Acquisition) {
	for range n {
		all = append(all, l.Acquire(context.Background()))
	}
	synctest.Wait()
	return all
}

// outsider creates a contender's node as another library would. It lasts until it is
// deleted.
func outsider(t *testing.T, srv *zktest.Server) (node string) {
	t.Helper()
	conn := coordtest.Admin(t, srv.Addr(), srv.DialContext)
	node, err := conn.CreateProtectedEphemeralSequential(lockPath+"/lock-", nil, zk.WorldACL(zk.PermAll))
	eventstest.Must(t, err)
	synctest.Wait()
	return node
}

// later reports whether Grant a comes after Grant b in the order of a path's Grants.
func later(a, b events.Grant) bool { return a.Token > b.Token || a.Token == b.Token && a.Turn > b.Turn }

// inTurn waits for each acquisition, checks that its Grant is later than the one before,
// and releases it.
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

func told(stream <-chan events.Event) (all []events.Event) {
	for {
		ev, ok, _ := said(stream)
		if !ok {
			return all
		}
		all = append(all, ev)
	}
}

func wantNodes(t *testing.T, srv *zktest.Server, want int, when string) {
	t.Helper()
	synctest.Wait()
	got := nodesBelow(srv, lockPath)
	expect(t, len(got) == want, "%s: there are the nodes %v, want %d", when, got, want)
}

// TestACachedLockIsAcquiredWithoutARequest, many times, even after a function that failed
// or panicked.
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
		for _, want := range []error{nil, errors.New("failed"), nil} {
			err := l.Do(t.Context(), func(context.Context, events.Grant) error { return want })
			expectError(t, err, want, "Do")
			func() {
				defer func() { expect(t, recover() == "boom", "Do does not panic as its function does") }()
				_ = l.Do(t.Context(), func(context.Context, events.Grant) error { panic("boom") })
			}()
		}
		expect(t, traffic.Load() == 0, "106 acquisitions took %d requests, want none", traffic.Load())
	})
}

// TestANodeIsKeptWhereItPays: from the second acquisition in a row, and rarely where
// other contenders come soon.
func TestANodeIsKeptWhereItPays(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l, other := cachedAt(coordtest.Connect(t, srv)), coordtest.Connect(t, srv).Mutex(lockPath)
		coordtest.Warm(t, coordtest.Connect(t, srv))
		// The first node after another contender does not count as one in a row. Then
		// come the nodes that are deleted, and the node that is kept.
		for _, want := range []int{2, 3, 5, 9, 17, 33, 65, 65} {
			got := 1 // number of acquisitions
			for cycle(t, l); len(nodesBelow(srv, lockPath)) == 0 && got < 200; cycle(t, l) {
				got++
			}
			expect(t, got == want, "another contender came soon: kept after %d acquisitions, want %d", got, want)
			cycle(t, other)
		}
	})
}

// TestAnIdleNodeCostsNothing but pings, also if it was used once more. The next
// acquisition takes one claim.
func TestAnIdleNodeCostsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv, coordinator.WithCacheIdle(24*time.Hour)))
		for uses := range 3 {
			time.Sleep(3 * time.Second)
			traffic := coordtest.Traffic(srv)
			time.Sleep(time.Hour)
			synctest.Wait()
			expectEqual(t, traffic.Load(), 0, "requests in an idle hour after %d uses", uses)
			a, g := coordtest.Hold(t, l)
			expect(t, traffic.Load() == 1 && g.Turn > 0, "%d requests for turn %d, want one", traffic.Load(), g.Turn)
			left := time.Until(a.Deadline())
			expect(t, left > 5*time.Second, "the next Grant is good for %v, want a fresh lease", left)
			if uses == 2 {
				time.Sleep(time.Minute)
				coordtest.NotLost(t, a)
			}
			coordtest.End(a)
		}
	})
}

// TestThoseBehindAHolderHaveAPosition, and the stream reports it once. This includes
// waiters that came before their node had a known place. If the node is deleted, they
// queue up again.
func TestThoseBehindAHolderHaveAPosition(t *testing.T) {
	for _, name := range []string{"a new node", "an idle node"} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			l := cachedAt(c)
			if name == "an idle node" {
				l = kept(t, c)
				time.Sleep(30 * time.Second) // half of the time after which it is given up
			}
			stream := c.Events(t.Context())
			all := waiters(l, 5)
			for range 2 {
				node := coordtest.Soon(t, all[0]).Node
				behind := map[uint64]string{}
				for _, ev := range told(stream) {
					switch ev := ev.(type) {
					case events.Queued:
						behind[ev.ID] += fmt.Sprintf(" %d ahead", ev.Ahead)
					case events.Requeued:
						behind[ev.ID] += " requeued"
					}
				}
				for i, a := range all[1:] {
					n, ok := a.Position()
					expect(t, ok && n == i+1, "waiter %d has %d ahead (%v), want %d", i, n, ok, i+1)
					want := fmt.Sprintf("%s %d ahead", map[bool]string{true: " requeued"}[len(all) < 5], i+1)
					expect(t, behind[a.ID()] == want, "the stream tells waiter %d%s, want%s", i, behind[a.ID()], want)
				}
				eventstest.Must(t, srv.Delete(node))
				synctest.Wait()
				all = all[1:]
			}
		})
	}
}

// TestWaitersBehindAnotherSessionHaveAPosition, even late ones, whose node has long been
// queued. They have one again when that node is requeued, even if the next one finds
// itself alone, because the other session has released the lock meanwhile.
func TestWaitersBehindAnotherSessionHaveAPosition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		other, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		stream := c.Events(t.Context())
		l := cachedAt(c)
		all := []*coordinator.Acquisition{coordtest.Queue(l), coordtest.Queue(l), coordtest.Queue(l)}
		wantPlaces := func(all []*coordinator.Acquisition) {
			t.Helper()
			for i, a := range all {
				n, ok := a.Position()
				expect(t, ok && n == i+1, "waiter %d has %d ahead (%v), want %d", i, n, ok, i+1)
			}
		}
		wantPlaces(all)
		var queued []int
		for _, ev := range told(stream) {
			if q, is := ev.(events.Queued); is {
				queued = append(queued, q.Ahead)
			}
		}
		expect(t, slices.Equal(queued, []int{1, 2, 3}), "the stream tells of %v ahead, want 1, 2 and 3", queued)
		queue, err := l.Queue(t.Context())
		eventstest.Must(t, err)
		strike(srv, zktest.Delay(time.Second), coordtest.Creates)
		eventstest.Must(t, srv.Delete(queue[1].Node))
		synctest.Wait()
		coordtest.End(other)
		coordtest.Soon(t, all[0])
		synctest.Wait()
		wantPlaces(all[1:])
		inTurn(t, other.Grant(), all...)
	})
}

// TestTheLeaseOfATurnBehindARestIsRenewed, even if it was proven shortly before.
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

// TestAnIdleNodeIsGivenUpInTime: after a minute by default, or after the time of
// WithCacheIdle.
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
		for range 3 { // each use restarts the time
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

// TestIdleNodesAreBounded: the least recently used node is removed first.
func TestIdleNodesAreBounded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithCacheSize(2))
		at := func(path string) *coordinator.Lock { return c.Mutex(path, coordinator.Cached()) }
		wantAt := func(when string, want ...string) {
			t.Helper()
			empty := func(path string) bool { return len(nodesBelow(srv, path)) == 0 }
			got := slices.DeleteFunc([]string{"/a", "/b", "/c"}, empty)
			expect(t, slices.Equal(got, want), "%s the nodes are at %v, want %v", when, got, want)
		}
		for _, path := range []string{"/a", "/b", "/a", "/c"} {
			keep(t, at(path))
		}
		wantAt("with room for two", "/a", "/c")
		held, _ := coordtest.Hold(t, at("/a"))
		keep(t, at("/b"))
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
		expect(t, next.Token == g.Token && next.Turn == 1, "%+v is granted after %+v, want its turn", next, g)
		coordtest.End(second)
		wantNodes(t, srv, 0, "after the last one")
	})
}

// How the contenders of one coordinator share a cached lock.

// TestLocalContendersHandACachedLockOn in the order of their calls, without requests.
func TestLocalContendersHandACachedLockOn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		for _, most := range []int32{12, 0} { // for the first node, and for a kept one
			traffic := coordtest.Traffic(srv)
			grants := inTurn(t, events.Grant{}, waiters(l, 1000)...)
			for i, g := range grants {
				expect(t, g.Token == grants[0].Token && g.Node == grants[0].Node && g.Turn == grants[0].Turn+uint64(i),
					"contender %d is granted %+v after %+v, want the next turn of one node", i, g, grants[0])
			}
			synctest.Wait()
			expect(t, traffic.Load() <= most, "that took %d requests, want %d at most", traffic.Load(), most)
			keep(t, l)
		}
	})
}

// TestALocalWaiterMayEndItsWait by a context, after a time, or by a release. The waiter
// holds nothing: the queue shows one node, marked as cached.
func TestALocalWaiterMayEndItsWait(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		holder, g := coordtest.Hold(t, l)
		w := coordtest.Queue(l)
		queue, err := l.Queue(t.Context())
		eventstest.Must(t, err)
		expect(t, len(queue) == 1 && queue[0].Cached && queue[0].Holding && queue[0].Token == g.Token,
			"the queue is %+v; want one contender that holds and is cached", queue)
		ahead, ok := w.Position()
		expect(t, !ok || ahead > 0, "the waiter has %d ahead", ahead)
		expect(t, !w.Valid() && w.Deadline().IsZero() && w.Grant().Node == "" && w.Err() == nil,
			"valid %v, deadline %v, Grant %+v, Err %v; want none of it", w.Valid(), w.Deadline(), w.Grant(), w.Err())
		coordtest.End(w)

		traffic := coordtest.Traffic(srv)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("a reason")
		cancelled, first, released := l.Acquire(ctx), l.Acquire(t.Context()), l.Acquire(t.Context())
		timed := l.Acquire(t.Context(), coordinator.MaxWait(time.Second))
		ended, last := l.Acquire(ctx), l.Acquire(t.Context())
		synctest.Wait()
		cancel(reason)
		released.Release()
		late := l.Acquire(ctx) // its context has ended
		over := func(name string, a *coordinator.Acquisition, want error) {
			t.Helper()
			synctest.Wait()
			expect(t, coordtest.IsClosed(a.Done()), "%s: the wait goes on, want it over at once", name)
			expectError(t, a.Err(), want, name)
		}
		over("the context of the first of them", cancelled, reason)
		over("a context", ended, reason)
		over("a context that has ended", late, reason)
		over("a release", released, coordinator.ErrNotAcquired)
		expect(t, !coordtest.IsClosed(timed.Done()), "the wait of a second ends before, want it to last")
		time.Sleep(time.Second)
		over("after a second", timed, coordinator.ErrTimeout)
		coordtest.End(holder)
		inTurn(t, g, first, last)
		synctest.Wait()
		expect(t, traffic.Load() <= 1, "that took %d requests, want one at most", traffic.Load()) // one probe in that second
		wantNodes(t, srv, 1, "when all have left")
	})
}

// TestTryOfACachedLock: a Try succeeds if there is no holder and no waiter, and never
// waits. If a waiter shares its attempt, the Try still does not wait.
func TestTryOfACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		coordtest.Warm(t, c)
		l := cachedAt(c)
		try := func(when string, want error, requests int32) {
			t.Helper()
			synctest.Wait()
			traffic, began := coordtest.Traffic(srv), time.Now()
			a := l.Acquire(t.Context(), coordinator.Try())
			_, err := a.Wait(t.Context())
			expectError(t, err, want, when)
			coordtest.End(a)
			synctest.Wait()
			expect(t, traffic.Load() <= requests && time.Since(began) == 0,
				"%s: %d requests in %v, want %d at once", when, traffic.Load(), time.Since(began), requests)
		}
		try("free", nil, 4)
		try("free again", nil, 4)
		try("idle", nil, 0)
		time.Sleep(10 * time.Second)
		try("resting", nil, 1)
		a, g := coordtest.Hold(t, l)
		try("held here", coordinator.ErrNotAcquired, 0)
		waiter := l.Acquire(t.Context())
		a.Release()
		inTurn(t, g, waiter)
		cycle(t, c.Mutex(lockPath))
		wantNodes(t, srv, 0, "when the idle node was wanted")
		held, g := coordtest.Hold(t, other)
		try("held elsewhere", coordinator.ErrNotAcquired, 3)
		waits := coordtest.Queue(l)
		try("waited for here", coordinator.ErrNotAcquired, 0)
		coordtest.End(held)
		inTurn(t, g, waits)

		held, g = coordtest.Hold(t, other)
		tries, joins := l.Acquire(t.Context(), coordinator.Try()), l.Acquire(t.Context())
		expectError(t, coordtest.EndOf(t, tries), coordinator.ErrNotAcquired, "a try with a waiter")
		wantNodes(t, srv, 2, "with one that holds and one that waits")
		coordtest.End(held)
		inTurn(t, g, joins)
	})
}

// A Try waits as long as an idle node takes to be removed.
func TestATryGetsALockThatIsCachedElsewhereAndIdle(t *testing.T) {
	for _, held := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			l, other := kept(t, coordtest.Connect(t, srv)), coordtest.Connect(t, srv)
			if held {
				coordtest.Hold(t, l)
			}
			began := time.Now()
			_, err := other.Mutex(lockPath).Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
			took := time.Since(began)
			if !held {
				expectError(t, err, nil, "a try of a lock that is idle elsewhere")
				return
			}
			expectError(t, err, coordinator.ErrNotAcquired, "a try of a lock that is held elsewhere")
			expect(t, took >= 50*time.Millisecond && took <= 60*time.Millisecond, "%v, want 50 ms", took)
		})
	}
}

// TestATryWithoutAConnectionEnds in time, although it waited for an idle node.
func TestATryWithoutAConnectionEnds(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		coordtest.Hold(t, kept(t, coordtest.Connect(t, srv)))
		a := coordtest.Connect(t, srv).Mutex(lockPath).Acquire(t.Context(), coordinator.Try())
		time.Sleep(10 * time.Millisecond)
		srv.Down(true)
		began := time.Now()
		<-a.Done()
		expectError(t, a.Err(), coordinator.ErrNotAcquired, "a try of a lock that is held elsewhere")
		expect(t, time.Since(began) <= 50*time.Millisecond, "it ends %v after the connection was lost, want 50 ms at most", time.Since(began))
		srv.Down(false)
	})
}

// TestACachedLockIsEnteredAgain with the holder's node and turn, until the last release.
func TestACachedLockIsEnteredAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Reentrant())
		traffic := coordtest.Traffic(srv)
		all := nested(t, l, 3)
		outer := all[0].Grant()
		late := context.WithoutCancel(all[0].Context(t.Context()))
		next := coordtest.Queue(l)
		for i, a := range all {
			g := a.Grant()
			expect(t, g.Token == outer.Token && g.Turn == outer.Turn && g.Node == outer.Node && g.ID == a.ID(),
				"entered again it is granted %+v, want the node and the turn of %+v", g, outer)
			expect(t, a.Valid() && !next.Valid(), "with %d released the next one holds: %v", i, next.Valid())
			coordtest.End(a)
		}
		coordtest.Soon(t, next)
		again := c.Mutex(lockPath, coordinator.Cached()).Acquire(next.Context(t.Context()))
		expectError(t, coordtest.EndOf(t, again), coordinator.ErrDeadlock, "a handle that is not reentrant, inside")
		behind := l.Acquire(late)
		synctest.Wait()
		expect(t, !behind.Valid(), "it enters after the release, beside the next holder")
		for i, g := range inTurn(t, outer, next, behind) {
			expect(t, g.Token == outer.Token && g.Turn == outer.Turn+1+uint64(i), "%+v comes after %+v", g, outer)
		}
		expect(t, traffic.Load() == 0, "that took %d requests, want none", traffic.Load())
	})
}

// TestLocalContendersKeepTheirOrder: when the time is up, the waiters for the node queue
// after the other contender, and before later ones that had to queue at once.
func TestLocalContendersKeepTheirOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(6), coordinator.CacheFor(50*time.Millisecond)))
		holder, last := coordtest.Hold(t, l)
		waiting := waiters(l, 10)
		stranger := coordtest.Queue(other)
		coordtest.End(holder)
		for i, a := range waiting {
			if i == 3 {
				coordtest.Soon(t, stranger)
				coordtest.End(stranger)
			}
			coordtest.Soon(t, a)
			time.Sleep(20 * time.Millisecond)
			last = inTurn(t, last, a)[0]
			synctest.Wait()
		}
	})
}

// TestAPathThatWasNeverAcquiredIsForgotten: with WithCacheSize(0), acquisitions at ever
// new paths whose context has ended leave nothing in memory.
func TestAPathThatWasNeverAcquiredIsForgotten(t *testing.T) {
	const paths = 20_000
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithCacheSize(0))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		used := func(from, to int) int { // after acquisitions at these paths
			for i := from; i < to; i++ {
				<-c.Mutex(fmt.Sprint(lockPath, "/", i), coordinator.Cached()).Acquire(ended).Done()
			}
			return heap()
		}
		before := used(0, paths/10)
		after := used(paths, 2*paths)
		expect(t, after <= before+paths*100, "%d bytes a path are kept, want none", (after-before)/paths)
		runtime.KeepAlive(c)
	})
}

// TestEverDifferentDataCostNoWalk: acquisitions of one cached lock with different data
// each cost the same after a thousand as at first.
func TestEverDifferentDataCostNoWalk(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		lock, n := cachedAt(coordtest.Connect(t, srv)), 0
		bytes := func(acquisitions int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range acquisitions {
				n++
				a, _ := coordtest.Hold(t, lock, coordinator.Data(fmt.Append(nil, n)))
				coordtest.End(a)
			}
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / uint64(acquisitions)
		}
		bytes(20)
		first := bytes(20)
		bytes(1000)
		later := bytes(20)
		for again := 3; later > first*5/4 && again > 0; again-- { // a collection empties pools, but not every time
			later = bytes(20)
		}
		expect(t, later <= first*5/4, "%d bytes an acquisition at first, %d after a thousand", first, later)
	})
}
