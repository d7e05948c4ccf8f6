package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestTheSessionHearsOfALossBeforeTheCaller: else somebody could be let in beside him who knows already that he holds no more.
func TestTheSessionHearsOfALossBeforeTheCaller(t *testing.T) {
	for _, keep := range []bool{false, true} {
		eventstest.Bubble(t, func(t *testing.T) {
			r := newRig(t)
			lapsed, before := 0, 0
			r.port.onLapse = func() {
				lapsed++
				if !r.Holding() || len(r.Lost()) > 0 || len(r.port.sent()) > before {
					t.Errorf("keep %v: the caller has heard of the loss, or the node is being given up", keep)
				}
			}
			r.start(t, recipes.Started{Keep: keep})
			r.hold()
			mustTake(t, r.Granted())
			before = len(r.port.sent())
			r.say(recipes.LeaseRanOut{})
			mustTake(t, r.Lost())
			if lapsed != 1 {
				t.Errorf("keep %v: the session was told %d times", keep, lapsed)
			}
			if keep {
				r.Withdraw(recipes.WhyReleased)
				synctest.Wait()
			}
			r.deleted()
			r.isLeft(t, 1)
		})
	}
}
