package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
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
					r := actorstest.NewRig(t)
					r.Begin(t, recipes.Started{Keep: keep, Detect: true})
					r.Say(recipes.Opened{Epoch: actorstest.Epoch, Session: actorstest.Session}, recipes.Created{Epoch: actorstest.Epoch, Node: actorstest.Own},
						recipes.Listed{Epoch: actorstest.Epoch, Queue: []events.Name{actorstest.Own}, Own: recipes.Own{Name: actorstest.Own, Owner: actorstest.Session, Token: actorstest.Token}},
						recipes.Recorded{Epoch: actorstest.Epoch, Fresh: true})
					if taken {
						actorstest.MustTake(t, r.Granted())
					}
					if quicker {
						// The hook runs when the state has flipped and before the actor is told.
						r.OnEnd(func(error) { r.Say(recipes.LeaseRanOut{}) })
					} else {
						r.Say(recipes.LeaseRanOut{})
					}
					if quicker || keep && taken { // else nobody is waited for
						r.Withdraw(recipes.WhyReleased)
						synctest.Wait()
					}
					sent := r.Port.Sent()
					want := recipes.Delete{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, Clean: quicker || !taken}
					if sent[len(sent)-1] != want {
						t.Errorf("keep %v, taken %v, quicker %v: %+v, want %+v", keep, taken, quicker, sent, want)
					}
					r.Deleted()
					r.IsLeft(t, 1)
				})
			}
		}
	}
}
