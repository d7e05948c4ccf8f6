package coordinator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A cached lock is wanted when another contender queues: that contender's turn comes a
// bounded number of handoffs later.

// handsOn hands the lock on until it is over. Each holder holds it for so long, and asks
// again. It returns how many waiters had their turn, and those that are left.
func handsOn(
	t *testing.T, l *coordinator.Lock, holds time.Duration, over func() bool, all ...*coordinator.Acquisition,
) (n int, left []*coordinator.Acquisition) {
	t.Helper()
	for n = 0; ; n++ {
		holder := -1
		for i, a := range all {
			if a.Valid() {
				holder = i
			}
		}
		if holder < 0 || n == 200 {
			t.Fatalf("after %d handoffs the lock has a holder: %v; want one, and the end of it", n, holder >= 0)
		}
		time.Sleep(holds)
		a := all[holder]
		all = append(append(all[:holder:holder], all[holder+1:]...), l.Acquire(context.Background()))
		coordtest.End(a)
		if synctest.Wait(); over() {
			return n, all
		}
	}
}

// asks are acquisitions of one coordinator that cannot have the node of a cached lock.
var asks = map[string]func(c *coordinator.Coordinator) *coordinator.Acquisition{
	"mutex": func(c *coordinator.Coordinator) *coordinator.Acquisition { return coordtest.Queue(c.Mutex(lockPath)) },
	"read": func(c *coordinator.Coordinator) *coordinator.Acquisition {
		return coordtest.Queue(c.ReadWrite(lockPath).Read())
	},
	"election": func(c *coordinator.Coordinator) *coordinator.Acquisition {
		return c.Election(lockPath).Acquire(context.Background())
	},
	"multi": func(c *coordinator.Coordinator) *coordinator.Acquisition {
		return coordtest.Queue(c.Multi(c.Mutex("/another"), c.Mutex(lockPath)))
	},
	"other terms": func(c *coordinator.Coordinator) *coordinator.Acquisition {
		return coordtest.Queue(cachedAt(c, coordinator.CacheHandoffs(7)))
	},
	"other data": func(c *coordinator.Coordinator) *coordinator.Acquisition {
		return coordtest.Queue(cachedAt(c), coordinator.Data([]byte("other")))
	},
	"large data": func(c *coordinator.Coordinator) *coordinator.Acquisition {
		return coordtest.Queue(cachedAt(c), coordinator.Data(make([]byte, 5000)))
	},
}

// TestAnotherContenderGetsACachedLockInTime: after the allowed handoffs, whatever it is.
func TestAnotherContenderGetsACachedLockInTime(t *testing.T) {
	long, many := coordinator.CacheFor(time.Hour), coordinator.CacheHandoffs(1<<20)
	type terms = []coordinator.LockOption
	for name, c := range map[string]struct {
		terms terms
		holds time.Duration
		want  int
	}{
		"3 handoffs":    {terms{coordinator.CacheHandoffs(3), long}, 0, 3},
		"no handoffs":   {terms{coordinator.CacheHandoffs(0), long}, 0, 0},
		"by default":    {terms{nil}, 0, 64},
		"50 ms":         {nil, 12 * time.Millisecond, 4},
		"a second":      {terms{coordinator.CacheFor(time.Second), many}, 300 * time.Millisecond, 3},
		"no time":       {terms{coordinator.CacheFor(0), many}, 0, 0},
		"longer probes": {terms{coordinator.CacheFor(time.Minute), many}, 7 * time.Second, 8},
	} {
		for _, who := range []string{"another library", "another session", "mutex", "other terms", "multi"} {
			coordtest.Case(t, name+", "+who, func(t *testing.T, srv *zktest.Server) {
				ours, theirs := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				l := kept(t, ours, coordinator.Cached(c.terms...))
				holder, grant := coordtest.Hold(t, l)
				waiting := waiters(l, 70)
				var other *coordinator.Acquisition
				there := func() bool { return other.Valid() }
				least, most := c.want, c.want
				switch who {
				case "another library":
					node := outsider(t, srv)
					there = func() bool { return srv.Exists(node) && !srv.Exists(grant.Node) }
				case "another session":
					other = coordtest.Queue(theirs.Mutex(lockPath))
				default: // waiters that have no turn any more may queue up before it
					most += 2 + c.want
					other = asks[who](ours)
				}
				expect(t, !there(), "it holds beside the holder")
				got, left := handsOn(t, l, c.holds, there, append(waiting, holder)...)
				expect(t, got >= least && got <= most,
					"%d local handoffs come before it, want %d, and %d at most", got, least, most)
				if other == nil {
					return
				}
				expect(t, who == "multi" || other.Grant().Token > grant.Token,
					"it is granted %+v, want a token above that of %+v", other.Grant(), grant)
				coordtest.End(other)
				for _, a := range left { // in any order
					go func() {
						<-a.Granted()
						a.Release()
					}()
				}
				for _, a := range left {
					<-a.Done()
				}
			})
		}
	}
}

// TestAnIdleNodeGoesAtOnce when another contender comes: it waits for a few round trips.
func TestAnIdleNodeGoesAtOnce(t *testing.T) {
	const trip = time.Millisecond
	for _, idle := range []time.Duration{0, 30 * time.Second} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			l, other := kept(t, coordtest.Connect(t, srv)), coordtest.Connect(t, srv).Mutex(lockPath)
			time.Sleep(idle)
			srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(trip) })
			began := time.Now()
			a, g := coordtest.Hold(t, other)
			took := time.Since(began)
			expect(t, took <= 7*trip,
				"idle for %v, another contender waited for %v, want %v at most", idle, took, 7*trip)
			srv.Intercept(nil)
			coordtest.End(a)
			next := cycle(t, l)
			expect(t, next.Token > g.Token, "the next one is granted %+v after %+v", next, g)
		})
	}
}

// TestALocalContenderIsNotForgottenBeforeItQueuesUp: the servers do not know it yet.
func TestALocalContenderIsNotForgottenBeforeItQueuesUp(t *testing.T) {
	for _, name := range []string{"mutex", "multi", "large data", "other data"} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(0)))
			holder, g := coordtest.Hold(t, l)
			waits := coordtest.Queue(l)
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if coordtest.Creates(r) {
					return zktest.Fail(zktest.Throttled)
				}
				return zktest.Pass()
			})
			other := asks[name](c)
			holder.Release()
			synctest.Wait()
			expect(t, !waits.Valid(),
				"a waiter has the turn after %+v, and another contender was about to queue up", g)
			srv.Intercept(nil)
			for range 2 { // the create of either is the first
				time.Sleep(20 * time.Second)
				synctest.Wait()
				first, second := waits.Valid(), other.Valid()
				expect(t, first != second,
					"the waiter holds: %v, and the other contender: %v; want one of them", first, second)
				if first {
					coordtest.End(waits)
				} else {
					coordtest.End(other)
				}
			}
			for _, a := range []*coordinator.Acquisition{waits, other} {
				expect(t, a.Grant().Token > 0, "one of both was never granted")
			}
		})
	}
}

// TestWantedIsNotForgotten when the other contender leaves, and a waiter withdraws.
func TestWantedIsNotForgotten(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		other := coordtest.Connect(t, srv).Mutex(lockPath)
		terms := coordinator.Cached(coordinator.CacheHandoffs(2), coordinator.CacheFor(time.Hour))
		l := kept(t, coordtest.Connect(t, srv), terms)
		all := waiters(l, 7)
		node := coordtest.Soon(t, all[0]).Node
		coordtest.End(coordtest.Queue(other))
		coordtest.End(all[6])
		next := coordtest.Queue(other)
		for i, a := range all[:3] { // the first one and two handoffs; the others have queued up by themselves
			expect(t, a.Valid() && a.Grant().Node == node, "waiter %d holds: %v, want the turn of one node", i, a.Valid())
			coordtest.End(a)
			synctest.Wait()
		}
		expect(t, !srv.Exists(node), "after two handoffs the node is there, want it gone")
		inTurn(t, all[2].Grant(), append(all[3:6:6], next)...)
	})
}

// TestTwoThatAskAgainAndAgain delay another contender by the bounded number of handoffs.
func TestTwoThatAskAgainAndAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		terms := coordinator.Cached(coordinator.CacheHandoffs(5), coordinator.CacheFor(time.Hour))
		l := kept(t, coordtest.Connect(t, srv), terms)
		all := waiters(l, 2)
		other := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		got, _ := handsOn(t, l, 0, other.Valid, all...)
		expect(t, got == 5, "%d handoffs came before the other contender, want 5", got)
	})
}

// TestAnIdleNodeBlocksNoLocalAcquisition of another kind: it is granted at once.
func TestAnIdleNodeBlocksNoLocalAcquisition(t *testing.T) {
	for name, ask := range asks {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			g := cycle(t, kept(t, c))
			began := time.Now()
			next := coordtest.GrantOf(t, ask(c))
			expect(t, time.Since(began) == 0 && (next.Token > g.Token || name == "multi") && !srv.Exists(g.Node),
				"after %+v it is granted %+v after %v, the idle node is there: %v; want its own at once, in its place",
				g, next, time.Since(began), srv.Exists(g.Node))
		})
	}
}

// TestANeighbourThatCameBeforeTheGrantDelaysNoTurn: waiters hand their node on at once,
// also if another acquisition of the coordinator has queued up with a node of its own
// before theirs was granted.
func TestANeighbourThatCameBeforeTheGrantDelaysNoTurn(t *testing.T) {
	hour := coordinator.CacheFor(time.Hour)
	for _, name := range []string{"mutex", "other data", "other terms", "multi"} {
		for terms, options := range map[string][]coordinator.LockOption{
			"by default": nil, "3 handoffs": {coordinator.CacheHandoffs(3), hour}, "an hour": {hour},
		} {
			coordtest.Case(t, name+", "+terms, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				first, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
				waiting := waiters(cachedAt(c, options...), 2) // one node
				neighbour := asks[name](c)
				coordtest.End(first)
				coordtest.Soon(t, waiting[0])
				coordtest.End(waiting[0])
				began := time.Now()
				coordtest.Soon(t, waiting[1])
				took := time.Since(began)
				expect(t, took == 0, "the lock was free, and the next turn came %v later, want it at once", took)
				coordtest.End(waiting[1])
				coordtest.Soon(t, neighbour)
				coordtest.End(neighbour)
			})
		}
	}
}

// TestAcquisitionsOfOneDataShareANode: the node has their data.
func TestAcquisitionsOfOneDataShareANode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		one, two := coordinator.Data([]byte("one")), coordinator.Data([]byte("two"))
		for range 3 {
			cycle(t, l, one)
		}
		a, first := coordtest.Hold(t, l, one)
		data, _ := srv.Data(first.Node)
		expect(t, string(data) == "one" && first.Turn == 2,
			"granted %+v, with the data %q; want the third turn of the node", first, data)
		other, same := l.Acquire(t.Context(), two), l.Acquire(t.Context(), one)
		synctest.Wait()
		coordtest.End(a)
		next := coordtest.Soon(t, same)
		expect(t, next.Token == first.Token,
			"with the same data %+v is granted, want the next turn after %+v", next, first)
		expect(t, !other.Valid(), "with other data it holds beside the holder")
		coordtest.End(same)
		second := coordtest.Soon(t, other)
		data, _ = srv.Data(second.Node)
		expect(t, string(data) == "two" && second.Token > first.Token && !srv.Exists(first.Node),
			"with other data it is granted %+v, and the node has %q; want one of its own, in the place of the first",
			second, data)
	})
}
