package actors_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

type outcome struct {
	grant events.Grant
	held  bool
	err   error
}

var granted = outcome{theGrant, true, nil}

// waiting calls Wait in a goroutine, and returns a channel for its outcome.
func waiting(ctx context.Context, r *Rig) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		grant, held, err := r.Wait(ctx)
		c <- outcome{grant, held, err}
	}()
	synctest.Wait()
	return c
}

// said checks what Wait has returned so far.
func said(t *testing.T, when string, c <-chan outcome, want outcome) {
	t.Helper()
	synctest.Wait()
	if got, ok := Take(c); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: Wait has returned: %t, %+v; want %+v", when, ok, got, want)
	}
}

// TestWaitIsTheSameForEveryCaller: calls before and after the Grant return the same, even
// if their context has ended. The Grant is taken once: by Wait, unless a reader of the
// channel already has it. Later readers do not get it.
func TestWaitIsTheSameForEveryCaller(t *testing.T) {
	withEach(t, map[string]func(t *testing.T, r *Rig){
		"no reader":   func(*testing.T, *Rig) {},
		"the channel": func(_ *testing.T, r *Rig) { go func() { <-r.Granted() }() },
		"the stream": func(t *testing.T, r *Rig) {
			stream := r.Stream.Subscribe(t.Context())
			go func() { <-stream }()
		},
	}, func(t *testing.T, r *Rig, read func(t *testing.T, r *Rig)) {
		read(t, r)
		r.Begin(t, actors.Want{})
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(ErrCause)
		var all [5]<-chan outcome
		for i := range all {
			all[i] = waiting(t.Context(), r)
		}
		said(t, "before the Grant, with a context that has ended", waiting(ended, r), outcome{err: ErrCause})
		r.GoesOn(t, false)
		r.Hold()
		for _, c := range all {
			said(t, "asked before the Grant", c, granted)
		}
		none(t, r.Granted(), "behind Wait")
		said(t, "behind the Grant", waiting(t.Context(), r), granted)
		said(t, "behind the Grant, with a context that has ended", waiting(ended, r), granted)
		r.GoesOn(t, true)
		r.Releases(t)
	})
}

// TestWaitEndsWithDone: Wait returns what Err returns, once Done is closed. Later callers
// get the same, with any context.
func TestWaitEndsWithDone(t *testing.T) {
	type row struct {
		hold bool
		end  func(r *Rig)
		want error
	}
	denied := func(r *Rig) { r.Refuse(recipes.OpDelete, ErrNoAuth) }
	withEach(t, map[string]row{
		"released":                  {true, (*Rig).Deleted, nil},
		"released, which is denied": {true, denied, Ends(recipes.WhyRefused, true, 0, ErrNoAuth)},
		"released as a waiter":      {false, (*Rig).Deleted, released},
	}, func(t *testing.T, r *Rig, c row) {
		r.Begin(t, actors.Want{})
		r.Queued()
		before := waiting(t.Context(), r)
		if c.hold {
			r.Say(Ahead, Claimed)
			said(t, "held", before, granted)
		}
		r.Withdraw(recipes.WhyReleased)
		between := waiting(t.Context(), r)
		none(t, between, "from Wait, when the release is under way,")
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
}

// TestWaitInsideAFunction does not wait for the end, because the end waits for the
// function.
func TestWaitInsideAFunction(t *testing.T) {
	type row struct {
		ends func(r *Rig)
		want error
	}
	lost := Ends(recipes.WhyLost, true, events.ReasonLeaseRanOut, nil)
	closed := Ends(recipes.WhyClosed, true, 0, nil)
	withEach(t, map[string]row{
		"a loss": {func(r *Rig) { r.Say(recipes.LeaseRanOut{}) }, lost},
		"Close":  {func(r *Rig) { r.Withdraw(recipes.WhyClosed) }, closed},
	}, func(t *testing.T, r *Rig, c row) {
		r.Holds(t, actors.Want{Keep: true})
		c.ends(r)
		said(t, "while the function runs", waiting(t.Context(), r), outcome{err: c.want})
		Take(r.Lost())
		r.Withdraw(recipes.WhyReleased)
		r.Deleted()
		said(t, "behind it", waiting(t.Context(), r), outcome{err: c.want})
		r.IsOver(t, c.want)
	})
}
