package actors_test

import (
	"testing"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestPosition: a waiter's position is that of the latest listing, less the contenders that are known to be gone. Other locks have
// none.
func TestPosition(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := actorstest.NewRig(t)
		oldest := events.Name{Text: "lock-0000000003", Kind: events.KindLock, Seq: 3}
		second := events.Name{Text: "lock-0000000006", Kind: events.KindLock, Seq: 6}
		both := recipes.Listed{Epoch: actorstest.Epoch, Queue: []events.Name{oldest, actorstest.Older, actorstest.Own}, Own: actorstest.Listed.Own}
		want := func(when string, ahead int, ok bool) {
			t.Helper()
			if gotAhead, gotOK := r.Position(); gotAhead != ahead || gotOK != ok {
				t.Errorf("%s Position = %d, %t; want %d, %t", when, gotAhead, gotOK, ahead, ok)
			}
		}
		want("not started,", 0, false)
		r.Begin(t, actors.Want{})
		r.Say(actorstest.Opened, actorstest.Created)
		want("during the first listing", 0, false)
		r.Say(both)
		want("behind two", 2, true)
		r.Say(recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Older.Text})
		want("when one of two is gone, perhaps the holder,", 2, true)
		r.Say(recipes.Advanced{Epoch: actorstest.Epoch, Stands: true})
		want("when the other one is still there", 1, true)
		r.Say(recipes.Suspended{}, recipes.Reconnected{})
		want("during another listing", 1, true)
		r.Say(both)
		want("behind another listing that has found two,", 2, true)
		r.Say(recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Own.Text})
		want("queueing up anew", 0, false)
		r.Say(recipes.Created{Epoch: actorstest.Epoch, Node: second}, recipes.Listed{
			Epoch: actorstest.Epoch, Queue: []events.Name{actorstest.Older, second},
			Own: recipes.Own{Name: second, Owner: actorstest.Session, Token: actorstest.Token},
		})
		want("queued up anew", 1, true)
		r.Say(recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Older.Text})
		want("during the claim", 1, true)
		r.Say(recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true})
		want("held,", 0, false)
		r.Withdraw(recipes.WhyReleased)
		want("released,", 0, false)
		r.Deleted()
		want("over,", 0, false)
	})
}
