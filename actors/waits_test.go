package actors_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestOneWatcherForAContextHoweverManyLocks also lets some of the locks go before the
// context ends: they are not told, the others are, and with their cause.
func TestOneWatcherForAContextHoweverManyLocks(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		const locks = 9
		r := newRig(t)
		cause := errors.New("enough")
		parent, cancel := context.WithCancelCause(t.Context())
		shared := newCountingContext(parent)
		all := []*rig{r}
		for range locks - 1 {
			all = append(all, r.sibling())
		}
		for _, one := range all {
			one.Start(shared, 0, recipes.Started{})
		}
		synctest.Wait()
		if n := len(shared.functions()); n != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", n)
		}
		for _, i := range []int{0, 4, 8, 3} { // the first, the last, one that has been moved
			all[i].Withdraw(recipes.WhyReleased)
		}
		synctest.Wait()
		ended := shared.functions()
		if len(ended) != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", len(ended))
		}
		cancel(cause)
		shared.ended.Store(true)
		ended[0]()
		synctest.Wait()
		for i, one := range all {
			want := ends(recipes.WhyContext, false, 0, cause)
			if i == 0 || i == 3 || i == 4 || i == 8 {
				want = ends(recipes.WhyReleased, false, 0, nil)
			}
			one.isOver(t, want)
		}
	})
}

// TestTheEndOfAContextComesLate when the last of its locks is gone and another has been
// added: that one is told once, by a wait of its own.
func TestTheEndOfAContextComesLate(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t)
		ctx := newCountingContext(t.Context())
		r.Start(ctx, 0, recipes.Started{})
		late := r.ContextEnded()
		r.Withdraw(recipes.WhyReleased)
		r.isOver(t, ends(recipes.WhyReleased, false, 0, nil))
		second, third := r.sibling(), r.sibling()
		second.Start(ctx, 0, recipes.Started{})
		synctest.Wait()
		late()
		second.goesOn(t, false)
		third.Start(ctx, 0, recipes.Started{})
		synctest.Wait()
		waiting := ctx.functions()
		if len(waiting) != 1 {
			t.Fatalf("%d functions wait for the end of the context, want 1", len(waiting))
		}
		ctx.ended.Store(true)
		waiting[0]()
		second.isOver(t, ends(recipes.WhyContext, false, 0, context.Canceled))
		third.isOver(t, ends(recipes.WhyContext, false, 0, context.Canceled))
	})
}
