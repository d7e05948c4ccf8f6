package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestTheDeadlineIsKept: the caller is told of it, and of a sooner one; at that moment the lock is lost, and the node given up behind that.
func TestTheDeadlineIsKept(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := actorstest.NewRig(t)
		stream := r.Stream.Subscribe(t.Context())
		r.Begin(t, recipes.Started{})
		r.Hold()
		actorstest.MustTake(t, r.Granted())
		expect(t, stream, actorstest.GrantOf(0))
		began := time.Now()
		for _, c := range []struct {
			by   time.Duration // 0: no time is said
			told bool
		}{{0, true}, {time.Hour, true}, {2 * time.Hour, false}, {time.Minute, true}, {0, false}} {
			var by recipes.Moment
			want := events.Revoked{ID: 7, Path: "/locks/a"}
			if c.by > 0 {
				want.Deadline = began.Add(c.by)
				by = actors.MomentOf(want.Deadline)
			}
			r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: by})
			if !c.told {
				synctest.Wait()
				if got, ok := actorstest.Take(stream); ok {
					t.Errorf("by %v: told %+v", c.by, got)
				}
				continue
			}
			if got, ok := actorstest.MustTake(t, stream).(events.Revoked); !ok || got.ID != want.ID || got.Path != want.Path || !got.Deadline.Equal(want.Deadline) {
				t.Errorf("by %v: told %+v, want %+v", c.by, got, want)
			}
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if !r.Valid() {
			t.Error("lost before the deadline")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if lost := actorstest.MustTake(t, r.Lost()); lost.Reason != events.ReasonRevoked || lost.Held != time.Minute || r.Valid() {
			t.Errorf("lost: %+v", lost)
		}
		if sent := r.Port.Sent(); sent[len(sent)-1] != (recipes.Delete{Epoch: actorstest.Epoch, Node: actorstest.Own.Text}) {
			t.Errorf("sent %v", sent)
		}
		r.Deleted()
	})
}

// TestTheClockIsStopped when the lock is released: nothing comes behind that.
func TestTheClockIsStopped(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := actorstest.NewRig(t)
		r.Begin(t, recipes.Started{})
		r.Hold()
		actorstest.MustTake(t, r.Granted())
		r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(time.Now().Add(time.Minute))})
		r.Withdraw(recipes.WhyReleased)
		r.Deleted()
		r.IsOver(t, nil)
		time.Sleep(time.Hour)
		if _, ok := actorstest.Take(r.Lost()); ok {
			t.Error("lost after the release")
		}
	})
}
