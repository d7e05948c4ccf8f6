package coordinator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// roundTrip is what each request of the session takes in the tests below.
const roundTrip = 50 * time.Millisecond

// slowly has each request of the coordinator's session take a round trip.
func slowly(srv *zktest.Server, c *coordinator.Coordinator) {
	id := c.SessionID()
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session == id {
			return zktest.Delay(roundTrip)
		}
		return zktest.Pass()
	})
}

// handsOver releases the lock and has the waiter granted within a few round trips.
func handsOver(t *testing.T, holder, waiter *coordinator.Acquisition) {
	t.Helper()
	start := time.Now()
	holder.Release()
	_, err := waiter.Wait(t.Context())
	eventstest.Must(t, err)
	if trips := time.Since(start) / roundTrip; trips > 8 {
		t.Errorf("the waiter is granted %d round trips behind the last release, want at most 8", trips)
	}
}

// TestAHandoffThatListsDoesNotWaitForABurst: a writer behind a writer lists when its turn may have come. Tries at other paths look first, which
// is a listing as well.
func TestAHandoffThatListsDoesNotWaitForABurst(t *testing.T) {
	for name, options := range map[string][]coordinator.AcquireOption{"acquires": nil, "tries": {coordinator.Try()}} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				holder, _ := coordtest.Hold(t, c.ReadWrite(lockPath).Write())
				waiter := coordtest.Queue(c.ReadWrite(lockPath).Write())
				slowly(srv, c)
				all := burst(c, 3000, options...)
				synctest.Wait()
				handsOver(t, holder, waiter)
				granted(t, all)
			})
		})
	}
}

// TestAWatchBehindAListingDoesNotWaitForABurst: a multi-lock waits for two others. One goes, and it watches the other one; then that goes.
func TestAWatchBehindAListingDoesNotWaitForABurst(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		other := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		first, _ := coordtest.Hold(t, other.Mutex(lockPath))
		second, _ := coordtest.Hold(t, other.Mutex(accountA))
		waiter := coordtest.Queue(c.Multi(c.Mutex(lockPath), c.Mutex(accountA)))
		slowly(srv, c)
		all := burst(c, 3000)
		synctest.Wait()
		first.Release()
		time.Sleep(6 * roundTrip)
		handsOver(t, second, waiter)
		granted(t, all)
	})
}

// TestObserversHearBesideBusyCallers: there is always somebody who wants to queue up, and the election is observed all the same.
func TestObserversHearBesideBusyCallers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		other := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		leaders := c.Election(coordtest.ElectionPath).Observe(ctx)
		<-leaders
		slowly(srv, c)
		for i := range 600 {
			go func() {
				for n := 0; ; n++ {
					a := c.Mutex(fmt.Sprint(inTheBurst, i, "-", n%7)).Acquire(ctx)
					if _, err := a.Wait(ctx); err != nil {
						return
					}
					a.Release()
					<-a.Done()
				}
			}()
		}
		time.Sleep(time.Second)
		other.Election(coordtest.ElectionPath).Campaign(ctx)
		select {
		case <-leaders:
		case <-time.After(5 * time.Second):
			t.Error("beside 600 busy callers the observer has not heard of a new leader after 5s, want it within some round trips")
		}
	})
}
