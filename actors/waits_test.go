package actors_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestOneWatcherForAContextHoweverManyLocks also lets some of the locks go before the
// context ends: they are not told, the others are, and with their cause.
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
			one.Start(shared, 0, recipes.Started{})
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

// TestTheEndOfAContextComesLate when the last of its locks is gone and another has been
// added: that one is told once, by a wait of its own.
func TestTheEndOfAContextComesLate(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		ctx := actorstest.NewCountingContext(t.Context())
		r.Start(ctx, 0, recipes.Started{})
		late := r.ContextEnded()
		r.Withdraw(recipes.WhyReleased)
		r.IsOver(t, actorstest.Ends(recipes.WhyReleased, false, 0, nil))
		second, third := r.Sibling(), r.Sibling()
		second.Start(ctx, 0, recipes.Started{})
		synctest.Wait()
		late()
		second.GoesOn(t, false)
		third.Start(ctx, 0, recipes.Started{})
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
