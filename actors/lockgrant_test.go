package actors_test

import (
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

func TestLockFromStartToRelease(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.goesOn(t, false)
		r.queued()
		expect(t, stream, events.Queued{ID: 7, Path: "/locks/a", Ahead: 1})
		r.goesOn(t, false)
		time.Sleep(3 * time.Second)
		r.say(recipes.Gone{Epoch: epoch, Node: older.Text}) // there was only that one ahead
		r.goesOn(t, false)
		r.say(recipes.Claimed{Epoch: epoch, Fresh: true})
		r.goesOn(t, true)
		if got, want := mustTake(t, r.Granted()), grantOf(3*time.Second); !reflect.DeepEqual(got, want) {
			t.Errorf("granted %+v, want %+v", got, want)
		}
		expect(t, stream, grantOf(3*time.Second))
		time.Sleep(5 * time.Second)
		r.goesOn(t, true)

		r.Withdraw(recipes.WhyReleased)
		if r.Holding() || r.Valid() || isDone(r.Lock) || r.Err() != nil {
			t.Error("after Withdraw it is held, or done before the node is gone")
		}
		synctest.Wait()
		r.isLeft(t, 0)
		r.deleted()
		r.isOver(t, nil)
		r.isLeft(t, 1)
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Held: 5 * time.Second})
		want := []recipes.Effect{
			recipes.Create{Epoch: epoch, Attempt: 1}, recipes.List{Epoch: epoch, Attempt: 1}, recipes.Watch{Epoch: epoch, Node: older.Text},
			recipes.Claim{Epoch: epoch, Node: own.Text}, recipes.Delete{Epoch: epoch, Node: own.Text, Floor: true},
		}
		if got := r.port.sent(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

func TestValidEndsWithTheLease(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		until := r.port.deadline
		if r.Valid() || !r.Deadline().IsZero() {
			t.Error("a lock is valid before its Grant")
		}
		r.start(t, recipes.Started{})
		r.hold()
		if !r.Deadline().Equal(until) {
			t.Errorf("the deadline is %v, want %v", r.Deadline(), until)
		}
		time.Sleep(time.Until(until) - time.Nanosecond)
		if !r.Valid() {
			t.Error("it is not valid a moment before the deadline")
		}
		time.Sleep(time.Nanosecond)
		if r.Valid() || !r.Holding() {
			t.Error("at the deadline it is valid, or not held any more")
		}
		r.say(recipes.Expired{})
	})
}

// TestStateThenStreamThenChannel looks, whenever something is told, at the stages
// that have to lie behind and at those that must not have come yet.
func TestStateThenStreamThenChannel(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.stream.Subscribe(t.Context()) // keeps what was published
		told := 0
		r.OnEnd(func(error) {
			told++
			if kept, _ := r.stream.Backlog(); r.Valid() || r.Holding() || kept != 1 || len(r.Lost()) != 0 {
				t.Error("those who asked are told before the state has changed, or after the stream or the channel")
			}
		})
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		go func() {
			if _, ok := (<-stream).(events.Grant); !ok || !r.Valid() || !r.Holding() {
				t.Error("the Grant is on the stream before it is valid")
			}
			if _, ok := (<-stream).(events.Lost); !ok || r.Valid() || r.Holding() || told != 1 {
				t.Error("the Lost is on the stream before the state has changed and those who asked were told")
			}
		}()
		synctest.Wait()
		r.say(recipes.LeaseRanOut{})
		mustTake(t, r.Lost())
		r.deleted()
		r.isOver(t, ends(recipes.WhyLost, true, events.ReasonLeaseRanOut, nil))
	})
}

// TestStreamThenChannel holds the stream up: the channel has to wait for it.
func TestStreamThenChannel(t *testing.T) {
	r := newRig(t)
	readily(r.port, false)
	told := make(chan error, 1)
	r.OnEnd(func(err error) { told <- err })
	waits := func(what string, channel func() int) {
		for range 10_000 { // a while, for what should not happen
			if channel() != 0 {
				t.Fatalf("the %s is in the channel before it is on the stream", what)
			}
			runtime.Gosched()
		}
	}
	r.stream.Hold(func(func(events.Event)) {
		go r.Start(t.Context(), 0, recipes.Started{}) // the actor may work in the goroutine that starts it
		soon(t, "claimed", func() bool {
			return slices.Contains(r.port.sent(), recipes.Effect(recipes.Claim{Epoch: epoch, Node: own.Text}))
		})
		waits("Grant", func() int { return len(r.Granted()) })
	})
	eventstest.Receive(t, r.Granted(), "Grant")
	r.stream.Hold(func(func(events.Event)) {
		go r.port.say(recipes.LeaseRanOut{})
		if err := eventstest.Receive(t, told, "end"); err == nil {
			t.Error("a loss is told as a release")
		}
		waits("Lost", func() int { return len(r.Lost()) })
	})
	eventstest.Receive(t, r.Lost(), "Lost")
	eventstest.Receive(t, r.Done(), "end")
	r.close()
}

// TestEndedOnTheStreamMeansNotHeld reads the end of a released lock.
func TestEndedOnTheStreamMeansNotHeld(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.hold()
		expect(t, stream, grantOf(0))
		r.Withdraw(recipes.WhyReleased)
		expect(t, stream) // the node is still there
		r.deleted()
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a"})
		r.isOver(t, nil) // it counts as taken, so it was held and released
	})
}

func TestCreatedInAPastEpochIsDiscarded(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.say(recipes.Opened{Epoch: epoch - 1, Session: session - 1}, recipes.Expired{})
		r.hold()
		mustTake(t, r.Granted())
		late := events.Name{Text: "lock-0000000001", Kind: events.KindLock, Seq: 1}
		discard := recipes.Discard{Node: late.Text}
		r.say(recipes.Created{Epoch: epoch - 1, Node: late})
		if got := r.port.sent(); got[len(got)-1] != discard {
			t.Errorf("sent %v, want a Discard at the end", got)
		}
		r.goesOn(t, true)
		r.Withdraw(recipes.WhyReleased)
		r.deleted()
		r.isOver(t, nil)
		r.isLeft(t, 1)
		r.say(recipes.Created{Epoch: epoch - 1, Node: late}) // even then
		if got := r.port.sent(); got[len(got)-1] != discard || got[len(got)-2] == recipes.Effect(discard) {
			t.Errorf("sent %v, want a Discard after the end", got)
		}
		r.isOver(t, nil)
		r.isLeft(t, 1)
		expect(t, stream, grantOf(0), events.Ended{ID: 7, Path: "/locks/a"})
	})
}

// TestWaiterSurvivesItsSession has a waiter requeue, tell so, and be granted in
// the next session.
func TestWaiterSurvivesItsSession(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.say(recipes.Opened{Epoch: epoch - 1, Session: session - 1}, recipes.Created{Epoch: epoch - 1, Node: older}, recipes.Expired{})
		expect(t, stream, events.Requeued{ID: 7, Path: "/locks/a"})
		r.hold()
		if got := mustTake(t, r.Granted()); got.Session != session {
			t.Errorf("granted %+v, want session %d", got, session)
		}
		r.say(recipes.Expired{})
		if lost := mustTake(t, r.Lost()); lost.Reason != events.ReasonSessionExpired || lost.Token != token {
			t.Errorf("lost %+v", lost)
		}
		r.isOver(t, ends(recipes.WhyLost, true, events.ReasonSessionExpired, nil))
		r.isLeft(t, 1)
	})
}

// TestALostIsSaidOnceAndInFull looks at the event.
func TestALostIsSaidOnceAndInFull(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		time.Sleep(time.Minute)
		r.say(recipes.Gone{Epoch: epoch, Node: own.Text}, recipes.LeaseRanOut{}, recipes.Expired{})
		err := ends(recipes.WhyLost, true, events.ReasonNodeRemoved, nil)
		want := events.Lost{ID: 7, Path: "/locks/a", Token: token, Reason: events.ReasonNodeRemoved, Err: err, Held: time.Minute}
		if got := mustTake(t, r.Lost()); got != want {
			t.Errorf("lost %+v, want %+v", got, want)
		}
		r.isOver(t, err)
		r.Withdraw(recipes.WhyReleased)
		r.isOver(t, err)
		r.isLeft(t, 1)
		expect(t, stream, grantOf(0), want)
	})
}

func TestNodeOfALockAtTheRoot(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		r.Lock = actors.NewLock(actors.Config{
			ID: 7, Path: "/", Rule: recipes.Mutex{}, Port: r.port,
			Owner: owner{explain, &r.gone}, House: r.house,
		})
		r.start(t, recipes.Started{})
		r.hold()
		if got := next(stream).(events.Grant).Node; got != "/"+own.Text {
			t.Errorf("the node is %q", got)
		}
		r.say(recipes.Expired{})
		r.close()
	})
}
