package actors_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestAnInnerLockThatFailsLeaves: it was admitted and never started.
func TestAnInnerLockThatFailsLeaves(t *testing.T) {
	for name, outerLeft := range map[string]bool{"outer holds": false, "outer has left": true} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				p := newParty(t, r, actors.Want{})
				g := p.admits(r.Lock, 11)
				if outerLeft {
					r.Withdraw(recipes.WhyReleased)
					p.wantDeletes(0, "an inner lock is admitted")
				}
				stream := r.Stream.Subscribe(t.Context())
				g.Fail(actorstest.ErrCause)
				p.wantDone(g, true, "failed")
				expect(t, stream, events.Ended{ID: 11, Path: "/locks/a", Err: actorstest.ErrCause})
				if !outerLeft {
					p.wantDeletes(0, "the outer lock holds")
					r.Withdraw(recipes.WhyReleased)
				}
				p.wantDeletes(1, "all have left")
				r.Deleted()
				expect(t, stream, map[bool][]events.Event{false: {events.Ended{ID: 7, Path: "/locks/a"}}}[outerLeft]...)
				r.WantGone(t, 1)
				if n := p.gone[g].Load(); n != 1 {
					t.Errorf("Gone was called %d times, want once", n)
				}
			})
		})
	}
}

// TestAnInnerLockThatFailsHasNoLoss, though the lock is lost before it has left.
func TestAnInnerLockThatFailsHasNoLoss(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		g := p.admits(r.Lock, 11)
		g.OnEnd(func(error) { r.Port.Say(recipes.LeaseRanOut{}) }) // called by Fail, when the state has changed
		g.Fail(actorstest.ErrCause)
		p.wantDeletes(1, "all have left")
		if l, told := actorstest.Take(g.Lost()); told || g.Err() != actorstest.ErrCause { //nolint:errorlint // identity is meant
			t.Errorf("it is told of %+v (%v), and has ended with %v; want no loss, and %v", l, told, g.Err(), actorstest.ErrCause)
		}
		r.Deleted()
		r.WantGone(t, 1)
	})
}

// TestADeadlineBoundsAnInnerLockWithoutAGrant, though no other lock holds: the session is asked to tell when it comes.
func TestADeadlineBoundsAnInnerLockWithoutAGrant(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		g := p.admits(r.Lock, 11)
		r.Withdraw(recipes.WhyReleased)
		wish := recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(time.Now().Add(time.Minute))}
		r.Say(wish)
		if sent := r.Port.Sent(); sent[len(sent)-1] != (recipes.Revoke{By: wish.By}) {
			t.Errorf("the last request is %+v, want the deadline", sent[len(sent)-1])
		}
		g.Start(t.Context(), 0, actors.Want{})
		actorstest.MustTake(t, g.Granted())
		actorstest.MustTake(t, g.Revoked())
		r.Say(recipes.Overdue{By: wish.By})
		actorstest.MustTake(t, g.Lost())
		r.Deleted()
		r.WantGone(t, 1)
	})
}

// TestAnInnerLockIsBoundByItsContext: if that has ended before, the inner lock gets no Grant, and leaves.
func TestAnInnerLockIsBoundByItsContext(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(actorstest.ErrCause)
		g := p.admits(r.Lock, 11)
		g.Start(ended, time.Minute, actors.Want{})
		p.wantDone(g, true, "its context had ended")
		if want := actorstest.Ends(recipes.WhyContext, false, 0, actorstest.ErrCause); g.Err() != want { //nolint:errorlint // identity is meant
			t.Errorf("it has ended with %v, want %v", g.Err(), want)
		}
		p.wantDeletes(0, "the outer lock holds")
		r.Releases(t)
	})
}

// TestNothingIsKeptOfInnerLocksThatHaveLeft: a node can be handed on from one inner lock to
// the next for ever.
func TestNothingIsKeptOfInnerLocksThatHaveLeft(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		var collected atomic.Int32
		last := r.Lock
		const inners = 100
		for id := range uint64(inners) {
			next := p.enters(last, 100+id, actors.Want{})
			last.Withdraw(recipes.WhyReleased)
			delete(p.gone, last)
			runtime.AddCleanup(next, func(*atomic.Int32) { collected.Add(1) }, &collected)
			last = next
		}
		p.wantDeletes(0, "the last one holds")
		for n := 0; collected.Load() < inners-10 && n < 100; n++ {
			runtime.GC()
		}
		if n := collected.Load(); n < inners-10 {
			t.Errorf("%d of %d inner locks are collected when the last one holds", n, inners)
		}
		last.Withdraw(recipes.WhyReleased)
		r.Deleted()
		r.WantGone(t, 1)
	})
}

// TestInnerLocksOfManyGoroutines come, go and are cut off while the outer lock is released, or loses the lock. Each of them ends, and the node goes
// once.
func TestInnerLocksOfManyGoroutines(t *testing.T) {
	for round := range 200 {
		withRig(t, func(t *testing.T, r *actorstest.Rig) {
			p := newParty(t, r, actors.Want{})
			var mu sync.Mutex
			all := []*actors.Lock{r.Lock}
			var wg sync.WaitGroup
			for id := range uint64(8) {
				wg.Go(func() {
					by := r.Lock
					for n := range uint64(4) {
						g := by.Admit(actors.Config{ID: 100 + 10*id + n, Path: "/locks/a", Owner: actorstest.NewOwner(&atomic.Int32{}), House: r.House})
						if g == nil {
							return
						}
						mu.Lock()
						all = append(all, g)
						mu.Unlock()
						if id == 3 {
							g.Fail(actorstest.ErrCause)
							continue
						}
						g.Start(t.Context(), 0, actors.Want{Keep: id%2 == 0})
						_, _, _ = g.Wait(t.Context())
						if by != r.Lock {
							by.Withdraw(recipes.WhyReleased)
						}
						by = g
					}
				})
			}
			wg.Go(func() {
				if round%2 == 0 {
					r.Port.Say(recipes.LeaseRanOut{})
				}
				r.Withdraw(recipes.WhyReleased)
			})
			wg.Wait()
			for _, g := range all {
				g.Withdraw(recipes.WhyReleased)
			}
			p.wantDeletes(1, "all have left")
			r.Deleted()
			for _, g := range all {
				p.wantDone(g, true, "all have left")
			}
			r.WantGone(t, 1)
		})
	}
}
