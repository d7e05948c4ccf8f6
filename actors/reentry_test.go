package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// These tests are about re-entry: which locks share a node, which are notified, and when
// the node is deleted.

// party is a lock and the locks that have re-entered it.
type party struct {
	*Rig

	t      *testing.T
	inners map[*actors.Lock]*owner
}

// newParty returns a lock that is held; claimed answers its claim.
func newParty(t *testing.T, r *Rig, want actors.Want, claimed recipes.Input) *party {
	t.Helper()
	r.Begin(t, want)
	r.Say(Opened, Created, Listed, claimed)
	MustTake(t, r.Granted())
	return &party{Rig: r, t: t, inners: map[*actors.Lock]*owner{}}
}

// withParty runs a test with a lock that is held, and checks that its node is reported
// gone once.
func withParty(t *testing.T, test func(t *testing.T, p *party)) {
	t.Helper()
	withRig(t, func(t *testing.T, r *Rig) {
		p := newParty(t, r, actors.Want{}, Claimed)
		test(t, p)
		p.WantGone(t, 1)
		for l, o := range p.inners {
			gone := o.gone.Load()
			eventstest.Expect(t, gone == 1, "Gone of %p was called %d times, want once", l, gone)
		}
	})
}

// inner returns an inner lock that is not started, or nil.
func (r *Rig) inner(by *actors.Lock, id uint64, o *owner) *actors.Lock {
	return by.Admit(actors.Config{ID: id, Path: "/locks/a", Owner: o, House: r.House})
}

func (p *party) admits(by *actors.Lock, id uint64) *actors.Lock {
	o := &owner{}
	g := p.inner(by, id, o)
	if g != nil {
		p.inners[g] = o
	}
	return g
}

// admitsNone checks that no further inner lock is admitted.
func (p *party) admitsNone(by *actors.Lock, when string) {
	p.t.Helper()
	if p.admits(by, 99) != nil {
		p.t.Errorf("%s: an inner lock is admitted, want none", when)
	}
}

func (p *party) enters(by *actors.Lock, id uint64, asks actors.Want) *actors.Lock {
	p.t.Helper()
	g := p.admits(by, id)
	if g == nil {
		p.t.Fatalf("inner lock %d is not admitted", id)
	}
	g.Start(p.t.Context(), 0, asks)
	synctest.Wait()
	got := MustTake(p.t, g.Granted())
	if got.ID != id || got.Node != theGrant.Node || got.Token != Token || got.Session != Session {
		p.t.Errorf("inner lock %d has %+v, want the outer lock's node", id, got)
	}
	return g
}

// leave releases the locks, and then the node is deleted.
func (p *party) leave(locks ...*actors.Lock) {
	for _, l := range locks {
		l.Withdraw(recipes.WhyReleased)
	}
	p.Deleted()
}

func (p *party) wantDeletes(want int, when string) {
	p.t.Helper()
	synctest.Wait()
	if n := len(sent[recipes.Delete](p.Port)); n != want {
		p.t.Fatalf("%s: %d requests to delete the node, want %d", when, n, want)
	}
}

func (p *party) wantDone(l *actors.Lock, want bool, when string) {
	p.t.Helper()
	synctest.Wait()
	if IsDone(l) != want {
		p.t.Fatalf("%s: done is %v, want %v", when, !want, want)
	}
}

// wantEnd checks that the lock has ended with the error, and without a report of a loss.
func (p *party) wantEnd(l *actors.Lock, want error, when string) {
	p.t.Helper()
	p.wantDone(l, true, when)
	if lost, told := Take(l.Lost()); told || l.Err() != want { //nolint:errorlint // identity is meant
		p.t.Errorf("%s: told of %+v (%v), and ended with %v; want no loss, and %v", when, lost, told, l.Err(), want)
	}
}

func (p *party) askedBack(in time.Duration) recipes.RevocationRequested {
	by := actors.MomentOf(time.Now().Add(in))
	revocation := recipes.RevocationRequested{Epoch: Epoch, Node: Own, By: by}
	p.Say(revocation)
	return revocation
}

// TestTheNodeGoesWithTheLast, in every order in which three can leave, whichever lock the
// third has re-entered. The first two are over at once. The last is over when the node is
// gone.
func TestTheNodeGoesWithTheLast(t *testing.T) {
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for by := range 2 {
		for _, order := range orders {
			t.Run(fmt.Sprint(by, order), func(t *testing.T) {
				withParty(t, func(t *testing.T, p *party) {
					all := [3]*actors.Lock{p.Lock}
					all[1] = p.enters(p.Lock, 11, actors.Want{})
					all[2] = p.enters(all[by], 12, actors.Want{})
					for i, who := range order {
						p.wantDeletes(0, "before the last has left")
						all[who].Withdraw(recipes.WhyReleased)
						all[who].Withdraw(recipes.WhyReleased) // may be called again
						p.wantDone(all[who], i < 2, "released")
						p.WantGone(t, 0)
					}
					p.wantDeletes(1, "the last has left")
					p.admitsNone(all[order[2]], "all have left")
					p.Deleted()
					for _, l := range all {
						p.wantEnd(l, nil, "the node is gone")
						l.Withdraw(recipes.WhyReleased)
					}
					p.wantDeletes(1, "released again")
				})
			})
		}
	}
}

// TestALossIsToldToAllThatHaveEntered, whatever its reason, and none is admitted after
// it. An inner lock that is not started yet gets the loss when it starts, instead of its
// Grant. No function runs, so the node is then deleted.
func TestALossIsToldToAllThatHaveEntered(t *testing.T) {
	for reason, news := range losses {
		for _, outerLeft := range []bool{false, true} {
			t.Run(fmt.Sprint(reason, outerLeft), func(t *testing.T) {
				withParty(t, func(t *testing.T, p *party) {
					one, two := p.enters(p.Lock, 11, actors.Want{}), p.enters(p.Lock, 12, actors.Want{})
					early := p.admits(one, 13) // it starts only after the loss
					if outerLeft {
						p.Withdraw(recipes.WhyReleased)
					}
					p.Say(news)
					for _, l := range []*actors.Lock{one, two} {
						eventstest.Expect(t, !l.Holding() && !l.Valid(), "an inner lock holds after the loss")
						MustTake(t, l.Lost())
						p.wantDone(l, true, "lost")
					}
					if _, told := Take(p.Lost()); told == outerLeft {
						t.Errorf("the outer lock is told of the loss: %v, want %v", told, !outerLeft)
					}
					p.wantDone(early, false, "it is not started")
					p.wantDeletes(0, "it has not left")
					early.Start(t.Context(), 0, actors.Want{})
					p.wantEnd(early, Ends(recipes.WhyLost, false, reason, nil), "lost before its Grant")
					none(t, early.Granted(), "after the loss")
					p.admitsNone(one, "after the loss")
					if reason == events.ReasonLeaseRanOut {
						p.wantDeletes(1, "lost")
						p.Deleted()
					}
				})
			})
		}
	}
}

// TestAFunctionOfAnInnerLockKeepsTheNode after a loss, although no function runs under
// the outer lock. Meanwhile, none is admitted.
func TestAFunctionOfAnInnerLockKeepsTheNode(t *testing.T) {
	withParty(t, func(t *testing.T, p *party) {
		function := p.enters(p.Lock, 11, actors.Want{Keep: true})
		p.Say(recipes.LeaseRanOut{})
		p.wantDone(p.Lock, true, "the outer lock has lost")
		p.wantDone(function, false, "its function runs")
		p.wantDeletes(0, "a function runs")
		p.admitsNone(function, "after the loss")
		function.Withdraw(recipes.WhyReleased)
		p.wantDeletes(1, "the function has ended")
		p.wantDone(function, false, "the node is still there")
		p.Deleted()
		p.wantDone(function, true, "the node is gone")
	})
}

// TestARevocationIsToldToAllThatHaveEntered: a revocation request reaches all of them,
// and with its Grant also one that enters later, even when the outer lock has left. Its
// deadline bounds Valid. The session's timer is set once.
func TestARevocationIsToldToAllThatHaveEntered(t *testing.T) {
	withParty(t, func(t *testing.T, p *party) {
		one := p.enters(p.Lock, 11, actors.Want{})
		early := p.admits(p.Lock, 12)
		p.Withdraw(recipes.WhyReleased)
		due := time.Now().Add(time.Minute)
		p.askedBack(time.Minute)
		MustTake(t, one.Revoked())
		none(t, early.Revoked(), "without a Grant")
		early.Start(t.Context(), 0, actors.Want{})
		late := p.enters(one, 13, actors.Want{})
		for _, l := range []*actors.Lock{early, late} {
			if revocation := MustTake(t, l.Revoked()); !revocation.Deadline.Equal(due) || !l.Deadline().Equal(due) {
				t.Errorf("asked for by %v, valid until %v; want both %v", revocation.Deadline, l.Deadline(), due)
			}
		}
		asked := len(sent[recipes.Revoke](p.Port))
		eventstest.Expect(t, asked == 1,
			"the session was asked to tell of the deadline %d times, want once", asked)
		p.leave(one, early, late)
	})
}

// TestInnerLocksAreAskedFirst: a revocation request reaches the outer lock after the
// inner ones.
func TestInnerLocksAreAskedFirst(t *testing.T) {
	withParty(t, func(t *testing.T, p *party) {
		one := p.enters(p.Lock, 11, actors.Want{})
		two := p.enters(one, 12, actors.Want{})
		stream := p.Rig.Stream.Subscribe(t.Context())
		p.askedBack(time.Minute)
		for _, want := range []uint64{11, 12, 7} {
			if ev, asked := next(stream).(events.Revoked); !asked || ev.ID != want {
				t.Fatalf("the next revocation is %+v (%v), want that for %d", ev, asked, want)
			}
		}
		p.leave(p.Lock, one, two)
	})
}

// TestADeadlineBoundsAnInnerLockWithoutAGrant, even if no other lock holds: the session's
// timer is set.
func TestADeadlineBoundsAnInnerLockWithoutAGrant(t *testing.T) {
	withParty(t, func(t *testing.T, p *party) {
		g := p.admits(p.Lock, 11)
		p.Withdraw(recipes.WhyReleased)
		revocation := p.askedBack(time.Minute)
		var want recipes.Effect = recipes.Revoke{By: revocation.By}
		eventstest.Equal(t, p.Port.Last(), want, "the last request")
		g.Start(t.Context(), 0, actors.Want{})
		MustTake(t, g.Granted())
		MustTake(t, g.Revoked())
		p.Say(recipes.Overdue{By: revocation.By})
		MustTake(t, g.Lost())
		p.Deleted()
	})
}

func TestTheLastIsToldThatTheReleaseWasRefused(t *testing.T) {
	for _, outerIsLast := range []bool{false, true} {
		withParty(t, func(t *testing.T, p *party) {
			first, last := p.Lock, p.enters(p.Lock, 11, actors.Want{})
			if outerIsLast {
				first, last = last, first
			}
			first.Withdraw(recipes.WhyReleased)
			last.Withdraw(recipes.WhyReleased)
			synctest.Wait()
			p.Refuse(recipes.OpDelete, ErrNoAuth)
			p.wantEnd(last, Ends(recipes.WhyRefused, true, 0, ErrNoAuth), "the last")
			p.wantEnd(first, nil, "the first")
		})
	}
}

// TestTheRecordGoesIfAllHaveReleased: the last holder removes it, and Close waits only
// for that one; see [recipes.Share]. Each caller gets its own end. Callers that re-enter
// the lock also learn of the earlier crash.
func TestTheRecordGoesIfAllHaveReleased(t *testing.T) {
	for _, why := range []recipes.Why{recipes.WhyReleased, recipes.WhyClosed, recipes.WhyPanicked} {
		for _, outerIsLast := range []bool{false, true} {
			t.Run(fmt.Sprint(why, outerIsLast), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *Rig) {
					claimed := Recorded
					claimed.Abandoned = &events.Abandoned{Node: "before", Token: 3}
					p := newParty(t, r, actors.Want{Detect: true}, claimed)
					first, last := r.Lock, p.admits(r.Lock, 11)
					last.Start(t.Context(), 0, actors.Want{Detect: true})
					if grant := MustTake(t, last.Granted()); grant.Abandoned != claimed.Abandoned {
						t.Errorf("the inner lock is told of %+v, want %+v", grant.Abandoned, claimed.Abandoned)
					}
					if outerIsLast {
						first, last = last, first
					}
					first.Withdraw(why)
					_, gone := Take(first.Cleared())
					eventstest.Expect(t, gone, "the first has left, and is to be waited for")
					last.Withdraw(recipes.WhyReleased)
					cleared := last.Cleared()
					synctest.Wait()
					deletes := []recipes.Delete{{Epoch: Epoch, Node: Own, Clean: why == recipes.WhyReleased}}
					eventstest.Equal(t, sent[recipes.Delete](r.Port), deletes, "the record goes with it")
					none(t, cleared, "the last is to be waited for, as the record is still there:")
					r.Deleted()
					<-cleared
					p.wantEnd(last, nil, "the last")
					eventstest.Expect(t, (first.Err() == nil) == (why == recipes.WhyReleased),
						"%v: the first has ended with %v", why, first.Err())
				})
			})
		}
	}
}

// TestNoLockIsEnteredAfterTheEndOfTheLease, even if that was not noticed yet, nor after
// the deadline of a revocation. A lock that is released or waits admits none either.
func TestNoLockIsEnteredAfterTheEndOfTheLease(t *testing.T) {
	for name, ends := range map[string]func(p *party){
		"lease":    func(*party) { time.Sleep(time.Hour) },
		"deadline": func(p *party) { p.askedBack(time.Minute); time.Sleep(time.Minute) },
		"released": func(p *party) { p.Withdraw(recipes.WhyReleased) },
	} {
		withParty(t, func(_ *testing.T, p *party) {
			ends(p)
			p.admitsNone(p.Lock, name)
			p.Withdraw(recipes.WhyReleased)
			p.Say(recipes.LeaseRanOut{})
			p.Deleted()
		})
	}
	withRig(t, func(t *testing.T, r *Rig) {
		r.Begin(t, actors.Want{})
		r.Queued()
		(&party{Rig: r, t: t}).admitsNone(r.Lock, "waiting")
		r.Withdraw(recipes.WhyReleased)
		r.Deleted()
	})
}

// TestNoGrantIsTakenAfterALoss: when the first holder learns of the loss, untaken Grants
// of the others have been taken back.
func TestNoGrantIsTakenAfterALoss(t *testing.T) {
	withParty(t, func(t *testing.T, p *party) {
		inner := p.admits(p.Lock, 11)
		inner.Start(t.Context(), 0, actors.Want{})
		synctest.Wait()
		if !inner.Holding() {
			t.Fatal("the inner lock has no Grant")
		}
		heard := false
		p.OnEnd(func(error) {
			heard = true
			eventstest.Expect(t, !inner.Holding(), "after the loss the inner lock holds")
			none(t, inner.Granted(), "after the loss")
		})
		p.Say(recipes.LeaseRanOut{})
		MustTake(t, p.Lost())
		eventstest.Expect(t, heard, "the outer lock was not told")
		none(t, inner.Lost(), "without a Grant")
		p.Deleted()
		synctest.Wait()
	})
}

// TestAnInnerLockThatFailsLeaves: it was admitted and never started, or its context had
// ended before. It reports no loss, even if the lock is lost before it has left.
func TestAnInnerLockThatFailsLeaves(t *testing.T) {
	for name, c := range map[string]struct{ outerLeft, lost, bound bool }{
		"outer holds": {}, "outer has left": {outerLeft: true}, "lost": {lost: true}, "context ended": {bound: true},
	} {
		t.Run(name, func(t *testing.T) {
			withParty(t, func(t *testing.T, p *party) {
				g := p.admits(p.Lock, 11)
				if c.outerLeft {
					p.Withdraw(recipes.WhyReleased)
					p.wantDeletes(0, "an inner lock is admitted")
				}
				if c.lost {
					g.OnEnd(func(error) { p.Port.Say(recipes.LeaseRanOut{}) }) // Fail calls it, after the state has changed
				}
				stream, end := p.Rig.Stream.Subscribe(t.Context()), ErrCause
				if c.bound {
					ended, cancel := context.WithCancelCause(t.Context())
					cancel(ErrCause)
					g.Start(ended, time.Minute, actors.Want{})
					end = Ends(recipes.WhyContext, false, 0, ErrCause)
				} else {
					g.Fail(ErrCause)
				}
				p.wantEnd(g, end, "failed")
				if !c.lost {
					expect(t, stream, events.Ended{ID: 11, Path: "/locks/a", Err: end})
				}
				outerHolds := !c.outerLeft && !c.lost
				if outerHolds {
					p.wantDeletes(0, "the outer lock holds")
					p.Withdraw(recipes.WhyReleased)
				}
				p.wantDeletes(1, "all have left")
				p.Deleted()
				switch {
				case outerHolds:
					expect(t, stream, Ended(nil))
				case !c.lost:
					expect(t, stream)
				}
			})
		})
	}
}

// TestNothingIsKeptOfInnerLocksThatHaveLeft: a node can be passed from one inner lock to
// the next forever.
func TestNothingIsKeptOfInnerLocksThatHaveLeft(t *testing.T) {
	withParty(t, func(t *testing.T, p *party) {
		var collected atomic.Int32
		const inners = 100
		last := p.Lock
		for id := range uint64(inners) {
			next := p.enters(last, 100+id, actors.Want{})
			last.Withdraw(recipes.WhyReleased)
			delete(p.inners, last)
			runtime.AddCleanup(next, func(*atomic.Int32) { collected.Add(1) }, &collected)
			last = next
		}
		p.wantDeletes(0, "the last one holds")
		for n := 0; collected.Load() < inners-10 && n < 100; n++ {
			runtime.GC()
		}
		eventstest.Expect(t, collected.Load() >= inners-10,
			"%d of %d inner locks are collected when the last one holds", collected.Load(), inners)
		last.Withdraw(recipes.WhyReleased)
		p.Deleted()
	})
}

// TestInnerLocksOfManyGoroutines: they come, go and fail while the outer lock is released
// or lost. Each of them ends, and the node is deleted once.
func TestInnerLocksOfManyGoroutines(t *testing.T) {
	for round := range 200 {
		withRig(t, func(t *testing.T, r *Rig) {
			p := newParty(t, r, actors.Want{}, Claimed)
			var mu sync.Mutex
			all := []*actors.Lock{r.Lock}
			var wg sync.WaitGroup
			for id := range uint64(8) {
				wg.Go(func() {
					by := r.Lock
					for n := range uint64(4) {
						g := r.inner(by, 100+10*id+n, &owner{})
						if g == nil {
							return
						}
						mu.Lock()
						all = append(all, g)
						mu.Unlock()
						if id == 3 {
							g.Fail(ErrCause)
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
