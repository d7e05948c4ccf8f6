package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestTheSessionHearsOfALossBeforeTheCaller: else somebody could be let in beside him who knows already that he holds no more.
func TestTheSessionHearsOfALossBeforeTheCaller(t *testing.T) {
	for _, keep := range []bool{false, true} {
		eventstest.Bubble(t, func(t *testing.T) {
			r := actorstest.NewRig(t)
			lapsed, before := 0, 0
			r.Port.OnLapse = func() {
				lapsed++
				if !r.Holding() || len(r.Lost()) > 0 || len(r.Port.Sent()) > before {
					t.Errorf("keep %v: the caller has heard of the loss, or the node is being given up", keep)
				}
			}
			r.Begin(t, recipes.Started{Keep: keep})
			r.Hold()
			actorstest.MustTake(t, r.Granted())
			before = len(r.Port.Sent())
			r.Say(recipes.LeaseRanOut{})
			actorstest.MustTake(t, r.Lost())
			if lapsed != 1 {
				t.Errorf("keep %v: the session was told %d times", keep, lapsed)
			}
			if keep {
				r.Withdraw(recipes.WhyReleased)
				synctest.Wait()
			}
			r.Deleted()
			r.IsLeft(t, 1)
		})
	}
}
