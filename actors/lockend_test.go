package actors_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// bound is what can end a wait.
type bound struct {
	name  string
	end   error // what Err says when it has ended the wait
	start func(t *testing.T, r *actorstest.Rig) (reach func())
}

func bounds() []bound {
	return []bound{
		{"context", actorstest.Ends(recipes.WhyContext, false, 0, actorstest.ErrCause), func(t *testing.T, r *actorstest.Rig) func() {
			t.Helper()
			ctx, cancel := context.WithCancelCause(t.Context())
			r.Start(ctx, 0, actors.Want{})
			return func() { cancel(actorstest.ErrCause) }
		}},
		{"maxWait", actorstest.Ends(recipes.WhyTimeout, false, 0, nil), func(t *testing.T, r *actorstest.Rig) func() {
			t.Helper()
			r.Start(t.Context(), time.Minute, actors.Want{})
			return func() { time.Sleep(time.Minute) }
		}},
	}
}

// wait is an acquisition with a bound, and the stream of its events.
type wait struct {
	*actorstest.Rig
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
				w := wait{Rig: actorstest.NewRig(t), t: t, end: b.end}
				w.stream = w.Rig.Stream.Subscribe(t.Context())
				reach := b.start(t, w.Rig)
				synctest.Wait()
				w.reach = func() { reach(); synctest.Wait() }
				f(w)
			})
		})
	}
}

// TestBoundBehindTheMachinesOwnEnd: the machine has come to an end of its own, and its node is being removed, when the bound is
// reached. The functions of OnEnd hear of the bound first, so the bound is the end.
func TestBoundBehindTheMachinesOwnEnd(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.Rig
		var told error
		r.OnEnd(func(err error) { told = err })
		beyond := events.Name{Text: "lock-2147483647", Kind: events.KindLock, Seq: 1<<31 - 1}
		r.Say(actorstest.Opened, recipes.Created{Epoch: actorstest.Epoch, Node: beyond})
		w.reach()
		r.Deleted()
		r.IsOverAndGone(t, w.end)
		if told == nil || told.Error() != w.end.Error() {
			t.Errorf("the functions of OnEnd are told %v, want what Err says: %v", told, w.end)
		}
		expect(t, w.stream, events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

func TestBoundWithTheGrantUntaken(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.Rig
		r.Hold()
		r.GoesOn(t, true)
		w.reach()
		r.IsNotHeld(t, "when the Grant was not taken in time")
		r.Deleted()
		r.IsOverAndGone(t, w.end) // and no Grant in the channel
		expect(t, w.stream, actorstest.GrantOf(0), events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

func TestBoundAfterTheGrantWasTaken(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.Rig
		r.Hold()
		actorstest.MustTake(t, r.Granted())
		w.reach()
		r.GoesOn(t, true)
		r.Releases(t)
		if got := next(w.stream); !reflect.DeepEqual(got, actorstest.GrantOf(0)) {
			t.Errorf("the stream has %+v, want the Grant", got)
		}
		if got, ok := next(w.stream).(events.Ended); !ok || got.Err != nil {
			t.Errorf("the stream has %+v, want an Ended without an error", got)
		}
	})
}

// TestBoundAfterTheGrantWasSeen: a subscriber that has seen the Grant has not taken it, so the bound still counts.
func TestBoundAfterTheGrantWasSeen(t *testing.T) {
	bounded(t, func(w wait) {
		t, r := w.t, w.Rig
		r.Hold()
		expect(t, w.stream, actorstest.GrantOf(0))
		w.reach()
		r.IsNotHeld(t, "when the Grant was seen and not taken in time")
		r.HasNoGrant(t, "after the bound")
		r.Deleted()
		r.IsOverAndGone(t, w.end)
		expect(t, w.stream, events.Ended{ID: 7, Path: "/locks/a", Err: w.end})
	})
}

// TestBoundAfterTheEnd has the context end when the acquisition ends for a reason of its own. It is too late to stop the context's
// message, which stands in the mailbox behind the end.
func TestBoundAfterTheEnd(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		told := 0
		r.OnEnd(func(error) { told++ })
		ctx := actorstest.NewCountingContext(t.Context())
		r.Start(ctx, 0, actors.Want{Try: true})
		synctest.Wait()
		r.Say(actorstest.Opened)
		late := ctx.Functions()
		if len(late) != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", len(late))
		}
		r.Explaining = func() {
			ctx.Ended.Store(true)
			late[0]()
		}
		r.Say(recipes.Listed{Epoch: actorstest.Epoch, Queue: []events.Name{actorstest.Older}})
		r.IsOverAndGone(t, actorstest.Ends(recipes.WhyBusy, false, 0, nil))
		if told != 1 {
			t.Errorf("the end was told %d times, want once", told)
		}
	})
}

// The port closes before the caller sees the end, because the caller may then ask for its room.
func TestThePortIsClosedBeforeTheEndIsTold(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Start(t.Context(), 0, actors.Want{Try: true})
		synctest.Wait()
		r.Say(actorstest.Opened)
		closedBefore := 0
		r.Explaining = func() { _, closedBefore = r.Port.Counts() }
		r.Say(recipes.Listed{Epoch: actorstest.Epoch, Queue: []events.Name{actorstest.Older}})
		r.IsOverAndGone(t, actorstest.Ends(recipes.WhyBusy, false, 0, nil))
		if closedBefore != 1 {
			t.Errorf("the port was closed %d times before the end was told, want once", closedBefore)
		}
	})
}

// TestContextIsLetGoAtTheEnd of its last lock. Exception: the latest context is let go when another one comes, or when the house is
// closed. So the locks of a loop have one wait for their context.
func TestContextIsLetGoAtTheEnd(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		ctx, other := actorstest.NewCountingContext(t.Context()), actorstest.NewCountingContext(t.Context())
		expect := func(when string, waiting, functions, others int) {
			t.Helper()
			if n, m, all := len(ctx.Functions()), len(other.Functions()), ctx.Asked(); n != waiting || m != others || all != functions {
				t.Errorf("%s %d functions wait for the end of the context, of %d so far, and %d for the other's; want %d of %d, and %d",
					when, n, all, m, waiting, functions, others)
			}
		}
		cycle := func(l *actorstest.Rig, ctx context.Context) {
			l.Start(ctx, time.Hour, actors.Want{})
			l.Hold()
			actorstest.MustTake(t, l.Granted())
			l.Releases(t)
		}
		cycle(r, ctx)
		expect("after the first lock", 1, 1, 0)
		cycle(r.Sibling(), ctx)
		expect("after the second lock", 1, 1, 0)
		waiter := r.Sibling()
		waiter.Start(ctx, 0, actors.Want{})
		cycle(r.Sibling(), other)
		expect("after a lock with the other context, and with a waiter", 1, 1, 1)
		waiter.Withdraw(recipes.WhyReleased)
		waiter.IsOver(t, actorstest.Ends(recipes.WhyReleased, false, 0, nil))
		expect("when no lock waits any more", 1, 1, 0)
		r.House.Close()
		expect("after the end of all locks", 0, 1, 0)
	})
}

func TestStartWithAnEndedContext(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(actorstest.ErrCause)
		r.Start(ctx, 0, actors.Want{})
		want := actorstest.Ends(recipes.WhyContext, false, 0, actorstest.ErrCause)
		r.IsOverAndGone(t, want)
		if opened, _ := r.Port.Counts(); opened != 0 || len(r.Port.Sent()) != 0 {
			t.Errorf("the port was opened %d times and sent %v for a context that had ended before, want nothing", opened, r.Port.Sent())
		}
		expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
	})
}

func TestWithdrawBeforeStart(t *testing.T) {
	for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed} {
		withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
			r.Withdraw(why)
			want := actorstest.Ends(why, false, 0, nil)
			r.IsOver(t, want)
			ctx := actorstest.NewCountingContext(t.Context())
			r.Start(ctx, time.Hour, actors.Want{})
			r.IsOverAndGone(t, want)
			if opened, _ := r.Port.Counts(); opened != 0 || len(r.Port.Sent()) != 0 || len(ctx.Functions()) != 0 {
				t.Error("an acquisition that was withdrawn has started")
			}
			r.Withdraw(recipes.WhyReleased)
			r.IsOver(t, want)
			expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: want})
		})
	}
}

// TestWithdrawInTheMiddleOfStart has the acquisition end between two moments: Start finds it alive, and Start goes to the session.
// The port must not be left open then, because nothing would close it.
func TestWithdrawInTheMiddleOfStart(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		ctx := actorstest.NewCountingContext(t.Context())
		ctx.OnErr = func() {
			r.Withdraw(recipes.WhyClosed)
			<-r.Done()
		}
		r.Start(ctx, 0, actors.Want{})
		r.IsOverAndGone(t, actorstest.Ends(recipes.WhyClosed, false, 0, nil))
		r.House.Close()
		if len(r.Port.Sent()) != 0 || len(ctx.Functions()) != 0 {
			t.Errorf("behind a withdrawal %v was sent, and %d functions are left with the context; want nothing", r.Port.Sent(), len(ctx.Functions()))
		}
	})
}

// TestTheFirstWithdrawalCounts ends the acquisition twice in each of its stages, for both reasons. The first one counts.
func TestTheFirstWithdrawalCounts(t *testing.T) {
	stages := []struct {
		name    string
		granted bool
		before  func(r *actorstest.Rig)
		after   func(r *actorstest.Rig)
	}{
		{"without a session", false, func(*actorstest.Rig) {}, func(*actorstest.Rig) {}},
		{"creating", false, func(r *actorstest.Rig) { r.Say(actorstest.Opened) },
			func(r *actorstest.Rig) {
				r.Say(actorstest.Created)
				r.Deleted()
			}},
		{"waiting", false, func(r *actorstest.Rig) { r.Queued() }, (*actorstest.Rig).Deleted},
		{"Grant untaken", false, func(r *actorstest.Rig) { r.Hold() }, (*actorstest.Rig).Deleted},
		{"Grant taken", true, func(r *actorstest.Rig) { r.Hold(); <-r.Granted() }, (*actorstest.Rig).Deleted},
		{"suspended", true, func(r *actorstest.Rig) { r.Hold(); <-r.Granted(); r.Say(recipes.Suspended{}) }, (*actorstest.Rig).Deleted},
		{"expired", true, func(r *actorstest.Rig) { r.Hold(); <-r.Granted() }, func(r *actorstest.Rig) { r.Say(recipes.Expired{}) }},
	}
	for _, stage := range stages {
		for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed} {
			t.Run(stage.name+", "+why.String(), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *actorstest.Rig) {
					r.Begin(t, actors.Want{})
					stage.before(r)
					told := 0
					r.OnEnd(func(error) { told++ })
					r.Withdraw(why)
					r.IsNotHeld(t, "after Withdraw")
					if told != 1 {
						t.Errorf("OnEnd was told %d times when Withdraw returned, want once", told)
					}
					r.HasNoGrant(t, "after Withdraw")
					r.Withdraw(recipes.WhyReleased)
					r.Withdraw(recipes.WhyClosed)
					stage.after(r)
					want := actorstest.Ends(why, stage.granted, 0, nil)
					if stage.granted && why == recipes.WhyReleased {
						want = nil
					}
					r.IsOverAndGone(t, want)
					if told != 1 {
						t.Errorf("in the end OnEnd was told %d times, want once", told)
					}
				})
			})
		}
	}
}

// TestDoneDoesNotWaitForAConnection: the caller hears of the end at once, and the coordinator when the node is gone.
func TestDoneDoesNotWaitForAConnection(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Holds(t, actors.Want{})
		r.Say(recipes.Suspended{})
		r.GoesOn(t, true)
		r.Withdraw(recipes.WhyReleased)
		r.IsOver(t, nil)
		r.WantGone(t, 0)
		if _, closed := r.Port.Counts(); closed != 0 {
			t.Errorf("the port was closed %d times with a node left, want never", closed)
		}
		r.Say(recipes.Reconnected{}, recipes.Unknown{Epoch: actorstest.Epoch, Op: recipes.OpDelete}, recipes.Deleted{Epoch: actorstest.Epoch})
		r.IsOverAndGone(t, nil)
	})
}

func TestFailEndsAtOnce(t *testing.T) {
	withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
		told := 0
		r.OnEnd(func(err error) {
			told++
			if err != actorstest.ErrNoAuth { //nolint:errorlint // identity is meant
				t.Errorf("the functions of OnEnd are told %v, want %v", err, actorstest.ErrNoAuth)
			}
		})
		r.Fail(actorstest.ErrNoAuth)
		if !actorstest.IsDone(r.Lock) || told != 1 {
			t.Error("it is not over when Fail returns")
		}
		r.IsOver(t, actorstest.ErrNoAuth)
		r.Withdraw(recipes.WhyReleased) // as callers defer it
		r.Withdraw(recipes.WhyClosed)
		r.Fail(actorstest.ErrCause)
		r.IsOverAndGone(t, actorstest.ErrNoAuth)
		if got := next(stream); got != (events.Ended{ID: 7, Path: "/locks/a", Err: actorstest.ErrNoAuth}) {
			t.Errorf("the stream has %+v", got)
		}
		expect(t, stream)
	})
}

func TestFailAfterTheGroupWasClosed(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Shut()
		r.Fail(actorstest.ErrNoAuth)
		r.Withdraw(recipes.WhyReleased)
		r.IsOverAndGone(t, actorstest.ErrNoAuth)
	})
}

func TestFailAfterWithdraw(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Withdraw(recipes.WhyReleased)
		r.Fail(actorstest.ErrNoAuth)
		r.IsOverAndGone(t, actorstest.Ends(recipes.WhyReleased, false, 0, nil))
	})
}

var _ actors.Port = (*actorstest.FakePort)(nil)

// TestOneWatcherForAContextHoweverManyLocks also removes some of the locks before the context ends. They are not told. The others
// are told, with the context's cause.
func TestOneWatcherForAContextHoweverManyLocks(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		const locks = 9
		r := actorstest.NewRig(t)
		cause := errors.New("enough")
		parent, cancel := context.WithCancelCause(t.Context())
		shared := actorstest.NewCountingContext(parent)
		all := []*actorstest.Rig{r}
		for range locks - 1 {
			all = append(all, r.Sibling())
		}
		for _, one := range all {
			one.Start(shared, 0, actors.Want{})
		}
		synctest.Wait()
		if n := len(shared.Functions()); n != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", n)
		}
		for _, i := range []int{0, 4, 8, 3} { // the first, the last, one that has been moved
			all[i].Withdraw(recipes.WhyReleased)
		}
		synctest.Wait()
		ended := shared.Functions()
		if len(ended) != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", len(ended))
		}
		cancel(cause)
		shared.Ended.Store(true)
		ended[0]()
		synctest.Wait()
		for i, one := range all {
			want := actorstest.Ends(recipes.WhyContext, false, 0, cause)
			if i == 0 || i == 3 || i == 4 || i == 8 {
				want = actorstest.Ends(recipes.WhyReleased, false, 0, nil)
			}
			one.IsOver(t, want)
		}
	})
}

// TestTheEndOfAContextComesLate: the last of its locks is gone and another one has been added. That one is told once, by a wait of
// its own.
func TestTheEndOfAContextComesLate(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		ctx := actorstest.NewCountingContext(t.Context())
		r.Start(ctx, 0, actors.Want{})
		late := r.ContextEnded()
		r.Withdraw(recipes.WhyReleased)
		r.IsOver(t, actorstest.Ends(recipes.WhyReleased, false, 0, nil))
		another, second, third := r.Sibling(), r.Sibling(), r.Sibling()
		another.Start(actorstest.NewCountingContext(t.Context()), 0, actors.Want{})
		another.Withdraw(recipes.WhyReleased)
		another.IsOver(t, actorstest.Ends(recipes.WhyReleased, false, 0, nil))
		second.Start(ctx, 0, actors.Want{})
		synctest.Wait()
		late()
		second.GoesOn(t, false)
		third.Start(ctx, 0, actors.Want{})
		synctest.Wait()
		waiting := ctx.Functions()
		if len(waiting) != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", len(waiting))
		}
		ctx.Ended.Store(true)
		waiting[0]()
		second.IsOver(t, actorstest.Ends(recipes.WhyContext, false, 0, context.Canceled))
		third.IsOver(t, actorstest.Ends(recipes.WhyContext, false, 0, context.Canceled))
	})
}

// TestAFunctionHasReturnedWhenItsReleaseIsAskedFor, and not before: Close ends the session then, and the node would still be there.
func TestAFunctionHasReturnedWhenItsReleaseIsAskedFor(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Holds(t, actors.Want{Keep: true})
		r.Withdraw(recipes.WhyClosed)
		waited, early := r.Returned(), 0
		r.Port.Answer = func(e recipes.Effect) {
			if _, ok := e.(recipes.Delete); !ok {
				return
			}
			for _, returned := range []<-chan struct{}{waited, r.Returned()} {
				if _, told := actorstest.Take(returned); told {
					early++
				}
			}
		}
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
		if _, told := actorstest.Take(waited); early > 0 || !told {
			t.Errorf("told before the request: %d times; in the end: %v", early, told)
		}
		<-r.Returned()
		r.Deleted()
	})
}
