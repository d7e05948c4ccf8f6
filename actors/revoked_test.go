package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestTheDeadlineIsKept: the caller is told of it, and of a sooner one; at that moment the lock is lost, and the node given up behind that.
func TestTheDeadlineIsKept(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		expect(t, stream, grantOf(0))
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
			r.say(recipes.AskedBack{Epoch: epoch, Node: own.Text, By: by})
			if !c.told {
				synctest.Wait()
				if got, ok := take(stream); ok {
					t.Errorf("by %v: told %+v", c.by, got)
				}
				continue
			}
			if got, ok := mustTake(t, stream).(events.Revoked); !ok || got.ID != want.ID || got.Path != want.Path || !got.Deadline.Equal(want.Deadline) {
				t.Errorf("by %v: told %+v, want %+v", c.by, got, want)
			}
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if !r.Valid() {
			t.Error("lost before the deadline")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if lost := mustTake(t, r.Lost()); lost.Reason != events.ReasonRevoked || lost.Held != time.Minute || r.Valid() {
			t.Errorf("lost: %+v", lost)
		}
		if sent := r.port.sent(); sent[len(sent)-1] != (recipes.Delete{Epoch: epoch, Node: own.Text}) {
			t.Errorf("sent %v", sent)
		}
		r.deleted()
	})
}

// TestTheClockIsStopped when the lock is released: nothing comes behind that.
func TestTheClockIsStopped(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		r.say(recipes.AskedBack{Epoch: epoch, Node: own.Text, By: actors.MomentOf(time.Now().Add(time.Minute))})
		r.Withdraw(recipes.WhyReleased)
		r.deleted()
		r.isOver(t, nil)
		time.Sleep(time.Hour)
		if _, ok := take(r.Lost()); ok {
			t.Error("lost after the release")
		}
	})
}
