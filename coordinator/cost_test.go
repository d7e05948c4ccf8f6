package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// What a lock costs, counted and not timed: requests, wake-ups, bytes, goroutines. The
// network counts frames and loses none. TestRealCounts reads the counters of a real
// server.

// TestAFreeLockCostsTwoRequests: one to acquire, one to release.
func TestAFreeLockCostsTwoRequests(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		n := coordtest.Cost(ms, func() { holdAgainAndAgain(t, cs[0].Mutex(lockPath), cycles) })
		expect(t, n.Requests == 2*cycles && n.Events == 0, "%d cycles took %+v, want 2 requests each", cycles, n)
	})
}

func holdAgainAndAgain(t *testing.T, l handle, cycles int) {
	t.Helper()
	for range cycles {
		a, _ := coordtest.HoldReal(t, l)
		coordtest.End(a)
	}
}

func handOver(t *testing.T, holder, next *coordinator.Acquisition) {
	t.Helper()
	holder.Release()
	coordtest.GrantOf(t, next)
	<-holder.Done()
}

// TestAHandoffCostsTheSameInALongQueue: a release wakes the next holder, and the session
// of the deleted node, which watches it. A zxid may be longer in hexadecimal.
func TestAHandoffCostsTheSameInALongQueue(t *testing.T) {
	const first, handoffs = 3, 10 // the first holders have not waited
	for sessions, want := range map[int]int{
		5: 2 * handoffs, // delete with a floor; read the floor
		1: handoffs,     // the session that released knows what the floor says
	} {
		var costs []coordtest.Count
		for _, waiters := range []int{20, eventstest.Amount(400, 1000)} {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, sessions)
				coordtest.Warm(t, cs...)
				var all []*coordinator.Acquisition
				for i := range first + 1 + waiters {
					all = append(all, coordtest.Queue(cs[i%sessions].Mutex(lockPath)))
				}
				coordtest.GrantOf(t, all[0])
				var before coordtest.Count
				for i := range first + handoffs {
					if i == first {
						before = coordtest.Total(ms)
					}
					heard := make([]int, sessions)
					for s, m := range ms {
						heard[s] = m.Read().Events
					}
					handOver(t, all[i], all[i+1])
					for s, m := range ms {
						n, woken := m.Read().Events-heard[s], s == i%sessions || s == (i+1)%sessions
						expect(t, i < first || n == 1 == woken && n < 2, "release %d: %d events for session %d", i, n, s)
					}
				}
				costs = append(costs, coordtest.Total(ms).Minus(before))
			})
		}
		short, long := costs[0], costs[1]
		expect(t, short.Requests == want && long.Requests == want && long.Events == short.Events,
			"%d sessions: %+v in a short queue, %+v in a long one; want %d requests", sessions, short, long, want)
		more := long.Bytes - short.Bytes
		expect(t, more >= 0 && more <= 4*handoffs, "%d sessions: %d bytes more in a long queue", sessions, more)
	}
}

// TestTheOnlyOneWaitingAsksNothing when it is handed the lock, if it has waited for less
// than a session timeout. Until then its session writes once per probe interval, as a
// holder's does. After a reconnect it does not, or all waiters would begin at once.
func TestTheOnlyOneWaitingAsksNothing(t *testing.T) {
	const interval, timeout = time.Second, 10 * time.Second
	for _, c := range []struct {
		wait           time.Duration
		cut            bool
		writes, claims int
	}{
		{0, false, 0, 0},
		{interval * 5 / 2, false, 2, 0},
		{timeout - interval/2, false, 9, 0},
		{timeout + 3*interval, false, 9, 1},
		{24 * time.Hour, false, 9, 1},
		{timeout / 2, true, 0, 1},
	} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			cs, ms := coordtest.Metered(t, srv, 2)
			coordtest.Warm(t, cs...)
			holder, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
			next := coordtest.Queue(cs[1].Mutex(lockPath))
			for i := range 20 { // more locks cost nothing more
				other := fmt.Sprintf("/locks/other-%d", i)
				coordtest.Hold(t, cs[0].Mutex(other))
				coordtest.Queue(cs[1].Mutex(other))
			}
			if c.cut {
				srv.Cut(cs[1].SessionID())
				time.Sleep(interval)
			}
			writes := coordtest.Cost(ms[1:], func() { time.Sleep(c.wait) }).Requests
			n := coordtest.Cost(ms, func() { handOver(t, holder, next) })
			expect(t, writes == c.writes && n.Requests == 1+c.claims,
				"after %v its session has written %d times, and the handoff takes %+v; want %d, and %d requests",
				c.wait, writes, n, c.writes, 1+c.claims)
		})
	}
}

// TestAFreshPathTakesOneRoundTrip: the requests for the directory and for the node in it
// are sent together. From then on, the session knows the directory. At a path that other
// contenders have used, the session looks at the directory as before.
func TestAFreshPathTakesOneRoundTrip(t *testing.T) {
	const roundTrip = 20 * time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 2)
		eventstest.Must(t, srv.Create("/old", nil))
		holdAgainAndAgain(t, cs[0].Mutex("/old"), 1)
		expectEqual(t, srv.Requests(zktest.OpCreateContainer), 0, "containers, which some servers do not know")
		holdAgainAndAgain(t, cs[0].Mutex("/locks/first"), 1) // now the session knows that the servers do
		coordtest.Hold(t, cs[1].Mutex("/locks/held"))
		ms[0].Lag(faultnet.Up, roundTrip)
		acquires := func(what, path string, requests, trips int) *coordinator.Acquisition {
			t.Helper()
			before, began := ms[0].Read().Requests, time.Now()
			a := cs[0].Mutex(path).Acquire(t.Context())
			for synctest.Wait(); ; synctest.Wait() {
				if _, waits := a.Position(); waits || a.Valid() {
					break
				}
				time.Sleep(roundTrip)
			}
			took, n := time.Since(began), ms[0].Read().Requests-before
			expect(t, n == requests && took == time.Duration(trips)*roundTrip,
				"%s: %d requests in %v, want %d in %d round trips", what, n, took, requests, trips)
			return a
		}
		for i := range 3 {
			coordtest.End(acquires("a fresh path", fmt.Sprintf("/locks/fresh-%d", i), 2, 1))
		}
		coordtest.End(acquires("the same again", "/locks/fresh-0", 1, 1))
		eventstest.Must(t, srv.Delete("/locks/fresh-1"))
		time.Sleep(idleTime) // the session finds that the directory is gone
		coordtest.End(acquires("a path whose directory was removed", "/locks/fresh-1", 2, 1))
		acquires("a held path", "/locks/held", 6, 4)
		eventstest.Must(t, srv.Create("/theirs", []byte("another program's data")))
		coordtest.End(acquires("another program's directory", "/theirs", 5, 4))
		coordtest.End(acquires("the same again", "/theirs", 4, 4))
		eventstest.Must(t, srv.Create("/empty", nil))
		before := srv.Requests(zktest.OpCreateContainer)
		tried, _ := coordtest.Hold(t, cs[0].Mutex("/empty"), coordinator.Try())
		coordtest.End(tried)
		asked := srv.Requests(zktest.OpCreateContainer) - before
		expectEqual(t, asked, 0, "how often a Try asks for the directory that it has just listed")
	})
}

// TestAFreshPathIsNeverListed, however the goroutines run. This test uses real time.
func TestAFreshPathIsNeverListed(t *testing.T) {
	srv := zktest.Start(t)
	c := coordtest.Connect(t, srv)
	holdAgainAndAgain(t, c.Mutex("/locks/first"), 1)
	before := srv.Requests(zktest.OpGetChildren2)
	for i := range eventstest.Amount(1000, 4000) {
		a, _ := coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/fresh-%d", i)))
		coordtest.End(a)
	}
	expectEqual(t, srv.Requests(zktest.OpGetChildren2)-before, 0, "listings at fresh paths")
}

// TestLocksHaveNoGoroutines: holders and waiters have none, and the observers of an
// election share one. The test counts the goroutines of the process, so it uses real
// time.
func TestLocksHaveNoGoroutines(t *testing.T) {
	locks := eventstest.Amount(300, 1000)
	const elections = 10
	srv := zktest.Start(t)
	c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(40*time.Second))
	coordtest.Hold(t, c.Mutex("/locks/counted")) // a client starts its last goroutines after it has reported the session
	before := runtime.NumGoroutine()
	waiting := make([]*coordinator.Acquisition, locks)
	for i := range locks {
		coordtest.Hold(t, c.Mutex(fmt.Sprint("/locks/", i)))
		waiting[i] = c.Mutex(fmt.Sprint("/locks/", i)).Acquire(t.Context())
	}
	eventstest.Eventually(t, "all wait", func() bool {
		return len(srv.Children(fmt.Sprint("/locks/", locks-1))) == 2 && srv.Watches() >= locks
	}, func() string { return fmt.Sprintf("there are %d watches, want %d", srv.Watches(), locks) })
	var observed []<-chan events.Leader
	for i := range locks {
		observed = append(observed, c.Election(fmt.Sprint("/elections/", i%elections)).Observe(t.Context()))
	}
	for _, leaders := range observed {
		<-leaders
	}
	most := before + elections
	eventstest.Eventually(t, "nothing is under way any more", func() bool { return runtime.NumGoroutine() <= most },
		func() string { return fmt.Sprintf("%d goroutines, want %d at most", runtime.NumGoroutine(), most) })
	for _, a := range waiting {
		expect(t, !coordtest.IsClosed(a.Done()) && !a.Valid(), "one that waits is over, or holds: %v", a.Valid())
	}
}

// TestALoopIsNotInItsOwnWay: a holder that has waited releases and acquires again at
// once. From the second cycle on, each takes one request, because its node is created
// after the previous one is deleted.
func TestALoopIsNotInItsOwnWay(t *testing.T) {
	const cycles, most = 100, 110
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	srv := zktest.Start(t)
	lock := coordtest.Connect(t, srv).Mutex(lockPath)
	writes := counting(srv, isA(zktest.OpMulti, zktest.OpCreate, zktest.OpDelete))
	var took []int32
	for range 5 {
		held, _ := coordtest.Hold(t, lock)
		next := lock.Acquire(t.Context())
		eventstest.Eventually(t, "it waits", func() bool { _, waits := next.Position(); return waits })
		coordtest.End(held)
		coordtest.GrantOf(t, next)
		before := writes.Load()
		for range cycles {
			next.Release()
			next = lock.Acquire(t.Context())
			_, err := next.Wait(t.Context())
			eventstest.Must(t, err)
		}
		took = append(took, writes.Load()-before)
		coordtest.End(next)
	}
	// Check most rounds only: the machine's other work may come between a release and the
	// next acquire, and a loop may leave its own way by chance.
	slices.Sort(took)
	expect(t, took[2] <= most, "%d cycles took %d writes, want %d at most in most rounds", cycles, took, most)
}

// TestACycleAllocatesLittle, including the allocations of the server and the client.
func TestACycleAllocatesLittle(t *testing.T) {
	c := coordtest.Connect(t, zktest.Start(t))
	ctx := t.Context()
	reentrant, cached := c.Mutex("/locks/outer", coordinator.Reentrant()), c.Mutex("/locks/cached", coordinator.Cached())
	outer, _ := coordtest.HoldReal(t, reentrant)
	taken := func(a *coordinator.Acquisition) {
		_, err := a.Wait(ctx)
		eventstest.Must(t, err)
		a.Release()
	}
	channels := func(a *coordinator.Acquisition) {
		<-a.Granted()
		a.Release()
		<-a.Done()
	}
	for _, way := range []struct {
		name string
		most float64
		ctx  context.Context
		lock *coordinator.Lock
		take func(*coordinator.Acquisition)
	}{
		{"as felt", 95, ctx, c.Mutex(lockPath), taken}, // sometimes the release is a request of its own
		{"entered again", 8, outer.Context(ctx), reentrant, taken},
		{"cached", 7, ctx, cached, taken},
		{"cached, with the channels", 10, ctx, cached, channels},
	} {
		cycle := func() { way.take(way.lock.Acquire(way.ctx)) }
		for range 100 { // after the first cycles a cached node is kept
			cycle()
		}
		n := way.most + 1
		for again := 3; n > way.most && again > 0; again-- {
			n = testing.AllocsPerRun(1000, cycle)
		}
		expect(t, n <= way.most, "%s: a cycle takes %v allocations, want %v at most", way.name, n, way.most)
	}
}

// TestRealCounts reads what a lock has cost a real server. One or two pings are
// tolerated.
func TestRealCounts(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1,
		ensemble.Tick(2*time.Second), // for a long session timeout
		ensemble.Property("znode.container.checkIntervalMs", "600000"))
	connectIdle := func(t *testing.T) *coordinator.Coordinator {
		return coordtest.ConnectReal(t, e.Connect(), coordinator.WithSessionTimeout(40*time.Second))
	}
	const stray = 2
	free := func(t *testing.T, l handle, members, cycles int) {
		a, g := coordtest.HoldReal(t, l)
		expect(t, len(g.Members) == members, "%+v is granted, want %d members", g, members)
		coordtest.End(a)
		holdAgainAndAgain(t, l, 1) // now the directories are known to be ours
		n := coordtest.RealToll(t, e, func() { holdAgainAndAgain(t, l, cycles) })
		want := float64(2 * cycles)
		expect(t, n.Packets >= want && n.Packets <= want+stray && n.Woken == 0,
			"%d cycles took %+v, want %v to %v requests and no wake-up", cycles, n, want, want+stray)
	}
	t.Run("a free lock", func(t *testing.T) { free(t, connectIdle(t).Mutex("/locks/free"), 0, 200) })
	t.Run("32 free locks", func(t *testing.T) { free(t, mutexes(connectIdle(t), pathsOf(32)...), 32, 50) })
	t.Run("a lock that is entered again", func(t *testing.T) { realReentry(t, e) })
	t.Run("a queue", func(t *testing.T) {
		const handoffs = 20
		short := realHandoffs(t, e, connectIdle(t), "/locks/small", 3+handoffs+1, handoffs, stray)
		long := realHandoffs(t, e, connectIdle(t), "/locks/large", 1000, handoffs, stray)
		// The paths have the same length, but a zxid in hexadecimal may be longer.
		more := long - short
		expect(t, more >= -16*stray && more <= 4*handoffs+16*stray,
			"%d handoffs took %v bytes more in the long queue, want few", handoffs, more)
	})
}

// realHandoffs counts handoffs in a queue, and returns how many bytes they took.
func realHandoffs(
	t *testing.T, e *ensemble.Ensemble, c *coordinator.Coordinator, dir string, waiters, handoffs, stray int,
) float64 {
	t.Helper()
	stream := c.Events(t.Context())
	all, queued := map[uint64]*coordinator.Acquisition{}, map[uint64]bool{}
	for range waiters + 1 {
		a := c.Mutex(dir).Acquire(context.Background())
		all[a.ID()] = a
	}
	// next returns the next holder, in the server's order, or nil once enough contenders
	// have queued.
	next := func(enough int) *coordinator.Acquisition {
		for len(queued) < enough {
			switch ev := eventstest.Receive(t, stream, "a Grant or Queued").(type) {
			case events.Queued:
				queued[ev.ID] = true
			case events.Grant:
				return all[ev.ID]
			}
		}
		return nil
	}
	now := next(len(all) + 1)
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), dir, len(all))
	next(waiters) // a handoff is sent before the creates of further contenders
	eventstest.Eventually(t, "nothing is under way", func() bool {
		return coordtest.RealToll(t, e, func() {}).Packets == 0
	})
	handOn := func(n int) {
		for range n {
			coordtest.End(now)
			now = next(len(all) + 1)
		}
	}
	handOn(3) // the first holders never waited, or had only one contender ahead
	n := coordtest.RealToll(t, e, func() { handOn(handoffs) })
	least, most := float64(handoffs), float64(handoffs+stray)
	expect(t, n.Woken == least && n.Packets >= least && n.Packets <= most,
		"%d handoffs with %d waiting took %+v, want a request and a wake-up each", handoffs, waiters, n)
	return n.Bytes
}

// TestRoundTrips counts round trips: nothing else takes any time.
func TestRoundTrips(t *testing.T) {
	const roundTrip, cycles = 20 * time.Millisecond, 10
	mutex := func(c *coordinator.Coordinator) handle { return c.Mutex(lockPath) }
	election := func(c *coordinator.Coordinator) handle { return c.Election(lockPath) }
	eight := func(c *coordinator.Coordinator) handle { return mutexes(c, pathsOf(8)...) }
	permits := func(c *coordinator.Coordinator) handle { return c.Semaphore(semPath, 4) }
	loop := func(t *testing.T, first, _ handle) time.Duration {
		// Chance decides whether a release and the next acquire are combined. Mostly they
		// are.
		took := make([]time.Duration, 500)
		for i := range took {
			start := time.Now()
			a, _ := coordtest.Hold(t, first)
			a.Release()
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		return took[len(took)*9/10]
	}
	awaited := func(t *testing.T, first, _ handle) time.Duration {
		start := time.Now()
		holdAgainAndAgain(t, first, cycles)
		return time.Since(start) / cycles
	}
	handOn := func(t *testing.T, first, second handle) time.Duration {
		holder, _ := coordtest.Hold(t, first)
		next := second.Acquire(t.Context())
		time.Sleep(10 * roundTrip) // it waits by then
		start := time.Now()
		handOver(t, holder, next)
		return time.Since(start)
	}
	for _, c := range []struct {
		what string
		want time.Duration
		kind func(*coordinator.Coordinator) handle
		play func(t *testing.T, first, second handle) time.Duration
	}{
		{"an acquire and a release in a loop", 1, mutex, loop},
		{"an acquire and a release that is awaited", 2, mutex, awaited},
		{"8 locks together in a loop", 1, eight, loop},
		{"a permit in a loop", 1, permits, loop},
		{"8 locks together, and a release that is awaited", 2, eight, awaited},
		{"a handoff to the only one waiting", 1, mutex, handOn},
		{"a leader's resignation until the next one leads", 1, election, handOn},
	} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			cs, ms := coordtest.Metered(t, srv, 2)
			first, second := c.kind(cs[0]), c.kind(cs[1])
			for _, candidate := range []handle{first, second, first, second} { // so that they know the directories
				holdAgainAndAgain(t, candidate, 1)
			}
			lag := func(trip time.Duration) {
				for _, m := range ms {
					m.Lag(faultnet.Up, trip)
				}
			}
			lag(roundTrip)
			expectEqual(t, c.play(t, first, second), c.want*roundTrip, "%s, with trips of %v", c.what, roundTrip)
			lag(0)
		})
	}
}
