package coordinator_test

import (
	"context"
	"slices"
	"strings"
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
// again. It returns how many waiters had their turn.
func handsOn(
	t *testing.T, l *coordinator.Lock, holds time.Duration, over func() bool, all []*coordinator.Acquisition,
) int {
	t.Helper()
	for n := range 200 {
		holder := slices.IndexFunc(all, (*coordinator.Acquisition).Valid)
		if holder < 0 {
			t.Fatalf("after %d handoffs the lock has no holder", n)
		}
		time.Sleep(holds)
		a := all[holder]
		all = append(slices.Delete(all, holder, holder+1), l.Acquire(context.Background()))
		coordtest.End(a)
		if synctest.Wait(); over() {
			return n
		}
	}
	t.Fatal("after 200 handoffs it is not over")
	return 0
}

// ask is an acquisition that cannot have the node of a cached lock of the coordinator.
func ask(c *coordinator.Coordinator, what string) *coordinator.Acquisition {
	data := map[string][]byte{"other data": []byte("other"), "large data": make([]byte, 5000)}[what]
	lock := map[string]handle{
		"mutex": c.Mutex(lockPath), "read": c.ReadWrite(lockPath).Read(), "election": c.Election(lockPath),
		"other terms": cachedAt(c, coordinator.CacheHandoffs(7)), "other data": cachedAt(c),
		"multi": c.Multi(c.Mutex("/another"), c.Mutex(lockPath)), "large data": cachedAt(c),
	}[what]
	defer synctest.Wait()
	return lock.Acquire(context.Background(), coordinator.Data(data))
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
				most := c.want
				switch who {
				case "another library":
					node := outsider(t, srv)
					there = func() bool { return srv.Exists(node) && !srv.Exists(grant.Node) }
				case "another session":
					other = coordtest.Queue(theirs.Mutex(lockPath))
				default: // waiters that have no turn any more may queue up before it
					most += 2 + c.want
					other = ask(ours, who)
				}
				expect(t, !there(), "it holds beside the holder")
				got := handsOn(t, l, c.holds, there, append(waiting, holder))
				expect(t, got >= c.want && got <= most, "%d handoffs come before it, want %d to %d", got, c.want, most)
				if who != "another library" {
					next := other.Grant()
					expect(t, who == "multi" || next.Token > grant.Token, "%+v is granted after %+v", next, grant)
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
			expect(t, took <= 7*trip, "idle for %v, another contender waited for %v", idle, took)
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
			strike(srv, zktest.Fail(zktest.Throttled), coordtest.Creates)
			other := ask(c, name)
			holder.Release()
			synctest.Wait()
			expect(t, !waits.Valid(), "a waiter has the turn after %+v, and another contender was to queue up", g)
			srv.Intercept(nil)
			for range 2 { // the create of either is the first
				time.Sleep(20 * time.Second)
				synctest.Wait()
				first, second := waits.Valid(), other.Valid()
				expect(t, first != second, "the waiter holds: %v, and the other: %v; want one of them", first, second)
				if first {
					coordtest.End(waits)
				} else {
					coordtest.End(other)
				}
			}
			expect(t, waits.Grant().Token > 0 && other.Grant().Token > 0, "one of both was never granted")
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
		got := handsOn(t, l, 0, other.Valid, all)
		expect(t, got == 5, "%d handoffs came before the other contender, want 5", got)
	})
}

// TestAnIdleNodeBlocksNoLocalAcquisition of another kind: it is granted at once.
func TestAnIdleNodeBlocksNoLocalAcquisition(t *testing.T) {
	for name := range strings.SplitSeq("mutex,read,election,multi,other terms,other data,large data", ",") {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			g := cycle(t, kept(t, c))
			began := time.Now()
			next := coordtest.GrantOf(t, ask(c, name))
			took := time.Since(began)
			expect(t, took == 0 && (next.Token > g.Token || name == "multi") && !srv.Exists(g.Node),
				"%v later %+v is granted after %+v, want it at once, in the idle node's place", took, next, g)
		})
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
		expect(t, string(data) == "one" && first.Turn == 2, "%+v with the data %q, want turn 2", first, data)
		other, same := l.Acquire(t.Context(), two), l.Acquire(t.Context(), one)
		synctest.Wait()
		coordtest.End(a)
		next := coordtest.Soon(t, same)
		expect(t, next.Token == first.Token, "with the same data %+v is granted after %+v", next, first)
		expect(t, !other.Valid(), "with other data it holds beside the holder")
		coordtest.End(same)
		second := coordtest.Soon(t, other)
		data, _ = srv.Data(second.Node)
		expect(t, string(data) == "two" && second.Token > first.Token && !srv.Exists(first.Node),
			"with other data it is granted %+v, and the node has %q; want one in the place of the first", second, data)
	})
}
