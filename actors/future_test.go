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
	"github.com/zkgrant/zkgrant/events/eventstest"
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

func silent(t *testing.T, when string, c <-chan outcome) {
	t.Helper()
	synctest.Wait()
	if got, ok := actorstest.Take(c); ok {
		t.Errorf("%s: Wait has returned %+v, want it to wait", when, got)
	}
}

var granted = outcome{actorstest.GrantOf(0), true, nil}

// TestWaitIsTheSameForEveryCaller, before or behind the Grant, also with a context that has ended. The Grant is taken once.
func TestWaitIsTheSameForEveryCaller(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		r := actorstest.NewRig(t)
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
		r.HasNoGrant(t, "behind Wait")
		said(t, "behind the Grant", waiting(t.Context(), r), granted)
		said(t, "behind the Grant, with a context that has ended", waiting(ended, r), granted)
		r.GoesOn(t, true)
		r.Releases(t)
	})
}

// TestWaitAfterAnotherReaderHasTheGrant: a reader of the channel or of the stream takes nothing from a caller of Wait.
func TestWaitAfterAnotherReaderHasTheGrant(t *testing.T) {
	readers := map[string]func(t *testing.T, r *actorstest.Rig){
		"the channel": func(t *testing.T, r *actorstest.Rig) { t.Helper(); go func() { <-r.Granted() }() },
		"the stream": func(t *testing.T, r *actorstest.Rig) {
			t.Helper()
			stream := r.Stream.Subscribe(t.Context())
			go func() { <-stream }()
		},
	}
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := actorstest.NewRig(t)
				read(t, r)
				r.Begin(t, actors.Want{})
				before := waiting(t.Context(), r)
				r.Hold()
				said(t, "asked before "+name+" had the Grant", before, granted)
				said(t, "asked behind that", waiting(t.Context(), r), granted)
				r.Withdraw(recipes.WhyReleased)
				r.Deleted()
			})
		})
	}
}

// TestWaitEndsWithDone: Wait says what Err says, and when Err says it. Later callers get the same, with any context.
func TestWaitEndsWithDone(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		hold bool
		end  func(r *actorstest.Rig)
		want error
	}{
		"released":                  {true, func(r *actorstest.Rig) { r.Deleted() }, nil},
		"released, which is denied": {true, func(r *actorstest.Rig) { r.Refuse(recipes.OpDelete, refused) }, actorstest.Ends(recipes.WhyRefused, true, 0, refused)},
		"released as a waiter":      {false, func(r *actorstest.Rig) { r.Deleted() }, actorstest.Ends(recipes.WhyReleased, false, 0, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := actorstest.NewRig(t)
				r.Begin(t, actors.Want{})
				r.Queued()
				before := waiting(t.Context(), r)
				if c.hold {
					r.Say(recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Older}, recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true})
					said(t, "held", before, granted)
					before = nil
				}
				r.Withdraw(recipes.WhyReleased)
				between := waiting(t.Context(), r)
				silent(t, "when the release is under way", between)
				c.end(r)
				if !c.hold {
					said(t, "asked before the release", before, outcome{err: c.want})
				}
				said(t, "asked when the release was under way", between, outcome{err: c.want})
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				said(t, "asked behind the end", waiting(ended, r), outcome{err: c.want})
				r.IsOver(t, c.want)
			})
		})
	}
}

// TestWaitInsideAFunction does not wait for the end, because the end waits for the function.
func TestWaitInsideAFunction(t *testing.T) {
	for name, c := range map[string]struct {
		ends func(r *actorstest.Rig)
		want error
	}{
		"a loss": {
			func(r *actorstest.Rig) { r.Say(recipes.LeaseRanOut{}) },
			actorstest.Ends(recipes.WhyLost, true, events.ReasonLeaseRanOut, nil),
		},
		"Close": {func(r *actorstest.Rig) { r.Withdraw(recipes.WhyClosed) }, actorstest.Ends(recipes.WhyClosed, true, 0, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				r := actorstest.NewRig(t)
				r.Holds(t, actors.Want{Keep: true})
				c.ends(r)
				said(t, "while the function runs", waiting(t.Context(), r), outcome{err: c.want})
				actorstest.Take(r.Lost())
				r.Withdraw(recipes.WhyReleased)
				r.Deleted()
				said(t, "behind it", waiting(t.Context(), r), outcome{err: c.want})
				r.IsOver(t, c.want)
			})
		})
	}
}
