package actors_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

var (
	_ actors.Port = (*actorstest.FakePort)(nil)

	released = actorstest.Ends(recipes.WhyReleased, false, 0, nil) // the end of a waiter
	beyond   = events.Name{Text: "lock-2147483647", Kind: events.KindLock, Seq: 1<<31 - 1}
)

// TestABoundEndsTheWait, of either kind: the end of the context, or of the longest wait.
// It does not count once the Grant was taken. A subscriber that has seen the Grant has
// not taken it. If the machine has come to an end of its own, and its node is being
// removed, the functions of OnEnd hear of the bound first, so it is the end.
func TestABoundEndsTheWait(t *testing.T) {
	const own = "after the machine's own end"
	for name, c := range map[string]struct {
		before func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event)
		taken  bool
		said   []events.Event // on the stream, before the end
	}{
		own: {before: func(_ *testing.T, r *actorstest.Rig, _ <-chan events.Event) {
			r.Say(actorstest.Opened, recipes.Created{Epoch: actorstest.Epoch, Node: beyond})
		}},
		"Grant untaken": {before: func(_ *testing.T, r *actorstest.Rig, _ <-chan events.Event) {
			r.Hold()
		}, said: []events.Event{actorstest.GrantOf(0)}},
		"Grant seen": {before: func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
			r.Hold()
			expect(t, stream, actorstest.GrantOf(0))
		}},
		"Grant taken": {before: func(t *testing.T, r *actorstest.Rig, _ <-chan events.Event) {
			r.Hold()
			actorstest.MustTake(t, r.Granted())
		}, taken: true, said: []events.Event{actorstest.GrantOf(0)}},
	} {
		for _, waits := range []time.Duration{0, time.Minute} {
			t.Run(name+", "+waits.String(), func(t *testing.T) {
				withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
					var told error
					r.OnEnd(func(err error) { told = err })
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					r.Start(ctx, waits, actors.Want{})
					synctest.Wait()
					c.before(t, r, stream)
					end := actorstest.Ends(recipes.WhyTimeout, false, 0, nil)
					if time.Sleep(waits); waits == 0 {
						end = actorstest.Ends(recipes.WhyContext, false, 0, actorstest.ErrCause)
						cancel(actorstest.ErrCause)
					}
					synctest.Wait()
					if c.taken {
						r.GoesOn(t, true)
						r.Releases(t)
						expect(t, stream, append(c.said, events.Ended{ID: 7, Path: "/locks/a", Held: waits})...)
						return
					}
					r.IsNotHeld(t, "after the bound")
					r.HasNoGrant(t, "after the bound")
					r.Deleted()
					r.IsOverAndGone(t, end)
					if name == own && (told == nil || told.Error() != end.Error()) {
						t.Errorf("the functions of OnEnd are told %v, want what Err says: %v", told, end)
					}
					expect(t, stream, append(c.said, events.Ended{ID: 7, Path: "/locks/a", Err: end})...)
				})
			})
		}
	}
}

// TestThePortIsClosedBeforeTheEndIsTold, because the caller may then ask for its room. A
// context that ends at that moment is too late: its message stands in the mailbox behind
// the end.
func TestThePortIsClosedBeforeTheEndIsTold(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		told, closed := 0, 0
		r.OnEnd(func(error) { told++ })
		ctx := actorstest.NewCountingContext(t.Context())
		r.Start(ctx, 0, actors.Want{Try: true})
		synctest.Wait()
		r.Say(actorstest.Opened)
		late := ctx.Functions()
		r.Explaining = func() {
			_, closed = r.Port.Counts()
			ctx.Ended.Store(true)
			late[0]()
		}
		r.Say(recipes.Listed{Epoch: actorstest.Epoch, Queue: []events.Name{actorstest.Older}})
		r.IsOverAndGone(t, actorstest.Ends(recipes.WhyBusy, false, 0, nil))
		if len(late) != 1 || closed != 1 || told != 1 {
			t.Errorf("%d functions wait for the context, the port was closed %d times before the end, which was told %d times; want once each",
				len(late), closed, told)
		}
	})
}

// TestContextIsLetGoAtTheEnd of its last lock. Exception: the latest context is let go
// when another one comes, or when the house is closed. So the locks of a loop have one
// wait for their context.
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
		waiter.IsOver(t, released)
		expect("when no lock waits any more", 1, 1, 0)
		r.House.Close()
		expect("after the end of all locks", 0, 1, 0)
	})
}

// TestNothingStartsForACallerThatHasGone: its context has ended, or it has withdrawn,
// before Start or in the middle of it. Then the port must not be left open, because
// nothing would close it.
func TestNothingStartsForACallerThatHasGone(t *testing.T) {
	closed := actorstest.Ends(recipes.WhyClosed, false, 0, nil)
	for name, c := range map[string]struct {
		gone func(r *actorstest.Rig, ctx *actorstest.CountingContext)
		end  error
	}{
		"released": {func(r *actorstest.Rig, _ *actorstest.CountingContext) {
			r.Withdraw(recipes.WhyReleased)
		}, released},
		"closed": {func(r *actorstest.Rig, _ *actorstest.CountingContext) { r.Withdraw(recipes.WhyClosed) }, closed},
		"in the middle": {func(r *actorstest.Rig, ctx *actorstest.CountingContext) {
			ctx.OnErr = func() {
				r.Withdraw(recipes.WhyClosed)
				<-r.Done()
			}
		}, closed},
		"its context has ended": {end: actorstest.Ends(recipes.WhyContext, false, 0, actorstest.ErrCause)},
	} {
		t.Run(name, func(t *testing.T) {
			withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
				ctx := actorstest.NewCountingContext(t.Context())
				if c.gone == nil {
					ended, cancel := context.WithCancelCause(t.Context())
					cancel(actorstest.ErrCause)
					r.Start(ended, 0, actors.Want{})
				} else {
					c.gone(r, ctx)
					r.Start(ctx, time.Hour, actors.Want{})
				}
				r.IsOverAndGone(t, c.end)
				r.Withdraw(recipes.WhyReleased)
				r.IsOver(t, c.end)
				r.House.Close()
				opened, _ := r.Port.Counts()
				if opened != 0 && ctx.OnErr == nil || len(r.Port.Sent()) != 0 || len(ctx.Functions()) != 0 {
					t.Errorf("the port was opened %d times and sent %v, and %d functions are left with the context; want nothing",
						opened, r.Port.Sent(), len(ctx.Functions()))
				}
				expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: c.end})
			})
		})
	}
}

// TestTheFirstWithdrawalCounts ends the acquisition twice in each of its stages, for both reasons. The first one counts.
func TestTheFirstWithdrawalCounts(t *testing.T) {
	type rig = actorstest.Rig
	hold := func(r *rig) { r.Hold(); <-r.Granted() }
	for _, stage := range []struct {
		name    string
		granted bool
		before  func(r *rig)
		after   func(r *rig)
	}{
		{"without a session", false, func(*rig) {}, func(*rig) {}},
		{"creating", false, func(r *rig) { r.Say(actorstest.Opened) }, func(r *rig) { r.Say(actorstest.Created); r.Deleted() }},
		{"waiting", false, (*rig).Queued, (*rig).Deleted},
		{"Grant untaken", false, (*rig).Hold, (*rig).Deleted},
		{"Grant taken", true, hold, (*rig).Deleted},
		{"suspended", true, func(r *rig) { hold(r); r.Say(recipes.Suspended{}) }, (*rig).Deleted},
		{"expired", true, hold, func(r *rig) { r.Say(recipes.Expired{}) }},
	} {
		for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed} {
			t.Run(stage.name+", "+why.String(), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *rig) {
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

// TestFailEndsAtOnce, also in a closed group. It changes nothing for a lock that was
// withdrawn before.
func TestFailEndsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *actorstest.Rig)
		end    error
	}{
		"open":      {func(*actorstest.Rig) {}, actorstest.ErrNoAuth},
		"closed":    {(*actorstest.Rig).Shut, actorstest.ErrNoAuth},
		"withdrawn": {func(r *actorstest.Rig) { r.Withdraw(recipes.WhyReleased) }, released},
	} {
		withStream(t, func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event) {
			var told []error
			r.OnEnd(func(err error) { told = append(told, err) })
			c.before(r)
			r.Fail(actorstest.ErrNoAuth)
			if name != "withdrawn" && !actorstest.IsDone(r.Lock) || len(told) != 1 {
				t.Errorf("%s: it is not over when Fail returns, or told %v", name, told)
			}
			r.IsOver(t, c.end)
			r.Withdraw(recipes.WhyReleased) // as callers defer it
			r.Withdraw(recipes.WhyClosed)
			r.Fail(actorstest.ErrCause)
			r.IsOverAndGone(t, c.end)
			if len(told) != 1 || name != "withdrawn" && told[0] != c.end { //nolint:errorlint // identity is meant
				t.Errorf("%s: the functions of OnEnd are told %v, want %v once", name, told, c.end)
			}
			if name != "closed" {
				expect(t, stream, events.Ended{ID: 7, Path: "/locks/a", Err: c.end})
			}
		})
	}
}

// TestAWithdrawalAfterTheEndOfTheLoopEndsTheLock: a coordinator is closed. An acquisition
// of it joins a feed. The feed is closed before the coordinator has refused the
// acquisition, and its reader receives the end.
func TestAWithdrawalAfterTheEndOfTheLoopEndsTheLock(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		var told []error
		r.OnEnd(func(err error) { told = append(told, err) })
		r.Shut()
		f := actors.NewFeed()
		if !r.Join(f) {
			t.Fatal("the lock does not join an open feed")
		}
		f.Close()
		r.Fail(actorstest.ErrNoAuth)
		r.IsOverAndGone(t, released)
		r.Withdraw(recipes.WhyReleased) // as callers defer it
		r.Fail(actorstest.ErrCause)
		r.IsOverAndGone(t, released)
		if len(told) != 1 {
			t.Errorf("the functions of OnEnd are told %v, want one end", told)
		}
		expect(t, f.Events(), events.Ended{ID: 7, Path: "/locks/a", Err: released})
		if !isClosed(f.Events()) {
			t.Error("the channel of a closed feed is open after the last end")
		}
	})
}

// TestOneWatcherForAContextHoweverManyLocks also removes some of the locks before the
// context ends. They are not told. The others are told, with the context's cause.
func TestOneWatcherForAContextHoweverManyLocks(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		const locks = 9
		gone := []int{0, 4, 8, 3} // the first, the last, one that has been moved
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
		before := len(shared.Functions())
		for _, i := range gone {
			all[i].Withdraw(recipes.WhyReleased)
		}
		synctest.Wait()
		ended := shared.Functions()
		if before != 1 || len(ended) != 1 {
			t.Fatalf("%d functions wait for the end of the context, and then %d, want 1", before, len(ended))
		}
		cancel(cause)
		shared.Ended.Store(true)
		ended[0]()
		for i, one := range all {
			want := actorstest.Ends(recipes.WhyContext, false, 0, cause)
			if slices.Contains(gone, i) {
				want = released
			}
			one.IsOver(t, want)
		}
	})
}

// TestTheEndOfAContextComesLate: the last of its locks is gone and another one has been
// added. That one is told once, by a wait of its own.
func TestTheEndOfAContextComesLate(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		ctx := actorstest.NewCountingContext(t.Context())
		r.Start(ctx, 0, actors.Want{})
		late := r.ContextEnded()
		r.Withdraw(recipes.WhyReleased)
		r.IsOver(t, released)
		another, second, third := r.Sibling(), r.Sibling(), r.Sibling()
		another.Start(actorstest.NewCountingContext(t.Context()), 0, actors.Want{})
		another.Withdraw(recipes.WhyReleased)
		another.IsOver(t, released)
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
		for _, one := range []*actorstest.Rig{second, third} {
			one.IsOver(t, actorstest.Ends(recipes.WhyContext, false, 0, context.Canceled))
		}
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
