package coordinator_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// What a semaphore costs, counted as in counts_test.go.

// warmPermits has each of them hold a permit, so that they know the queue's directory for
// ours.
func warmPermits(t *testing.T, size int, cs ...*coordinator.Coordinator) {
	t.Helper()
	for range 2 {
		for _, c := range cs {
			a := take(t, c.Semaphore(semPath, size), 1)[0]
			a.Release()
			<-a.Done()
		}
	}
}

// TestAFreePermitTakesThreeRoundTrips: create, look (two requests in one flight), enter; and
// one to give them back, however many there are.
func TestAFreePermitTakesThreeRoundTrips(t *testing.T) {
	const cycles, size, lag = 100, 5, 10 * time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		warmPermits(t, size, cs[0])
		for _, permits := range []int{1, 3} {
			cycle := func() (granted, released time.Duration) {
				start := time.Now()
				a := cs[0].Semaphore(semPath, size).Acquire(t.Context(), coordinator.WithPermits(permits))
				if _, err := a.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				granted = time.Since(start)
				a.Release()
				<-a.Done()
				return granted, time.Since(start) - granted
			}
			before := coordtest.Total(ms)
			for range cycles {
				cycle()
			}
			if n := coordtest.Total(ms).Minus(before); n.Requests != 5*cycles || n.Events != 0 {
				t.Errorf("%+v in %d cycles of %d permits", n, cycles, permits)
			}
			ms[0].Lag(faultnet.Up, lag)
			if granted, released := cycle(); granted != 3*lag || released != lag {
				t.Errorf("%d permits: granted after %v, released after %v; one way takes %v", permits, granted, released, lag)
			}
			ms[0].Lag(faultnet.Up, 0)
		}
	})
}

// TestAReturnedPermitWakesTheFirst of a thousand, and the second, which is the first then. It costs
// as much behind 20.
func TestAReturnedPermitWakesTheFirst(t *testing.T) {
	const permits, rounds = 11, 10
	for _, sessions := range []int{1, 5} {
		var costs []coordtest.Count
		for _, waiters := range []int{20, 1000} {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, sessions)
				warmPermits(t, permits, cs...)
				var all []*coordinator.Acquisition
				for i := range permits + waiters {
					all = append(all, take(t, cs[i%sessions].Semaphore(semPath, permits), 1)...)
				}
				all[0].Release() // the first in the queue has waited for nobody
				synctest.Wait()
				before := coordtest.Total(ms)
				for i := range rounds {
					all[1+i].Release()
					synctest.Wait()
					if next := all[permits+1+i]; !next.Valid() || all[permits+2+i].Valid() {
						t.Fatalf("round %d: granted to %v", i, holding(all))
					}
				}
				costs = append(costs, coordtest.Total(ms).Minus(before))
			})
		}
		t.Logf("%d sessions: %d rounds behind 20 and behind 1000: %+v", sessions, rounds, costs)
		for i, c := range costs {
			if c.Requests != costs[0].Requests || c.Events != costs[0].Events || c.Events > 3*rounds || c.Requests > 12*rounds {
				t.Errorf("%d sessions, queue %d: %+v", sessions, i, c)
			}
		}
	}
}

// TestResizeWakesOneForEachPermit, and one more, which is the first then.
func TestResizeWakesOneForEachPermit(t *testing.T) {
	for _, waiters := range []int{20, 500} {
		t.Run(fmt.Sprint(waiters, " wait"), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, 2)
				warmPermits(t, 1, cs...)
				s := cs[0].Semaphore(semPath, 1)
				all := take(t, s, 1)
				for range waiters {
					all = append(all, take(t, cs[1].Semaphore(semPath, 1), 1)...)
				}
				before := ms[1].Read()
				if err := s.Resize(t.Context(), 5); err != nil {
					t.Fatal(err)
				}
				wantHolding(t, srv, all, "0 1 2 3 4", 5)
				// One for the size, one for each place in the queue that was left, and one for the
				// leases, which were watched.
				if n := ms[1].Read().Minus(before); n.Events > 1+4+1 {
					t.Errorf("%+v", n)
				}
			})
		})
	}
}

// TestWhoWaitsForAPermitAsksNothing, be it the first or not.
func TestWhoWaitsForAPermitAsksNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 2)
		take(t, cs[0].Semaphore(semPath, 1), 1)
		take(t, cs[1].Semaphore(semPath, 1), 1, 1, 1)
		before := ms[1].Read()
		time.Sleep(time.Hour)
		if n := ms[1].Read().Minus(before); n.Requests != 0 || n.Events != 0 {
			t.Errorf("%+v in an hour", n)
		}
	})
}

// TestNoWatchesOfSemaphoresAreLeft but one for the size, however many have waited at the first place.
func TestNoWatchesOfSemaphoresAreLeft(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		s := c.Semaphore(semPath, 1)
		held := take(t, s, 1)
		for range 50 {
			waiting := take(t, s, 1, 1)
			waiting[0].Release()
			waiting[1].Release()
			synctest.Wait()
		}
		if n := srv.Watches(); n > 3 { // the leases, the size, and the lease that is held
			t.Errorf("%d watches while it is held", n)
		}
		held[0].Release()
		synctest.Wait()
		if n := srv.Watches(); n > 1 {
			t.Errorf("%d watches when nothing is held", n)
		}
	})
}
