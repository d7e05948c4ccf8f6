package actors_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// A lock is entered again: which locks have its node, which are told, and when the node goes.

// party is a lock and those that have entered it again.
type party struct {
	*actorstest.Rig

	t    *testing.T
	gone map[*actors.Lock]*atomic.Int32
}

func newParty(t *testing.T, r *actorstest.Rig, want actors.Want) *party {
	t.Helper()
	r.Holds(t, want)
	return &party{Rig: r, t: t, gone: map[*actors.Lock]*atomic.Int32{}}
}

// newRecordedParty is newParty for a lock with a record.
func newRecordedParty(t *testing.T, r *actorstest.Rig) *party {
	t.Helper()
	r.Begin(t, actors.Want{Detect: true})
	r.Say(actorstest.Opened, actorstest.Created, actorstest.Listed, recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true, Recorded: true})
	actorstest.MustTake(t, r.Granted())
	return &party{Rig: r, t: t, gone: map[*actors.Lock]*atomic.Int32{}}
}

// admits returns an inner lock of the lock that is not started, or nil.
func (p *party) admits(by *actors.Lock, id uint64) *actors.Lock {
	gone := &atomic.Int32{}
	g := by.Admit(actors.Config{ID: id, Path: "/locks/a", Owner: actorstest.NewOwner(gone), House: p.House})
	if g != nil {
		p.gone[g] = gone
	}
	return g
}

// enters returns an inner lock that has its Grant.
func (p *party) enters(by *actors.Lock, id uint64, asks actors.Want) *actors.Lock {
	p.t.Helper()
	g := p.admits(by, id)
	if g == nil {
		p.t.Fatalf("inner lock %d is not admitted", id)
	}
	g.Start(p.t.Context(), 0, asks)
	synctest.Wait()
	want, got := actorstest.GrantOf(0), actorstest.MustTake(p.t, g.Granted())
	if got.ID != id || got.Node != want.Node || got.Token != want.Token || got.Session != want.Session {
		p.t.Errorf("inner lock %d has %+v, want the outer lock's node", id, got)
	}
	return g
}

// deletes counts the requests for the node to go.
func (p *party) deletes() (n int, last recipes.Delete) {
	for _, e := range p.Port.Sent() {
		if d, ok := e.(recipes.Delete); ok {
			n, last = n+1, d
		}
	}
	return n, last
}

// wantDeletes checks how many requests there were for the node to go.
func (p *party) wantDeletes(want int, when string) {
	p.t.Helper()
	synctest.Wait()
	if n, _ := p.deletes(); n != want {
		p.t.Fatalf("%s: %d requests to delete the node, want %d", when, n, want)
	}
}

func (p *party) wantDone(l *actors.Lock, want bool, when string) {
	p.t.Helper()
	synctest.Wait()
	if actorstest.IsDone(l) != want {
		p.t.Fatalf("%s: done is %v, want %v", when, !want, want)
	}
}

// TestEnteringAgainTakesNoRequest, neither to get in nor to get out.
func TestEnteringAgainTakesNoRequest(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		before := len(r.Port.Sent())
		by := r.Lock
		for id := uint64(10); id < 13; id++ {
			by = p.enters(by, id, actors.Want{})
			if !by.Valid() || by.Deadline() != r.Deadline() {
				t.Errorf("inner lock %d is valid %v until %v, want it until %v", id, by.Valid(), by.Deadline(), r.Deadline())
			}
		}
		by.Withdraw(recipes.WhyReleased)
		p.wantDone(by, true, "released")
		if n := len(r.Port.Sent()) - before; n != 0 || by.Err() != nil || p.gone[by].Load() != 1 {
			t.Errorf("%d requests, err %v, Gone %d times; want no request, no error, and once", n, by.Err(), p.gone[by].Load())
		}
	})
}

// TestTheNodeGoesWithTheLast, in every order in which three can leave, whichever lock the third has entered with. All others are over
// at once. The last is over when the node is gone.
func TestTheNodeGoesWithTheLast(t *testing.T) {
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for by := range 2 {
		for _, order := range orders {
			t.Run(fmt.Sprint(by, order), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *actorstest.Rig) {
					p := newParty(t, r, actors.Want{})
					all := [3]*actors.Lock{r.Lock}
					all[1] = p.enters(r.Lock, 11, actors.Want{})
					all[2] = p.enters(all[by], 12, actors.Want{})
					for i, who := range order {
						p.wantDeletes(0, "before the last has left")
						all[who].Withdraw(recipes.WhyReleased)
						all[who].Withdraw(recipes.WhyReleased) // may be called again
						p.wantDone(all[who], i < 2, "released")
						r.WantGone(t, 0)
					}
					p.wantDeletes(1, "the last has left")
					if g := p.admits(all[order[2]], 13); g != nil {
						t.Error("an inner lock is admitted to a lock that all have left")
					}
					r.Deleted()
					for _, l := range all {
						p.wantDone(l, true, "the node is gone")
						if l.Err() != nil {
							t.Errorf("it has ended with %v, want no error", l.Err())
						}
						l.Withdraw(recipes.WhyReleased)
					}
					p.wantDeletes(1, "released again")
					r.WantGone(t, 1)
					for l, gone := range p.gone {
						if gone.Load() != 1 {
							t.Errorf("Gone of %p was called %d times, want once", l, gone.Load())
						}
					}
				})
			})
		}
	}
}

// TestALossIsToldToAllThatHaveEntered, however it comes, and none is admitted behind it. An inner lock that is not started yet hears of
// it when it is, in the place of its Grant: nothing happens to it before. No function runs, so the node goes then.
func TestALossIsToldToAllThatHaveEntered(t *testing.T) {
	reasons := map[string]events.Reason{
		"lease ran out": events.ReasonLeaseRanOut, "node removed": events.ReasonNodeRemoved, "expired": events.ReasonSessionExpired,
	}
	for name, news := range map[string]recipes.Input{
		"lease ran out": recipes.LeaseRanOut{},
		"node removed":  recipes.Gone{Epoch: actorstest.Epoch, Node: actorstest.Own.Text},
		"expired":       recipes.Expired{},
	} {
		for _, outerLeft := range []bool{false, true} {
			t.Run(fmt.Sprint(name, outerLeft), func(t *testing.T) {
				withRig(t, func(t *testing.T, r *actorstest.Rig) {
					p := newParty(t, r, actors.Want{})
					one, two := p.enters(r.Lock, 11, actors.Want{}), p.enters(r.Lock, 12, actors.Want{})
					early := p.admits(one, 13) // it is not started before the loss
					if outerLeft {
						r.Withdraw(recipes.WhyReleased)
					}
					r.Say(news)
					for _, l := range []*actors.Lock{one, two} {
						if l.Holding() || l.Valid() {
							t.Errorf("an inner lock holds after the loss")
						}
						actorstest.MustTake(t, l.Lost())
						p.wantDone(l, true, "lost")
					}
					if _, told := actorstest.Take(r.Lost()); told == outerLeft {
						t.Errorf("the outer lock is told of the loss: %v, want %v", told, !outerLeft)
					}
					p.wantDone(early, false, "it is not started")
					p.wantDeletes(0, "it has not left")
					early.Start(t.Context(), 0, actors.Want{})
					p.wantDone(early, true, "lost before its Grant")
					if g, ok := actorstest.Take(early.Granted()); ok {
						t.Errorf("an inner lock without a Grant has %+v after the loss", g)
					}
					if l, ok := actorstest.Take(early.Lost()); ok {
						t.Errorf("an inner lock without a Grant is told of %+v", l)
					}
					if want := actorstest.Ends(recipes.WhyLost, false, reasons[name], nil); early.Err() != want { //nolint:errorlint // identity is meant
						t.Errorf("it has ended with %v, want %v", early.Err(), want)
					}
					if g := p.admits(one, 14); g != nil {
						t.Error("an inner lock is admitted after the loss")
					}
					if name == "lease ran out" {
						p.wantDeletes(1, "lost")
						r.Deleted()
					}
					r.WantGone(t, 1)
				})
			})
		}
	}
}

// TestAFunctionOfAnInnerLockKeepsTheNode, behind a loss, though the outer lock is no function. None is admitted
// meanwhile.
func TestAFunctionOfAnInnerLockKeepsTheNode(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		function := p.enters(r.Lock, 11, actors.Want{Keep: true})
		r.Say(recipes.LeaseRanOut{})
		p.wantDone(r.Lock, true, "the outer lock has lost")
		p.wantDone(function, false, "its function runs")
		p.wantDeletes(0, "a function runs")
		if g := p.admits(function, 12); g != nil {
			t.Error("an inner lock is admitted to a lock that is lost")
		}
		function.Withdraw(recipes.WhyReleased)
		p.wantDeletes(1, "the function has ended")
		p.wantDone(function, false, "the node is still there")
		r.Deleted()
		p.wantDone(function, true, "the node is gone")
		r.WantGone(t, 1)
	})
}

// TestNoLockIsEnteredBehindTheEndOfTheLease, though it is not noticed yet, nor behind the moment by which the lock was to be given
// back, nor to a lock that is released or waits.
func TestNoLockIsEnteredBehindTheEndOfTheLease(t *testing.T) {
	for name, ends := range map[string]func(p *party){
		"lease": func(p *party) { time.Sleep(time.Hour) },
		"deadline": func(p *party) {
			p.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(time.Now().Add(time.Minute))})
			time.Sleep(time.Minute)
		},
		"released": func(p *party) { p.Withdraw(recipes.WhyReleased) },
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				p := newParty(t, r, actors.Want{})
				if name == "released" {
					defer r.Deleted()
				} else {
					defer func() { r.Withdraw(recipes.WhyReleased); r.Deleted() }()
				}
				ends(p)
				if g := p.admits(r.Lock, 11); g != nil {
					t.Error("an inner lock is admitted")
				}
			})
		})
	}
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		r.Begin(t, actors.Want{})
		r.Queued()
		p := &party{Rig: r, t: t, gone: map[*actors.Lock]*atomic.Int32{}}
		if g := p.admits(r.Lock, 11); g != nil {
			t.Error("an inner lock is admitted to a lock that waits")
		}
		r.Withdraw(recipes.WhyReleased)
		r.Deleted()
	})
}

// TestAWishIsToldToAllThatHaveEntered, and with the Grant to one that enters later, also when the outer lock has left. A deadline
// bounds what they may believe. The session is asked to tell of it once.
func TestAWishIsToldToAllThatHaveEntered(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newParty(t, r, actors.Want{})
		one := p.enters(r.Lock, 11, actors.Want{})
		early := p.admits(r.Lock, 12)
		r.Withdraw(recipes.WhyReleased)
		due := time.Now().Add(time.Minute)
		r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(due)})
		actorstest.MustTake(t, one.Revoked())
		if _, told := actorstest.Take(early.Revoked()); told {
			t.Error("an inner lock without a Grant is asked for the lock")
		}
		early.Start(t.Context(), 0, actors.Want{})
		late := p.enters(one, 13, actors.Want{})
		for _, l := range []*actors.Lock{early, late} {
			if wish := actorstest.MustTake(t, l.Revoked()); !wish.Deadline.Equal(due) || !l.Deadline().Equal(due) {
				t.Errorf("asked for by %v, valid until %v; want both %v", wish.Deadline, l.Deadline(), due)
			}
		}
		asked := 0
		for _, e := range r.Port.Sent() {
			if _, ok := e.(recipes.Revoke); ok {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("the session was asked to tell of the deadline %d times, want once", asked)
		}
		for _, l := range []*actors.Lock{one, early, late} {
			l.Withdraw(recipes.WhyReleased)
		}
		r.Deleted()
		r.WantGone(t, 1)
	})
}

// TestTheLastIsToldThatTheReleaseWasRefused.
func TestTheLastIsToldThatTheReleaseWasRefused(t *testing.T) {
	for name, outerIsLast := range map[string]bool{"inner": false, "outer": true} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				p := newParty(t, r, actors.Want{})
				first, last := r.Lock, p.enters(r.Lock, 11, actors.Want{})
				if outerIsLast {
					first, last = last, first
				}
				first.Withdraw(recipes.WhyReleased)
				last.Withdraw(recipes.WhyReleased)
				synctest.Wait()
				r.Refuse(recipes.OpDelete, actorstest.ErrNoAuth)
				if want := actorstest.Ends(recipes.WhyRefused, true, 0, actorstest.ErrNoAuth); last.Err() != want || first.Err() != nil { //nolint:errorlint // identity is meant
					t.Errorf("the last has ended with %v and the other with %v, want %v and no error", last.Err(), first.Err(), want)
				}
				r.WantGone(t, 1)
			})
		})
	}
}

// TestEachHolderHasItsOwnEnd: with a record, the last tells the machine what all have done, and its caller what it has done itself.
func TestEachHolderHasItsOwnEnd(t *testing.T) {
	for _, other := range []recipes.Why{recipes.WhyClosed, recipes.WhyPanicked} {
		withRig(t, func(t *testing.T, r *actorstest.Rig) {
			p := newRecordedParty(t, r)
			g := p.enters(r.Lock, 11, actors.Want{Detect: true})
			g.Withdraw(other)
			r.Releases(t)
			if g.Err() == nil {
				t.Errorf("%v: the inner lock has ended without an error", other)
			}
		})
	}
}

// TestTheLastClearsTheRecord: Close waits for that one alone.
func TestTheLastClearsTheRecord(t *testing.T) {
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		p := newRecordedParty(t, r)
		g := p.enters(r.Lock, 11, actors.Want{Detect: true})
		r.Releases(t)
		if _, cleared := actorstest.Take(r.Cleared()); !cleared {
			t.Error("the outer lock has left, and is to be waited for")
		}
		g.Withdraw(recipes.WhyReleased)
		if _, cleared := actorstest.Take(g.Cleared()); cleared {
			t.Error("the last is not to be waited for, though the record is still there")
		}
		r.Deleted()
		<-g.Cleared()
	})
}

// TestTheRecordGoesIfAllHaveReleased, see [recipes.Share].
func TestTheRecordGoesIfAllHaveReleased(t *testing.T) {
	for name, why := range map[string]recipes.Why{"released": recipes.WhyReleased, "panicked": recipes.WhyPanicked} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				r.Begin(t, actors.Want{Detect: true})
				crash := &events.Abandoned{Node: "before", Token: 3}
				r.Say(actorstest.Opened, actorstest.Created, actorstest.Listed, recipes.Claimed{Epoch: actorstest.Epoch, Fresh: true, Recorded: true, Abandoned: crash})
				actorstest.MustTake(t, r.Granted())
				p := &party{Rig: r, t: t, gone: map[*actors.Lock]*atomic.Int32{}}
				g := p.admits(r.Lock, 11)
				g.Start(t.Context(), 0, actors.Want{Detect: true})
				if grant := actorstest.MustTake(t, g.Granted()); grant.Abandoned != crash {
					t.Errorf("the inner lock is told of %+v, want %+v", grant.Abandoned, crash)
				}
				g.Withdraw(why)
				r.Withdraw(recipes.WhyReleased)
				cleared := r.Cleared()
				synctest.Wait()
				if _, d := p.deletes(); d.Clean != (why == recipes.WhyReleased) {
					t.Errorf("the record goes: %v, want %v", d.Clean, !d.Clean)
				}
				if _, is := actorstest.Take(cleared); is {
					t.Error("the outer lock is cleared before the node has gone")
				}
				r.Deleted()
				<-cleared
				<-g.Cleared()
			})
		})
	}
}

// stayPort is the port of a cached lock's node.
type stayPort struct{ *actorstest.FakePort }

func (stayPort) Proven(recipes.Epoch) bool { return true }

// cachedTurn returns the holder of a cached lock, of which the rig's lock has the node.
func cachedTurn(t *testing.T, r *actorstest.Rig) *actors.Lock {
	t.Helper()
	cache := actors.NewCaches(1).At("/locks/a", actors.Terms{}, func() actors.CacheConfig {
		return actors.CacheConfig{
			Idle: time.Hour, Interval: func() time.Duration { return time.Minute },
			Queue: func(beside actors.Beside) (*actors.Lock, actors.StayPort, func(bool), error) {
				r.Tell(beside)
				return r.Lock, stayPort{r.Port}, func(bool) { r.Start(t.Context(), 0, actors.Want{Keep: true}) }, nil
			},
		}
	})
	outer := actors.NewTurn(actors.Config{ID: 10, Path: "/locks/a", Owner: actorstest.NewOwner(&atomic.Int32{}), House: r.House}, cache)
	outer.Start(t.Context(), 0, actors.Want{})
	r.Hold()
	actorstest.MustTake(t, outer.Granted())
	return outer
}

// TestNoTurnIsEnteredBehindItsDeadline, though it is not noticed yet, nor behind the end of the lease.
func TestNoTurnIsEnteredBehindItsDeadline(t *testing.T) {
	for name, wait := range map[string]time.Duration{"deadline": time.Minute, "lease": time.Hour} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				outer := cachedTurn(t, r)
				if name == "deadline" {
					r.Say(recipes.AskedBack{Epoch: actorstest.Epoch, Node: actorstest.Own.Text, By: actors.MomentOf(time.Now().Add(wait))})
				}
				time.Sleep(wait)
				if outer.Admit(actors.Config{ID: 11, Path: "/locks/a", Owner: actorstest.NewOwner(&atomic.Int32{}), House: r.House}) != nil {
					t.Error("a lock is admitted")
				}
				outer.Withdraw(recipes.WhyReleased)
				r.Say(recipes.LeaseRanOut{}) // an idle node would stay for an hour
				r.Deleted()
				r.WantGone(t, 1)
			})
		})
	}
}

// TestATurnHearsNothingBeforeItIsStarted: a cached lock is entered again, and is lost before the inner lock is started. That hears of the
// loss when it is, and never if it fails.
func TestATurnHearsNothingBeforeItIsStarted(t *testing.T) {
	for name, fails := range map[string]bool{"started": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				outer := cachedTurn(t, r)
				var innerGone atomic.Int32
				inner := outer.Admit(actors.Config{ID: 11, Path: "/locks/a", Owner: actorstest.NewOwner(&innerGone), House: r.House})
				r.Say(recipes.LeaseRanOut{})
				actorstest.MustTake(t, outer.Lost())
				if actorstest.IsDone(inner) || innerGone.Load() != 0 {
					t.Fatal("the inner lock is over before it is started")
				}
				want := actorstest.Ends(recipes.WhyLost, false, events.ReasonLeaseRanOut, nil)
				if fails {
					want = actorstest.ErrCause
					inner.Fail(want)
				} else {
					inner.Start(t.Context(), 0, actors.Want{})
				}
				synctest.Wait()
				if _, told := actorstest.Take(inner.Lost()); told || inner.Err() != want || innerGone.Load() != 1 { //nolint:errorlint // identity is meant
					t.Errorf("told of a loss: %v, ended with %v, Gone %d times; want no loss, %v, and once", told, inner.Err(), innerGone.Load(), want)
				}
				r.Deleted()
				r.WantGone(t, 1)
			})
		})
	}
}

// TestNoGrantIsTakenBehindALoss: when the first holder hears of the loss, the Grants of the others have been taken back.
func TestNoGrantIsTakenBehindALoss(t *testing.T) {
	holds := map[string]func(*testing.T, *actorstest.Rig) *actors.Lock{
		"in a queue": func(t *testing.T, r *actorstest.Rig) *actors.Lock {
			t.Helper()
			return newParty(t, r, actors.Want{}).Lock
		},
		"cached": cachedTurn,
	}
	for name, hold := range holds {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(t *testing.T, r *actorstest.Rig) {
				outer := hold(t, r)
				inner := outer.Admit(actors.Config{ID: 11, Path: "/locks/a", Owner: actorstest.NewOwner(&atomic.Int32{}), House: r.House})
				inner.Start(t.Context(), 0, actors.Want{})
				synctest.Wait()
				if !inner.Holding() {
					t.Fatal("the inner lock has no Grant")
				}
				heard := false
				outer.OnEnd(func(error) {
					heard = true
					if g, taken := actorstest.Take(inner.Granted()); taken || inner.Holding() {
						t.Errorf("behind the loss the inner lock holds: %v, and its Grant is taken: %v, %+v", inner.Holding(), taken, g)
					}
				})
				r.Say(recipes.LeaseRanOut{})
				actorstest.MustTake(t, outer.Lost())
				if _, told := actorstest.Take(inner.Lost()); !heard || told {
					t.Errorf("the outer lock was told: %v, and the inner one without a Grant: %v", heard, told)
				}
				r.Deleted()
				synctest.Wait()
			})
		})
	}
}
