package actors_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestTheNewestWishIsRead: of several unread wishes the last one is left. None is left when the lock is not held any more, and the
// channel is never closed.
func TestTheNewestWishIsRead(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := actorstest.NewRig(t)
		wants := func(by time.Duration) {
			r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(time.Now().Add(by))})
		}
		wantWish := func(when string, by time.Duration) {
			t.Helper()
			got, ok := actorstest.Take(r.Revoked())
			if want := (events.Revoked{ID: 7, Path: "/locks/a", Deadline: time.Now().Add(by)}); !ok || !got.Deadline.Equal(want.Deadline) || got.ID != want.ID || got.Path != want.Path {
				t.Errorf("%s: %t, %+v can be read, want %+v", when, ok, got, want)
			}
			if got, ok := actorstest.Take(r.Revoked()); ok {
				t.Errorf("%s: %+v can be read behind it, want one wish", when, got)
			}
		}
		r.Begin(t, actors.Want{})
		r.Queued()
		wants(time.Hour)
		if got, ok := actorstest.Take(r.Revoked()); ok {
			t.Errorf("before the Grant %+v can be read, want no wish", got)
		}
		r.Say(recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Older.Text}, recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true})
		actorstest.MustTake(t, r.Granted())
		wantWish("with the Grant", time.Hour)
		wants(time.Minute)
		wants(time.Second)
		wants(2 * time.Second) // a later deadline
		wantWish("behind two unread ones", time.Second)
		wants(time.Second / 2)
		r.Withdraw(recipes.WhyReleased)
		if got, ok := actorstest.Take(r.Revoked()); ok {
			t.Errorf("behind the release %+v can be read, want no wish", got)
		}
		r.Deleted()
		r.IsOver(t, nil)
		select {
		case got := <-r.Revoked():
			t.Errorf("behind the end %+v can be read, want an open channel with nothing in it", got)
		default:
		}
	})
}
