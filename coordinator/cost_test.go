package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// What a lock costs, counted and not timed: requests, wake-ups, bytes, goroutines. The network counts, and loses no frame.
// TestRealCounts asks a real server for its own counters.

// TestAFreeLockCostsTwoRequests: one to acquire, one to release.
func TestAFreeLockCostsTwoRequests(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		before := coordtest.Total(ms)
		holdAgainAndAgain(t, cs[0].Mutex(lockPath), cycles)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2*cycles || n.Events != 0 {
			t.Errorf("%d cycles took %+v, want 2 requests each and no event", cycles, n)
		}
	})
}

// holdAgainAndAgain holds the lock so many times, and waits for each end.
func holdAgainAndAgain(t *testing.T, l acquirer, cycles int) {
	t.Helper()
	for range cycles {
		a := l.Acquire(context.Background())
		coordtest.GrantOf(t, a)
		coordtest.End(a)
	}
}

// TestALoopTakesLess: a release and the acquire after it share a request if they come together, which the scheduler decides.
func TestALoopTakesLess(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		for range 50 {
			before := coordtest.Total(ms)
			for range cycles {
				a, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
				a.Release()
			}
			n := coordtest.Total(ms).Minus(before)
			t.Logf("%+v in %d cycles", n, cycles)
			if n.Requests < 2*cycles {
				return
			}
		}
		t.Errorf("none of 50 loops of %d cycles took less than 2 requests a cycle, want one to", cycles)
	})
}

// handOver has the holder release, and waits for the next one.
func handOver(t *testing.T, holder, next *coordinator.Acquisition) {
	t.Helper()
	holder.Release()
	if _, err := next.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-holder.Done()
}

// line has a lock held, and so many contenders wait for it, in turn in each of the sessions. The first few have left already, so
// that every contender beside the others has waited.
func line(t *testing.T, cs []*coordinator.Coordinator, waiters int) []*coordinator.Acquisition {
	t.Helper()
	const first = 3
	coordtest.Warm(t, cs...)
	all := make([]*coordinator.Acquisition, 0, first+1+waiters)
	for i := range first + 1 + waiters {
		all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
	}
	if _, err := all[0].Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range first {
		handOver(t, all[i], all[i+1])
	}
	return all[first:]
}

// TestAReleaseWakesOneOfAThousand: one event if all are in one session. If not, one for the next holder, and one for the session of
// the node that is gone, which watches it.
func TestAReleaseWakesOneOfAThousand(t *testing.T) {
	for sessions, waiters := range map[int]int{1: eventstest.Amount(200, 1000), 5: eventstest.Amount(400, 1000)} {
		t.Run(fmt.Sprintf("%d sessions", sessions), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, sessions)
				all := line(t, cs, waiters)
				for i := range 20 {
					before := make([]coordtest.Count, sessions)
					for s, m := range ms {
						before[s] = m.Read()
					}
					handOver(t, all[i], all[i+1])
					releases, enters := (3+i)%sessions, (4+i)%sessions // line has left three out
					for s, m := range ms {
						want := 0
						if s == releases || s == enters {
							want = 1
						}
						if n := m.Read().Minus(before[s]).Events; n != want {
							t.Errorf("release %d: %d events for session %d, want %d", i, n, s, want)
						}
					}
				}
			})
		})
	}
}

// TestAHandoffCostsTheSameInALongQueue: as many requests, and as many bytes but for how
// long a zxid is in hexadecimal.
func TestAHandoffCostsTheSameInALongQueue(t *testing.T) {
	const handoffs = 10
	for _, sessions := range []int{1, 5} {
		var costs []coordtest.Count
		for _, waiters := range []int{20, eventstest.Amount(200, 500)} {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, sessions)
				all := line(t, cs, waiters)
				before := coordtest.Total(ms)
				for i := range handoffs {
					handOver(t, all[i], all[i+1])
				}
				costs = append(costs, coordtest.Total(ms).Minus(before))
			})
		}
		t.Logf("%d sessions: %d handoffs in a short and a long queue: %+v", sessions, handoffs, costs)
		for _, c := range costs {
			want := 2 * handoffs // delete with a floor; read the floor
			if sessions == 1 {
				want = handoffs // the session that released knows what the floor says
			}
			if c.Requests != want || c.Events != costs[0].Events {
				t.Errorf("%d sessions: %d handoffs took %+v, want %d requests, and as many events as in a short queue", sessions, handoffs, c, want)
			}
			if more := c.Bytes - costs[0].Bytes; more < 0 || more > 4*handoffs {
				t.Errorf("%d sessions: %d handoffs took %d bytes more than in a short queue, want at most %d", sessions, handoffs, more, 4*handoffs)
			}
		}
	}
}

// TestTheOnlyOneWaitingAsksOnce: it looks at its own node. After a long wait it claims, see TestAColdSessionClaims.
func TestTheOnlyOneWaitingAsksOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 2)
		coordtest.Warm(t, cs...)
		holder, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
		next := coordtest.Queue(cs[1].Mutex(lockPath))
		before := coordtest.Total(ms)
		handOver(t, holder, next)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2 || n.Events != 1 { // delete, look at the own node
			t.Errorf("a handoff to the only one that waits took %+v, want 2 requests and an event", n)
		}
	})
}

// TestLocksHaveNoGoroutines: neither holders nor waiters have any. The observers of an election share one. The test counts the
// goroutines of the process, so nothing runs beside it, and the time is real.
func TestLocksHaveNoGoroutines(t *testing.T) {
	locks := eventstest.Amount(300, 1000)
	const elections = 10
	srv := zktest.Start(t)
	c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(40*time.Second))
	coordtest.Hold(t, c.Mutex("/locks/counted")) // a client starts its last goroutines after it has told of the session
	before := runtime.NumGoroutine()
	waiting := make([]*coordinator.Acquisition, locks)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range locks {
		coordtest.Hold(t, c.Mutex(fmt.Sprint("/locks/", i)))
		waiting[i] = c.Mutex(fmt.Sprint("/locks/", i)).Acquire(ctx)
	}
	eventstest.Eventually(t, "all wait", func() bool {
		return len(srv.Children(fmt.Sprint("/locks/", locks-1))) == 2 && srv.Watches() >= locks
	})
	var observed []<-chan events.Leader
	for i := range locks {
		observed = append(observed, c.Election(fmt.Sprint("/elections/", i%elections)).Observe(ctx))
	}
	for _, leaders := range observed {
		<-leaders
	}
	eventstest.Eventually(t, "nothing is under way any more", func() bool { return runtime.NumGoroutine() <= before+elections },
		func() string {
			return fmt.Sprintf("there are %d goroutines, want %d at most", runtime.NumGoroutine(), before+elections)
		})
	for _, a := range waiting {
		if coordtest.IsClosed(a.Done()) || a.Valid() {
			t.Fatalf("one that waits is over: %v, valid: %v; want neither", coordtest.IsClosed(a.Done()), a.Valid())
		}
	}
}

// TestALoopIsNotInItsOwnWay: a holder that has waited releases, and asks for the lock again at once, on one processor. Its next
// node is made after the end of the last one, so from the second cycle on each cycle takes one request.
func TestALoopIsNotInItsOwnWay(t *testing.T) {
	const cycles, most = 100, 110
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	srv := zktest.Start(t)
	ctx := t.Context()
	lock := coordtest.Connect(t, srv).Mutex(lockPath)
	requests := func() int {
		return srv.Requests(zktest.OpMulti) + srv.Requests(zktest.OpCreate) + srv.Requests(zktest.OpDelete)
	}
	least := 2 * cycles
	for range 5 { // the best of them: what else the machine does may come between a release and the next acquire
		held, _ := coordtest.Hold(t, lock)
		next := lock.Acquire(ctx)
		eventstest.Eventually(t, "it waits", func() bool { _, waits := next.Position(); return waits })
		coordtest.End(held)
		coordtest.GrantOf(t, next)
		before := requests()
		for range cycles {
			next.Release()
			next = lock.Acquire(ctx)
			if _, err := next.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		least = min(least, requests()-before)
		coordtest.End(next)
		if least <= most {
			break
		}
	}
	if least > most {
		t.Errorf("%d cycles took %d writes, want %d at most", cycles, least, most)
	}
}

// TestACycleAllocatesLittle: allocations of the server inside the process and of the client count, too. Entered again or cached, a
// cycle takes the acquisition, its actor, the Grant with its node's path, and the channels that are asked for.
func TestACycleAllocatesLittle(t *testing.T) {
	srv := zktest.Start(t)
	c := coordtest.Connect(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outer := c.Mutex("/locks/outer", coordinator.Reentrant()).Acquire(ctx)
	coordtest.GrantOf(t, outer)
	wait := func(a *coordinator.Acquisition) error {
		_, err := a.Wait(ctx)
		a.Release()
		return err
	}
	channels := func(a *coordinator.Acquisition) error {
		<-a.Granted()
		a.Release()
		<-a.Done()
		return a.Err()
	}
	for _, way := range []struct {
		name string
		most float64
		ctx  context.Context
		lock *coordinator.Lock
		take func(*coordinator.Acquisition) error
	}{
		{"as felt", 95, ctx, c.Mutex(lockPath), wait}, // sometimes a release and the next acquire are two requests
		{"entered again", 8, outer.Context(ctx), c.Mutex("/locks/outer", coordinator.Reentrant()), wait},
		{"cached", 7, ctx, c.Mutex("/locks/cached", coordinator.Cached()), wait},
		{"cached, with the channels", 10, ctx, c.Mutex("/locks/cached", coordinator.Cached()), channels},
	} {
		cycle := func() {
			if err := way.take(way.lock.Acquire(way.ctx)); err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
		}
		for range 100 { // after the first ones a cached node is kept
			cycle()
		}
		n := way.most + 1
		for again := 3; n > way.most && again > 0; again-- {
			n = testing.AllocsPerRun(1000, cycle)
		}
		if n > way.most {
			t.Errorf("%s: a cycle takes %v allocations, want %v at most", way.name, n, way.most)
		}
	}
}

// BenchmarkCycle is an uncontended acquire and release against the server inside the process, over a pipe: what the library and the
// client cost, without a network and with a server that is almost nothing. Entered again or cached, it sends no request.
func BenchmarkCycle(b *testing.B) {
	for _, way := range []struct {
		name                   string
		awaited, again, cached bool
	}{{name: "as felt"}, {name: "release awaited", awaited: true}, {name: "entered again", again: true}, {name: "cached", cached: true}} {
		b.Run(way.name, func(b *testing.B) {
			srv := zktest.Start(b)
			ctx := context.Background()
			c, err := coordinator.Connect(ctx, srv.Addr(), srv.Option())
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					b.Error(err)
				}
			}()
			lock := c.Mutex(lockPath)
			if way.cached {
				lock = c.Mutex(lockPath, coordinator.Cached())
			}
			if way.again {
				lock = c.Mutex(lockPath, coordinator.Reentrant())
				outer := lock.Acquire(ctx)
				if _, err := outer.Wait(ctx); err != nil {
					b.Fatal(err)
				}
				ctx = outer.Context(ctx)
			}
			b.ReportAllocs()
			var a *coordinator.Acquisition
			for b.Loop() {
				a = lock.Acquire(ctx)
				if _, err := a.Wait(ctx); err != nil {
					b.Fatal(err)
				}
				a.Release()
				if way.awaited {
					<-a.Done()
				}
			}
			<-a.Done()
		})
	}
}

// TestRealCounts asks a real server what a lock has cost it. Pings come every few seconds, and each test is shorter; one or two of
// them do no harm.
func TestRealCounts(t *testing.T) {
	eventstest.NeedsServers(t)
	const stray = 2
	e := ensemble.Start(t, 1,
		ensemble.Tick(2*time.Second), // for a long session timeout
		ensemble.Property("znode.container.checkIntervalMs", "600000"))
	connectIdle := func(t *testing.T) *coordinator.Coordinator {
		return coordtest.ConnectReal(t, e.Connect(), coordinator.WithSessionTimeout(40*time.Second))
	}
	free := func(t *testing.T, l acquirer, members, cycles int) {
		a := l.Acquire(context.Background())
		if g := coordtest.GrantOf(t, a); len(g.Members) != members {
			t.Errorf("%+v is granted, want %d members", g, members)
		}
		coordtest.End(a)
		holdAgainAndAgain(t, l, 1) // the directories are known to be ours
		n := coordtest.RealToll(t, e, func() { holdAgainAndAgain(t, l, cycles) })
		t.Logf("%d cycles: %+v", cycles, n)
		if want := float64(2 * cycles); n.Packets < want || n.Packets > want+stray || n.Woken != 0 {
			t.Errorf("%d cycles took %v requests and %v wake-ups, want %v to %v, and none", cycles, n.Packets, n.Woken, want, want+stray)
		}
	}
	t.Run("a free lock", func(t *testing.T) { free(t, connectIdle(t).Mutex("/locks/free"), 0, 200) })
	t.Run("32 free locks", func(t *testing.T) { free(t, mutexes(connectIdle(t), pathsOf(32)...), 32, 50) })
	t.Run("a lock that is entered again", func(t *testing.T) { realReentry(t, e) })
	t.Run("a queue", func(t *testing.T) {
		const handoffs = 20
		var tolls []coordtest.Toll
		for _, q := range []struct {
			dir     string
			waiters int
		}{{"/locks/small", 3 + handoffs + 1}, {"/locks/large", 1000}} {
			c, raw := connectIdle(t), coordtest.RawClient(t, e.Addr(0))
			stream := c.Events(t.Context())
			all, queued := map[uint64]*coordinator.Acquisition{}, map[uint64]bool{}
			for range q.waiters + 1 {
				a := c.Mutex(q.dir).Acquire(context.Background())
				all[a.ID()] = a
			}
			holder := func() *coordinator.Acquisition { // the server has decided which one it is
				for ev := range stream {
					switch ev := ev.(type) {
					case events.Queued:
						queued[ev.ID] = true
					case events.Grant:
						return all[ev.ID]
					}
				}
				t.Fatal("the stream has ended, want a Grant")
				return nil
			}
			now := holder()
			coordtest.Queued(t, raw, q.dir, len(all))
			for len(queued) < q.waiters { // a handoff goes before contenders that still come
				if ev, ok := (<-stream).(events.Queued); ok {
					queued[ev.ID] = true
				}
			}
			eventstest.Eventually(t, "nothing is under way", func() bool { return coordtest.RealToll(t, e, func() {}).Packets == 0 })
			next := func() {
				coordtest.End(now)
				now = holder()
			}
			for range 3 { // the first ones have never waited, or had one contender ahead only
				next()
			}
			n := coordtest.RealToll(t, e, func() {
				for range handoffs {
					next()
				}
			})
			t.Logf("%d handoffs with %d waiting: %+v", handoffs, q.waiters, n)
			if n.Woken != handoffs || n.Packets < handoffs || n.Packets > handoffs+stray {
				t.Errorf("%d handoffs took %v requests and %v wake-ups, want %d to %d, and one each",
					handoffs, n.Packets, n.Woken, handoffs, handoffs+stray)
			}
			tolls = append(tolls, n)
		}
		// The paths are as long; a zxid in hexadecimal may be longer.
		if more := tolls[1].Bytes - tolls[0].Bytes; more < -16*stray || more > 4*handoffs+16*stray {
			t.Errorf("%d handoffs took %v bytes more in the long queue, want %d to %d", handoffs, more, -16*stray, 4*handoffs+16*stray)
		}
	})
}
