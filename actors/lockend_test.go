package actors_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestABoundEndsTheWait tests both kinds of bound: the end of the context, and of the
// longest wait. A bound does not count once the Grant was taken. A subscriber that has
// seen the Grant has not taken it. If the machine has ended by itself, and its node is
// being removed, the functions of OnEnd learn of the bound first, so the bound is the
// end.
func TestABoundEndsTheWait(t *testing.T) {
	const own = "after the machine's own end"
	grant := []events.Event{theGrant}
	for name, c := range map[string]struct {
		before func(t *testing.T, r *Rig, stream <-chan events.Event)
		taken  bool
		said   []events.Event // on the stream, before the end
	}{
		own: {before: func(_ *testing.T, r *Rig, _ <-chan events.Event) {
			r.Say(Opened, recipes.Created{Epoch: Epoch, Node: beyond})
		}},
		"Grant untaken": {before: func(_ *testing.T, r *Rig, _ <-chan events.Event) { r.Hold() }, said: grant},
		"Grant seen": {before: func(t *testing.T, r *Rig, stream <-chan events.Event) {
			r.Hold()
			expect(t, stream, theGrant)
		}},
		"Grant taken": {before: func(t *testing.T, r *Rig, _ <-chan events.Event) {
			r.Hold()
			MustTake(t, r.Granted())
		}, taken: true, said: grant},
	} {
		for _, waits := range []time.Duration{0, time.Minute} {
			t.Run(name+", "+waits.String(), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *Rig) {
					stream := r.Stream.Subscribe(t.Context())
					var told error
					r.OnEnd(func(err error) { told = err })
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					r.Start(ctx, waits, actors.Want{})
					synctest.Wait()
					c.before(t, r, stream)
					end := Ends(recipes.WhyTimeout, false, 0, nil)
					if time.Sleep(waits); waits == 0 {
						end = Ends(recipes.WhyContext, false, 0, ErrCause)
						cancel(ErrCause)
					}
					synctest.Wait()
					if c.taken {
						r.GoesOn(t, true)
						r.Releases(t)
						expect(t, stream, append(c.said, events.Ended{ID: 7, Path: "/locks/a", Held: waits})...)
						return
					}
					r.IsNotHeld(t, "after the bound")
					none(t, r.Granted(), "after the bound")
					r.Deleted()
					r.IsOverAndGone(t, end)
					eventstest.Expect(t, name != own || told != nil && told.Error() == end.Error(),
						"the functions of OnEnd are told %v, want what Err says: %v", told, end)
					expect(t, stream, append(c.said, Ended(end))...)
				})
			})
		}
	}
}

// TestThePortIsClosedBeforeTheEndIsTold, because the caller may then request the room of
// its node. A context that ends at that moment is too late: its message is in the mailbox
// after the end.
func TestThePortIsClosedBeforeTheEndIsTold(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		told, closed := 0, 0
		r.OnEnd(func(error) { told++ })
		ctx := NewCountingContext(t.Context())
		r.Start(ctx, 0, actors.Want{Try: true})
		synctest.Wait()
		r.Say(Opened)
		late, _ := ctx.Functions()
		r.explaining = func() {
			_, closed, _ = r.Port.Counts()
			ctx.Ended.Store(true)
			late[0]()
		}
		r.Say(recipes.Listed{Epoch: Epoch, Queue: []events.Name{Older}})
		r.IsOverAndGone(t, Ends(recipes.WhyBusy, false, 0, nil))
		if len(late) != 1 || closed != 1 || told != 1 {
			t.Errorf("%d functions wait for the context, the port was closed %d times before the end, told %d times",
				len(late), closed, told)
		}
	})
}

// TestContextIsLetGoAtTheEnd of its last lock, except that the latest context is kept
// until another one comes or the house is closed. So the locks of a loop share one wait
// for their context.
func TestContextIsLetGoAtTheEnd(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		ctx, other := NewCountingContext(t.Context()), NewCountingContext(t.Context())
		expect := func(when string, waiting, others int) {
			t.Helper()
			one, all := ctx.Functions()
			two, _ := other.Functions()
			if len(one) != waiting || len(two) != others || all != 1 {
				t.Errorf("%s %d functions of %d wait for the context, and %d for the other one; want %d of 1, and %d",
					when, len(one), all, len(two), waiting, others)
			}
		}
		cycle := func(l *Rig, ctx context.Context) {
			l.Start(ctx, time.Hour, actors.Want{})
			l.Hold()
			MustTake(t, l.Granted())
			l.Releases(t)
		}
		cycle(r, ctx)
		expect("after the first lock", 1, 0)
		cycle(r.Sibling(), ctx)
		expect("after the second lock", 1, 0)
		waiter := r.Sibling()
		waiter.Start(ctx, 0, actors.Want{})
		cycle(r.Sibling(), other)
		expect("after a lock with the other context, and with a waiter", 1, 1)
		waiter.Withdraw(recipes.WhyReleased)
		waiter.IsOver(t, released)
		expect("when no lock waits any more", 1, 0)
		r.House.Close()
		expect("after the end of all locks", 0, 0)
	})
}

// TestNothingStartsForACallerThatHasGone: its context has ended, or it has withdrawn,
// before or during Start. The port must not stay open, because nothing would close it.
func TestNothingStartsForACallerThatHasGone(t *testing.T) {
	closed := Ends(recipes.WhyClosed, false, 0, nil)
	type row struct {
		gone func(r *Rig, ctx *CountingContext)
		end  error
	}
	withEach(t, map[string]row{
		"released": {func(r *Rig, _ *CountingContext) { r.Withdraw(recipes.WhyReleased) }, released},
		"closed":   {func(r *Rig, _ *CountingContext) { r.Withdraw(recipes.WhyClosed) }, closed},
		"in the middle": {func(r *Rig, ctx *CountingContext) {
			ctx.OnErr = func() {
				r.Withdraw(recipes.WhyClosed)
				<-r.Done()
			}
		}, closed},
		"its context has ended": {end: Ends(recipes.WhyContext, false, 0, ErrCause)},
	}, func(t *testing.T, r *Rig, c row) {
		stream, ctx := r.Stream.Subscribe(t.Context()), NewCountingContext(t.Context())
		if c.gone == nil {
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(ErrCause)
			r.Start(ended, 0, actors.Want{})
		} else {
			c.gone(r, ctx)
			r.Start(ctx, time.Hour, actors.Want{})
		}
		r.IsOverAndGone(t, c.end)
		r.Withdraw(recipes.WhyReleased)
		r.IsOver(t, c.end)
		r.House.Close()
		opened, _, _ := r.Port.Counts()
		if left, _ := ctx.Functions(); opened != 0 && ctx.OnErr == nil || len(r.Port.Sent()) != 0 || len(left) != 0 {
			t.Errorf("the port was opened %d times, sent %v, and %d functions wait for the context; want nothing",
				opened, r.Port.Sent(), len(left))
		}
		expect(t, stream, Ended(c.end))
	})
}

// TestTheFirstWithdrawalCounts ends the acquisition twice in each stage, for both
// reasons. The first withdrawal counts.
func TestTheFirstWithdrawalCounts(t *testing.T) {
	hold := func(r *Rig) { r.Hold(); <-r.Granted() }
	for _, stage := range []struct {
		name    string
		granted bool
		before  func(r *Rig)
		after   func(r *Rig)
	}{
		{"without a session", false, func(*Rig) {}, func(*Rig) {}},
		{"creating", false, func(r *Rig) { r.Say(Opened) }, func(r *Rig) { r.Say(Created); r.Deleted() }},
		{"waiting", false, (*Rig).Queued, (*Rig).Deleted},
		{"Grant untaken", false, (*Rig).Hold, (*Rig).Deleted},
		{"Grant taken", true, hold, (*Rig).Deleted},
		{"suspended", true, func(r *Rig) { hold(r); r.Say(recipes.Suspended{}) }, (*Rig).Deleted},
		{"expired", true, hold, func(r *Rig) { r.Say(recipes.Expired{}) }},
	} {
		for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed} {
			t.Run(stage.name+", "+why.String(), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *Rig) {
					r.Begin(t, actors.Want{})
					stage.before(r)
					told := 0
					r.OnEnd(func(error) { told++ })
					r.Withdraw(why)
					r.IsNotHeld(t, "after Withdraw")
					eventstest.Expect(t, told == 1,
						"OnEnd was told %d times when Withdraw returned, want once", told)
					none(t, r.Granted(), "after Withdraw")
					r.Withdraw(recipes.WhyReleased)
					r.Withdraw(recipes.WhyClosed)
					stage.after(r)
					want := Ends(why, stage.granted, 0, nil)
					if stage.granted && why == recipes.WhyReleased {
						want = nil
					}
					r.IsOverAndGone(t, want)
					eventstest.Expect(t, told == 1, "in the end OnEnd was told %d times, want once", told)
				})
			})
		}
	}
}

// TestFailEndsAtOnce, even in a closed group. Fail changes nothing for a lock that was
// withdrawn before. In a closed coordinator, a feed can cause that: an acquisition joins
// the feed, and the feed is closed before the coordinator has refused the acquisition.
// The feed's reader receives the end.
func TestFailEndsAtOnce(t *testing.T) {
	type row struct {
		before func(r *Rig, feed *actors.Feed)
		end    error
		fed    bool
		said   bool // on the stream or the feed
	}
	withdraw := func(r *Rig, _ *actors.Feed) { r.Withdraw(recipes.WhyReleased) }
	withEach(t, map[string]row{
		"open":      {before: func(*Rig, *actors.Feed) {}, end: ErrNoAuth, said: true},
		"closed":    {before: func(r *Rig, _ *actors.Feed) { r.Shut() }, end: ErrNoAuth},
		"withdrawn": {before: withdraw, end: released, said: true},
		"by a feed": {before: func(r *Rig, feed *actors.Feed) {
			r.Shut()
			r.Join(feed)
			feed.Close()
		}, end: released, fed: true, said: true},
	}, func(t *testing.T, r *Rig, c row) {
		stream, feed := r.Stream.Subscribe(t.Context()), actors.NewFeed()
		var told []error
		r.OnEnd(func(err error) { told = append(told, err) })
		c.before(r, feed)
		r.Fail(ErrNoAuth)
		//nolint:errorlint // identity is meant
		eventstest.Expect(t, len(told) == 1 && (c.end == released || IsDone(r.Lock) && told[0] == c.end),
			"it is not over when Fail returns, or OnEnd was told %v, want %v once", told, c.end)
		r.IsOver(t, c.end)
		r.Withdraw(recipes.WhyReleased) // as callers defer it
		r.Withdraw(recipes.WhyClosed)
		r.Fail(ErrCause)
		r.IsOverAndGone(t, c.end)
		eventstest.Expect(t, len(told) == 1, "the functions of OnEnd are told %v, want one end", told)
		if c.fed {
			stream = feed.Events()
		}
		if c.said {
			expect(t, stream, Ended(c.end))
		}
		eventstest.Expect(t, !c.fed || isClosed(stream),
			"the channel of a closed feed is open after the last end")
	})
}

// TestOneWatcherForAContextHoweverManyLocks removes some of the locks before the context
// ends. These are not notified. The others are, with the context's cause.
func TestOneWatcherForAContextHoweverManyLocks(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		const locks = 9
		gone := []int{0, 4, 8, 3} // the first, the last, one that has been moved
		parent, cancel := context.WithCancelCause(t.Context())
		shared := NewCountingContext(parent)
		all := []*Rig{r}
		for range locks - 1 {
			all = append(all, r.Sibling())
		}
		for _, one := range all {
			one.Start(shared, 0, actors.Want{})
		}
		synctest.Wait()
		before, _ := shared.Functions()
		for _, i := range gone {
			all[i].Withdraw(recipes.WhyReleased)
		}
		synctest.Wait()
		ended, _ := shared.Functions()
		if len(before) != 1 || len(ended) != 1 {
			t.Fatalf("%d functions wait for the end of the context, and then %d, want 1", len(before), len(ended))
		}
		cancel(ErrCause)
		shared.Ended.Store(true)
		ended[0]()
		for i, one := range all {
			want := Ends(recipes.WhyContext, false, 0, ErrCause)
			if slices.Contains(gone, i) {
				want = released
			}
			one.IsOver(t, want)
		}
	})
}

// TestTheEndOfAContextComesLate: the last of its locks is gone, and another one was
// added. That one is notified once, by its own wait.
func TestTheEndOfAContextComesLate(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		ctx := NewCountingContext(t.Context())
		r.Start(ctx, 0, actors.Want{})
		late := r.ContextEnded()
		r.Withdraw(recipes.WhyReleased)
		r.IsOver(t, released)
		another, second, third := r.Sibling(), r.Sibling(), r.Sibling()
		another.Start(NewCountingContext(t.Context()), 0, actors.Want{})
		another.Withdraw(recipes.WhyReleased)
		another.IsOver(t, released)
		second.Start(ctx, 0, actors.Want{})
		synctest.Wait()
		late()
		second.GoesOn(t, false)
		third.Start(ctx, 0, actors.Want{})
		synctest.Wait()
		waiting, _ := ctx.Functions()
		if len(waiting) != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", len(waiting))
		}
		ctx.Ended.Store(true)
		waiting[0]()
		for _, one := range []*Rig{second, third} {
			one.IsOver(t, Ends(recipes.WhyContext, false, 0, context.Canceled))
		}
	})
}

// TestAFunctionHasReturnedWhenItsReleaseIsAskedFor, and not before: Close would end the
// session while the node still exists.
func TestAFunctionHasReturnedWhenItsReleaseIsAskedFor(t *testing.T) {
	withRig(t, func(t *testing.T, r *Rig) {
		r.Holds(t, actors.Want{Keep: true})
		r.Withdraw(recipes.WhyClosed)
		waited, early := r.Returned(), 0
		r.Port.Answer = func(e recipes.Effect) {
			if _, ok := e.(recipes.Delete); !ok {
				return
			}
			for _, returned := range []<-chan struct{}{waited, r.Returned()} {
				if _, told := Take(returned); told {
					early++
				}
			}
		}
		r.Withdraw(recipes.WhyReleased)
		synctest.Wait()
		_, told := Take(waited)
		eventstest.Expect(t, early == 0 && told, "told %d times before the request, then %v", early, told)
		<-r.Returned()
		r.Deleted()
	})
}
