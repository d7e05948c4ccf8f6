package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// What a lock costs, counted and not timed: requests, wake-ups, bytes, goroutines. The
// network counts, and loses nothing. TestRealCounts asks a real server for its own counters.

// meter is a network on which frames are counted.
type meter struct {
	*faultnet.Network

	mu     sync.Mutex
	counts count
}

// count is what has gone over a network: pings, and handshakes, are left out.
type count struct {
	requests, events int
	bytes            int // both ways
}

func (c count) minus(o count) count {
	return count{c.requests - o.requests, c.events - o.events, c.bytes - o.bytes}
}

func newMeter(srv *zktest.Server) *meter {
	m := &meter{}
	m.Network = faultnet.New(srv.DialContext, func(f faultnet.Frame) faultnet.Verdict {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case f.Op == zktest.OpPing || f.Op == zktest.OpConnect || f.Op == zktest.OpClose:
			return faultnet.Pass()
		case f.Direction == faultnet.Up:
			m.counts.requests++
		case f.Op == faultnet.OpEvent:
			m.counts.events++
		}
		m.counts.bytes += f.Size
		return faultnet.Pass()
	})
	return m
}

// read returns the counts when nothing is under way.
func (m *meter) read() count {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// metered returns coordinators, each with a session of its own, and their meters.
func metered(t *testing.T, srv *zktest.Server, n int) (cs []*coordinator.Coordinator, ms []*meter) {
	t.Helper()
	for range n {
		m := newMeter(srv)
		cs = append(cs, connect(t, srv, coordinator.WithDialer(m.Dial)))
		ms = append(ms, m)
	}
	return cs, ms
}

// total adds up what the meters have counted.
func total(ms []*meter) (sum count) {
	for _, m := range ms {
		c := m.read()
		sum.requests, sum.events, sum.bytes = sum.requests+c.requests, sum.events+c.events, sum.bytes+c.bytes
	}
	return sum
}

// TestAFreeLockCostsTwoRequests: one to acquire, one to release.
func TestAFreeLockCostsTwoRequests(t *testing.T) {
	const cycles = 100
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := metered(t, srv, 1)
		warm(t, cs[0])
		before := total(ms)
		for range cycles {
			a, _ := hold(t, cs[0].Mutex(lockPath))
			a.Release()
			<-a.Done()
		}
		if n := total(ms).minus(before); n.requests != 2*cycles || n.events != 0 {
			t.Errorf("%+v in %d cycles", n, cycles)
		}
	})
}

// TestALoopTakesLess: a release and the acquire behind it share a request if they come
// together, which the scheduler decides.
func TestALoopTakesLess(t *testing.T) {
	const cycles = 100
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := metered(t, srv, 1)
		warm(t, cs[0])
		for range 50 {
			before := total(ms)
			for range cycles {
				a, _ := hold(t, cs[0].Mutex(lockPath))
				a.Release()
			}
			n := total(ms).minus(before)
			t.Logf("%+v in %d cycles", n, cycles)
			if n.requests < 2*cycles {
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
	warm(t, cs...)
	all := make([]*coordinator.Acquisition, 0, first+1+waiters)
	for i := range first + 1 + waiters {
		all = append(all, queue(cs[i%len(cs)].Mutex(lockPath)))
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
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := metered(t, srv, sessions)
				all := line(t, cs, waiters)
				for i := range 20 {
					before := make([]count, sessions)
					for s, m := range ms {
						before[s] = m.read()
					}
					handOver(t, all[i], all[i+1])
					releases, enters := (3+i)%sessions, (4+i)%sessions // line has left three out
					for s, m := range ms {
						want := 0
						if s == releases || s == enters {
							want = 1
						}
						if n := m.read().minus(before[s]).events; n != want {
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
		var costs []count
		for _, waiters := range []int{20, 500} {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := metered(t, srv, sessions)
				all := line(t, cs, waiters)
				before := total(ms)
				for i := range handoffs {
					handOver(t, all[i], all[i+1])
				}
				costs = append(costs, total(ms).minus(before))
			})
		}
		t.Logf("%d sessions: %d handoffs in queues of 20 and 500: %+v", sessions, handoffs, costs)
		for _, c := range costs {
			want := 3 * handoffs // delete with a floor; read the floor, claim
			if sessions == 1 {
				want = 2 * handoffs // who let the lock go knows what the floor says
			}
			if c.requests != want || c.events != costs[0].events {
				t.Errorf("%d sessions: %+v for %d handoffs", sessions, c, handoffs)
			}
			if more := c.bytes - costs[0].bytes; more < 0 || more > 4*handoffs {
				t.Errorf("%d sessions: %d bytes more than in a short queue", sessions, more)
			}
		}
	}
}

// TestTheOnlyOneWaitingAsksOnce: it claims, and reads nothing.
func TestTheOnlyOneWaitingAsksOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := metered(t, srv, 2)
		warm(t, cs...)
		holder, _ := hold(t, cs[0].Mutex(lockPath))
		next := queue(cs[1].Mutex(lockPath))
		before := total(ms)
		handOver(t, holder, next)
		if n := total(ms).minus(before); n.requests != 2 || n.events != 1 { // delete, claim
			t.Errorf("%+v", n)
		}
	})
}

// TestLocksHaveNoGoroutines, neither while they are held nor while they are waited for. It
// counts what the process has, so nothing runs beside it, and the time is real.
func TestLocksHaveNoGoroutines(t *testing.T) {
	const locks = 1000
	srv := zktest.Start(t)
	c := connect(t, srv, coordinator.WithSessionTimeout(40*time.Second))
	hold(t, c.Mutex("/locks/counted")) // a client starts its last goroutines after it has told of the session
	before := runtime.NumGoroutine()
	waiting := make([]*coordinator.Acquisition, locks)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range locks {
		hold(t, c.Mutex(fmt.Sprint("/locks/", i)))
		waiting[i] = c.Mutex(fmt.Sprint("/locks/", i)).Acquire(ctx)
	}
	eventually(t, "all wait", func() bool {
		return len(srv.Children(fmt.Sprint("/locks/", locks-1))) == 2 && srv.Watches() >= locks
	})
	eventually(t, "nothing is under way any more", func() bool { return runtime.NumGoroutine() <= before })
	for _, a := range waiting {
		if isClosed(a.Done()) || a.Valid() {
			t.Fatalf("over %v, valid %v", isClosed(a.Done()), a.Valid())
		}
	}
}
