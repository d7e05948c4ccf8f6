package actors_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// bound is what can end a wait.
type bound struct {
	name  string
	end   error // what Err says when it has ended the wait
	start func(t *testing.T, r *rig) (reach func())
}

func bounds() []bound {
	return []bound{
		{"context", ends(recipes.WhyContext, false, 0, errCause), func(t *testing.T, r *rig) func() {
			t.Helper()
			ctx, cancel := context.WithCancelCause(t.Context())
			r.Start(ctx, 0, recipes.Started{})
			return func() { cancel(errCause) }
		}},
		{"maxWait", ends(recipes.WhyTimeout, false, 0, nil), func(t *testing.T, r *rig) func() {
			t.Helper()
			r.Start(t.Context(), time.Minute, recipes.Started{})
			return func() { time.Sleep(time.Minute) }
		}},
	}
}

// wait is an acquisition with a bound, and the stream of its events.
type wait struct {
	*rig
	t      *testing.T
	stream <-chan events.Event
	end    error
	reach  func()
}

// bounded runs f with each of the bounds.
func bounded(t *testing.T, f func(wait)) {
	t.Helper()
	for _, b := range bounds() {
		t.Run(b.name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				w := wait{rig: newRig(t), t: t, end: b.end}
				w.stream = w.rig.stream.Subscribe(t.Context())
				reach := b.start(t, w.rig)
				synctest.Wait()
				w.reach = func() { reach(); synctest.Wait() }
				f(w)
			})
		})
	}
}

func TestBoundBeforeTheGrant(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		r.queued()
		expect(t, w.stream, events.Queued{ID: 7, Path: "/locks/a", Ahead: 1})
		w.reach()
		r.say(recipes.Gone{Epoch: epoch, Node: older.Text}) // it would be our turn
		r.deleted()
		r.isOver(t, w.end)
		r.isLeft(t, 1)
		expect(t, w.stream, events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

// TestBoundBehindTheMachinesOwnEnd: the machine has come to an end of its own, and its node is being removed, when the
// bound is reached. Those who ask are told of that first, so it is the end.
func TestBoundBehindTheMachinesOwnEnd(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		var told error
		r.OnEnd(func(err error) { told = err })
		beyond := events.Name{Text: "lock-2147483647", Kind: events.KindLock, Seq: 1<<31 - 1}
		r.say(recipes.Opened{Epoch: epoch, Session: session}, recipes.Created{Epoch: epoch, Node: beyond})
		w.reach()
		r.deleted()
		r.isOver(t, w.end)
		r.isLeft(t, 1)
		if told == nil || told.Error() != w.end.Error() {
			t.Errorf("told %v, ended with %v", told, w.end)
		}
		expect(t, w.stream, events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

func TestBoundBeforeThereIsASession(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		w.reach()
		r.isOver(t, w.end)
		r.isLeft(t, 1)
		expect(t, w.stream, events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

func TestBoundWithTheGrantUntaken(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		r.hold()
		r.goesOn(t, true)
		w.reach()
		if r.Holding() || r.Valid() {
			t.Error("it is held although nobody took the Grant in time")
		}
		r.deleted()
		r.isOver(t, w.end) // and no Grant in the channel
		r.isLeft(t, 1)
		expect(t, w.stream, events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

func TestBoundAfterTheGrantWasTaken(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		r.hold()
		mustTake(t, r.Granted())
		w.reach()
		r.goesOn(t, true)
		r.Withdraw(recipes.WhyReleased)
		r.deleted()
		r.isOver(t, nil)
		if got := next(w.stream); !reflect.DeepEqual(got, grantOf(0)) {
			t.Errorf("the stream has %+v", got)
		}
		if got, ok := next(w.stream).(events.Ended); !ok || got.Err != nil {
			t.Errorf("the stream has %+v", got)
		}
	})
}

// TestBoundAfterTheGrantWasSeen has a subscriber see the Grant before the bound.
// It counts as taken, so the wait is over; whoever reads the channel only must be
// able to take it, too, or nobody would know who holds the lock.
func TestBoundAfterTheGrantWasSeen(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		r.hold()
		expect(t, w.stream, grantOf(0))
		w.reach()
		r.goesOn(t, true)
		mustTake(t, r.Granted())
		r.Withdraw(recipes.WhyReleased)
		r.deleted()
		r.isOver(t, nil)
	})
}

func TestSeenGrantIsNotReadableAfterWithdraw(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.rig
		r.hold()
		expect(t, w.stream, grantOf(0))
		w.reach()
		r.Withdraw(recipes.WhyReleased)
		if _, ok := take(r.Granted()); ok {
			t.Error("a Grant can be read after Withdraw")
		}
		r.deleted()
		r.isOver(t, nil)
	})
}

// TestBoundAfterTheEnd has the context end when the acquisition is ending for a
// reason of its own, too late to be stopped: its message stands in the mailbox
// behind the end.
func TestBoundAfterTheEnd(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		told := 0
		r.OnEnd(func(error) { told++ })
		ctx := newCountingContext(t.Context())
		r.Start(ctx, 0, recipes.Started{Try: true})
		synctest.Wait()
		r.say(recipes.Opened{Epoch: epoch, Session: session})
		late := ctx.functions()
		if len(late) != 1 {
			t.Fatalf("%d functions wait for the end of the context", len(late))
		}
		r.explaining = func() {
			ctx.ended.Store(true)
			late[0]()
		}
		r.say(recipes.Listed{Epoch: epoch, Queue: []events.Name{older}})
		r.isOver(t, ends(recipes.WhyBusy, false, 0, nil))
		r.isLeft(t, 1)
		if told != 1 {
			t.Errorf("the end was told %d times", told)
		}
	})
}

func TestContextIsLetGoAtTheEnd(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		ctx := newCountingContext(t.Context())
		r.Start(ctx, time.Hour, recipes.Started{})
		synctest.Wait()
		if n := len(ctx.functions()); n != 1 {
			t.Errorf("%d functions wait for the end of the context, want 1", n)
		}
		r.hold()
		mustTake(t, r.Granted())
		r.Withdraw(recipes.WhyReleased)
		r.deleted()
		r.isOver(t, nil)
		if n := len(ctx.functions()); n != 0 {
			t.Errorf("%d functions wait for the end of the context after the end", n)
		}
	})
}

func TestStartWithAnEndedContext(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		r.Start(ctx, 0, recipes.Started{})
		want := ends(recipes.WhyContext, false, 0, errCause)
		r.isOver(t, want)
		r.isLeft(t, 1)
		if opened, _ := r.port.counts(); opened != 0 || len(r.port.sent()) != 0 {
			t.Error("the session heard of an acquisition whose context had ended before")
		}
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
	})
}

func TestWithdrawBeforeStart(t *testing.T) {
	for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed} {
		eventstest.Bubble(t, func(t *testing.T) {
			r := newRig(t)
			stream := r.stream.Subscribe(t.Context())
			r.Withdraw(why)
			want := ends(why, false, 0, nil)
			r.isOver(t, want)
			ctx := newCountingContext(t.Context())
			r.Start(ctx, time.Hour, recipes.Started{})
			r.isOver(t, want)
			r.isLeft(t, 1)
			if opened, _ := r.port.counts(); opened != 0 || len(r.port.sent()) != 0 || len(ctx.functions()) != 0 {
				t.Error("an acquisition that was withdrawn has started")
			}
			r.Withdraw(recipes.WhyReleased)
			r.isOver(t, want)
			expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
		})
	}
}

// TestWithdrawInTheMiddleOfStart has the acquisition end between the moment when
// Start finds it alive and the moment when it goes to the session. The port must
// not be left open then: nobody would ever close it.
func TestWithdrawInTheMiddleOfStart(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		ctx := newCountingContext(t.Context())
		ctx.onErr = func() {
			r.Withdraw(recipes.WhyClosed)
			<-r.Done()
		}
		r.Start(ctx, 0, recipes.Started{})
		r.isOver(t, ends(recipes.WhyClosed, false, 0, nil))
		r.isLeft(t, 1)
		if len(r.port.sent()) != 0 || len(ctx.functions()) != 0 {
			t.Error("something is left of an acquisition that was withdrawn")
		}
	})
}

// TestWithdraw ends the acquisition in its stages, twice and for both reasons:
// the first one counts.
func TestWithdraw(t *testing.T) {
	stages := []struct {
		name    string
		granted bool
		before  func(r *rig)
		after   func(r *rig)
	}{
		{"without a session", false, func(*rig) {}, func(*rig) {}},
		{"creating", false, func(r *rig) { r.say(recipes.Opened{Epoch: epoch, Session: session}) },
			func(r *rig) { r.say(recipes.Created{Epoch: epoch, Node: own}); r.deleted() }},
		{"waiting", false, func(r *rig) { r.queued() }, (*rig).deleted},
		{"Grant untaken", false, func(r *rig) { r.hold() }, (*rig).deleted},
		{"Grant taken", true, func(r *rig) { r.hold(); <-r.Granted() }, (*rig).deleted},
		{"suspended", true, func(r *rig) { r.hold(); <-r.Granted(); r.say(recipes.Suspended{}) }, (*rig).deleted},
		{"expired", true, func(r *rig) { r.hold(); <-r.Granted() }, func(r *rig) { r.say(recipes.Expired{}) }},
	}
	for _, stage := range stages {
		for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed} {
			t.Run(stage.name+", "+why.String(), func(t *testing.T) {
				eventstest.Bubble(t, func(t *testing.T) {
					r := newRig(t)
					r.start(t, recipes.Started{})
					stage.before(r)
					told := 0
					r.OnEnd(func(error) { told++ })
					r.Withdraw(why)
					if r.Holding() || r.Valid() {
						t.Error("it is held after Withdraw")
					}
					if told != 1 {
						t.Errorf("the end was told %d times when Withdraw returned", told)
					}
					if _, ok := take(r.Granted()); ok {
						t.Error("a Grant can be read after Withdraw")
					}
					r.Withdraw(recipes.WhyReleased)
					r.Withdraw(recipes.WhyClosed)
					stage.after(r)
					want := ends(why, stage.granted, 0, nil)
					if stage.granted && why == recipes.WhyReleased {
						want = nil
					}
					r.isOver(t, want)
					r.isLeft(t, 1)
					if told != 1 {
						t.Errorf("the end was told %d times", told)
					}
				})
			})
		}
	}
}

// TestDoneDoesNotWaitForAConnection has the caller hear of the end at once, and
// the coordinator when the node is gone.
func TestDoneDoesNotWaitForAConnection(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start(t, recipes.Started{})
		r.hold()
		mustTake(t, r.Granted())
		r.say(recipes.Suspended{})
		r.goesOn(t, true)
		r.Withdraw(recipes.WhyReleased)
		r.isOver(t, nil)
		r.isLeft(t, 0)
		if _, closed := r.port.counts(); closed != 0 {
			t.Error("the port was closed with a node left")
		}
		r.say(recipes.Reconnected{}, recipes.Unknown{Epoch: epoch, Op: recipes.OpDelete}, recipes.Deleted{Epoch: epoch})
		r.isOver(t, nil)
		r.isLeft(t, 1)
	})
}

func TestFailEndsAtOnce(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		stream := r.stream.Subscribe(t.Context())
		told := 0
		r.OnEnd(func(err error) {
			told++
			if err != errNoAuth { //nolint:errorlint // the very error is meant
				t.Errorf("told %v", err)
			}
		})
		r.Fail(errNoAuth)
		if !isDone(r.Lock) || told != 1 {
			t.Error("it is not over when Fail returns")
		}
		r.isOver(t, errNoAuth)
		r.Withdraw(recipes.WhyReleased) // as callers defer it
		r.Withdraw(recipes.WhyClosed)
		r.Fail(errCause)
		r.isOver(t, errNoAuth)
		r.isLeft(t, 1)
		if got := next(stream); got != (events.Ended{ID: 7, Path: "/locks/a", Err: errNoAuth}) {
			t.Errorf("the stream has %+v", got)
		}
		expect(t, stream)
	})
}

func TestFailAfterTheGroupWasClosed(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.close()
		r.Fail(errNoAuth)
		r.Withdraw(recipes.WhyReleased)
		r.isOver(t, errNoAuth)
		r.isLeft(t, 1)
	})
}

func TestFailAfterWithdraw(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.Withdraw(recipes.WhyReleased)
		r.Fail(errNoAuth)
		r.isOver(t, ends(recipes.WhyReleased, false, 0, nil))
		r.isLeft(t, 1)
	})
}

var _ actors.Port = (*fakePort)(nil)
