package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestTheRecordGoesWithWhoWasQuicker: behind a loss the machine hears what the caller has done. If he had released when the news of
// it came, or had taken nothing, the record goes with the node; if he was told of the loss, it stays.
func TestTheRecordGoesWithWhoWasQuicker(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, taken := range []bool{false, true} {
			for _, quicker := range []bool{false, true} {
				eventstest.Bubble(t, func(t *testing.T) {
					r := newRig(t)
					r.start(t, recipes.Started{Keep: keep, Detect: true})
					r.say(recipes.Opened{Epoch: epoch, Session: session}, recipes.Created{Epoch: epoch, Node: own},
						recipes.Listed{Epoch: epoch, Queue: []events.Name{own}, Own: recipes.Own{Name: own, Owner: session, Token: token}},
						recipes.Recorded{Epoch: epoch, Fresh: true})
					if taken {
						mustTake(t, r.Granted())
					}
					if quicker {
						// The hook runs when the state has flipped and before the actor is told.
						r.OnEnd(func(error) { r.say(recipes.LeaseRanOut{}) })
					} else {
						r.say(recipes.LeaseRanOut{})
					}
					if quicker || keep && taken { // else nobody is waited for
						r.Withdraw(recipes.WhyReleased)
						synctest.Wait()
					}
					sent := r.port.sent()
					want := recipes.Delete{Epoch: epoch, Node: own.Text, Clean: quicker || !taken}
					if sent[len(sent)-1] != want {
						t.Errorf("keep %v, taken %v, quicker %v: %+v, want %+v", keep, taken, quicker, sent, want)
					}
					r.deleted()
					r.isLeft(t, 1)
				})
			}
		}
	}
}
