package actors_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// outcome is what Wait returned.
type outcome struct {
	grant events.Grant
	held  bool
	err   error
}

// waiting calls Wait in a goroutine, and returns a channel for the outcome.
func waiting(ctx context.Context, r *actorstest.Rig) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		grant, held, err := r.Wait(ctx)
		c <- outcome{grant, held, err}
	}()
	synctest.Wait()
	return c
}

// said checks what Wait has returned by now.
func said(t *testing.T, when string, c <-chan outcome, want outcome) {
	t.Helper()
	synctest.Wait()
	if got, ok := actorstest.Take(c); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: Wait has returned: %t, %+v; want %+v", when, ok, got, want)
	}
}

var granted = outcome{actorstest.GrantOf(0), true, nil}

// TestWaitIsTheSameForEveryCaller, before or after the Grant, also with a context that
// has ended. The Grant is taken once.
func TestWaitIsTheSameForEveryCaller(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Begin(t, actors.Want{})
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(actorstest.ErrCause)
		var all [5]<-chan outcome
		for i := range all {
			all[i] = waiting(t.Context(), r)
		}
		said(t, "before the Grant, with a context that has ended", waiting(ended, r), outcome{err: actorstest.ErrCause})
		r.GoesOn(t, false)
		r.Hold()
		for _, c := range all {
			said(t, "asked before the Grant", c, granted)
		}
		r.HasNoGrant(t, "after Wait")
		said(t, "after the Grant", waiting(t.Context(), r), granted)
		said(t, "after the Grant, with a context that has ended", waiting(ended, r), granted)
		r.GoesOn(t, true)
		r.Releases(t)
	})
}

// TestWaitEndsWithDone: Wait says what Err says, and when Err says it. Later callers get the same, with any context.
func TestWaitEndsWithDone(t *testing.T) {
	refused := errors.New("refused")
	deleted := (*actorstest.Rig).Deleted
	for name, c := range map[string]struct {
		hold bool
		end  func(r *actorstest.Rig)
		want error
	}{
		"released":             {true, deleted, nil},
		"released as a waiter": {false, deleted, actorstest.Ends(recipes.WhyReleased, false, 0, nil)},
		"released, which is denied": {true, func(r *actorstest.Rig) { r.Refuse(recipes.OpDelete, refused) },
			actorstest.Ends(recipes.WhyRefused, true, 0, refused)},
	} {
		withRig(t, func(t *testing.T, r *actorstest.Rig) {
			r.Begin(t, actors.Want{})
			r.Queued()
			before := waiting(t.Context(), r)
			if c.hold {
				r.Say(actorstest.Ahead, actorstest.Claimed)
				said(t, name+": held", before, granted)
			}
			r.Withdraw(recipes.WhyReleased)
			between := waiting(t.Context(), r)
			if got, ok := actorstest.Take(between); ok {
				t.Errorf("%s: when the release is under way Wait has returned %+v, want it to wait", name, got)
			}
			c.end(r)
			if !c.hold {
				said(t, name+": asked before the release", before, outcome{err: c.want})
			}
			said(t, name+": asked when the release was under way", between, outcome{err: c.want})
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			said(t, name+": asked after the end", waiting(ended, r), outcome{err: c.want})
			r.IsOverAndGone(t, c.want)
		})
	}
}
