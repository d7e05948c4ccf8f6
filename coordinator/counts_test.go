package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What a lock costs, counted and not timed: requests, wake-ups, bytes, goroutines. The
// network counts, and loses nothing. TestRealCounts asks a real server for its own counters.

// TestAFreeLockCostsTwoRequests: one to acquire, one to release.
func TestAFreeLockCostsTwoRequests(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		before := coordtest.Total(ms)
		for range cycles {
			a, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
			a.Release()
			<-a.Done()
		}
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2*cycles || n.Events != 0 {
			t.Errorf("%+v in %d cycles", n, cycles)
		}
	})
}

// TestALoopTakesLess: a release and the acquire behind it share a request if they come
// together, which the scheduler decides.
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
		t.Error("no loop takes less")
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

// line has a lock held, and so many wait for it, in turn in each of the sessions. The
// first few have left already: the others have nobody beside them who never waited.
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

// TestAReleaseWakesOneOfAThousand: one event, where all are in one session; where they
// are not, one for the next holder, and one for the session whose own node is gone, which
// watches that.
func TestAReleaseWakesOneOfAThousand(t *testing.T) {
	const waiters = 1000
	for _, sessions := range []int{1, 5} {
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
		for _, waiters := range []int{20, 500} {
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
		t.Logf("%d sessions: %d handoffs in queues of 20 and 500: %+v", sessions, handoffs, costs)
		for _, c := range costs {
			want := 3 * handoffs // delete with a floor; read the floor, claim
			if sessions == 1 {
				want = 2 * handoffs // who let the lock go knows what the floor says
			}
			if c.Requests != want || c.Events != costs[0].Events {
				t.Errorf("%d sessions: %+v for %d handoffs", sessions, c, handoffs)
			}
			if more := c.Bytes - costs[0].Bytes; more < 0 || more > 4*handoffs {
				t.Errorf("%d sessions: %d bytes more than in a short queue", sessions, more)
			}
		}
	}
}

// TestTheOnlyOneWaitingAsksOnce: it claims, and reads nothing.
func TestTheOnlyOneWaitingAsksOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 2)
		coordtest.Warm(t, cs...)
		holder, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
		next := coordtest.Queue(cs[1].Mutex(lockPath))
		before := coordtest.Total(ms)
		handOver(t, holder, next)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2 || n.Events != 1 { // delete, claim
			t.Errorf("%+v", n)
		}
	})
}

// TestLocksHaveNoGoroutines, neither while they are held nor while they are waited for. It
// counts what the process has, so nothing runs beside it, and the time is real.
func TestLocksHaveNoGoroutines(t *testing.T) {
	const locks = 1000
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
	eventstest.Eventually(t, "nothing is under way any more", func() bool { return runtime.NumGoroutine() <= before })
	for _, a := range waiting {
		if coordtest.IsClosed(a.Done()) || a.Valid() {
			t.Fatalf("over %v, valid %v", coordtest.IsClosed(a.Done()), a.Valid())
		}
	}
}
