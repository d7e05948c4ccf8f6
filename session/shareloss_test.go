package session_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What becomes of those who share a node when it is lost: each is told, and nobody joins
// who comes behind that.

// count returns how many of the inputs are of the type.
func count[T recipes.Input](inputs []recipes.Input) (n int) {
	for _, in := range inputs {
		if _, ok := in.(T); ok {
			n++
		}
	}
	return n
}

// TestEachIsToldThatTheNodeIsGone, however that is learnt, and all of them before the session
// does anything else. A create that comes in that moment is no join any more.
func TestEachIsToldThatTheNodeIsGone(t *testing.T) {
	for name, learn := range map[string]func(r *sessiontest.Rig, all [3]*sessiontest.Seat, node string){
		"by a watch": func(r *sessiontest.Rig, all [3]*sessiontest.Seat, node string) {
			time.Sleep(probe + time.Millisecond) // all are watched from then on
			r.DeleteNode(node)
		},
		"by a probe, before it is watched": func(r *sessiontest.Rig, _ [3]*sessiontest.Seat, node string) {
			r.On(zktest.OpGetData, zktest.Swallow()) // no watch is armed
			r.DeleteNode(node)
		},
		"by the claim of the first": func(r *sessiontest.Rig, all [3]*sessiontest.Seat, node string) {
			r.DeleteNode(node)
			all[0].Claim(recipes.Claim{Epoch: 1, Node: node})
		},
		"by the claim of one that has joined": func(r *sessiontest.Rig, all [3]*sessiontest.Seat, node string) {
			r.DeleteNode(node)
			all[2].Claim(recipes.Claim{Epoch: 1, Node: node})
		},
	} {
		t.Run(name, func(t *testing.T) {
			owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
				all, late := r.Three(owner, created), r.SeatWith(owner)
				var told atomic.Int32
				for _, s := range all {
					var once sync.Once
					s.Hears(func(in recipes.Input) {
						switch in.(type) {
						case recipes.Gone, recipes.Refused:
							once.Do(func() {
								if told.Add(1) == 1 {
									late.Create(recipes.Create{Epoch: 1, Attempt: 1})
								}
							})
						}
					})
				}
				learn(r, all, created.Node.Text)
				r.Until("the first is told", func() bool { return told.Load() > 0 })
				if n := told.Load(); n != 3 {
					t.Errorf("%d were told in the moment of the first, want all 3", n)
				}
				r.Server.Intercept(nil)
				time.Sleep(time.Minute)
				for i, s := range all {
					told := s.Fresh()
					// The event comes before the refusal of a claim, where there is a watch.
					gone, refused := count[recipes.Gone](told), count[recipes.Refused](told)
					if gone+refused < 1 || gone > 1 || refused > 1 {
						t.Errorf("seat %d was told %+v, want Gone or Refused, each at most once", i, told)
					}
				}
				if in, ok := late.Fresh()[0].(recipes.Created); !ok || in.Node.Text == created.Node.Text {
					t.Errorf("who came behind the loss was told %+v, want a node of its own", in)
				}
			})
		})
	}
}

// TestOneWatchForAllWhoShare, which is armed when they have held for a while, and outlives
// the one for whom it was.
func TestOneWatchForAllWhoShare(t *testing.T) {
	for leaver := range 3 {
		for name, early := range map[string]bool{"before it is armed": true, "behind that": false} {
			t.Run(name, func(t *testing.T) {
				owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
					all := r.Three(owner, created)
					watches := r.Server.Watches()
					asked := r.Asked()
					if !early {
						time.Sleep(probe + time.Millisecond)
					}
					all[leaver].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
					all[leaver].Want("Deleted")
					all[leaver].Close()
					time.Sleep(2 * probe)
					got := asked()
					if n := got[zktest.OpGetData]; n != 1-watches || got[zktest.OpExists] != 0 || r.Server.Watches() != 1 {
						t.Errorf("the server was asked for %v and has %d watches, want one watch for all, armed once", got, r.Server.Watches())
					}
					r.DeleteNode(created.Node.Text)
					for i, s := range all {
						if i == leaver {
							s.Want("")
							continue
						}
						s.WantGone(created.Node.Text)
					}
				})
			})
		}
	}
}

// TestEachIsToldOfTheEndOfTheLease and of the session, once.
func TestEachIsToldOfTheEndOfTheLease(t *testing.T) {
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		all := r.Three(owner, created)
		all[1].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		all[1].Want("Deleted")
		for _, s := range all {
			s.Fresh()
		}
		multis := r.Multis()
		time.Sleep(time.Minute)
		multis(int(time.Minute/probe), int(time.Minute/probe), "in a minute for one node that is held twice")
		late := r.SeatWith(owner, all[2])
		var once atomic.Bool
		all[0].Hears(func(in recipes.Input) {
			if in == (recipes.LeaseRanOut{}) && once.CompareAndSwap(false, true) {
				late.Create(recipes.Create{Epoch: 1, Attempt: 1})
			}
		})
		r.Server.MuteAll(true)
		time.Sleep(sessiontest.Timeout)
		all[0].Want("Suspended LeaseRanOut")
		all[1].Want("Suspended")
		all[2].Want("Suspended LeaseRanOut")
		late.Want("Suspended") // it waits for a connection, as any create would
		r.Server.MuteAll(false)
		owner.ExpireBefore(2)
		for _, s := range all {
			if got := s.Fresh(); count[recipes.Expired](got) != 1 || count[recipes.LeaseRanOut](got) != 0 {
				t.Errorf("after the expiry a seat is told %+v, want one Expired and no LeaseRanOut", got)
			}
		}
		late.Fresh()
		late.StandsAlone(2, created)
		wantSharing(r, 0)
	})
}

// TestALeaseThatHasRunOutUnnoticedLetsNobodyJoin: the machine was suspended, and nobody
// has looked at the clock since.
func TestALeaseThatHasRunOutUnnoticedLetsNobodyJoin(t *testing.T) {
	var asleep atomic.Int64
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		joiner := r.SeatWith(owner)
		asleep.Add(int64(sessiontest.Lease))
		joiner.StandsAlone(1, created)
	}, session.OptionFunc(func(cfg *session.Config) {
		cfg.Asleep = func() time.Duration { return time.Duration(asleep.Load()) }
	}))
}

// TestJoiningNeedsNoConnection, as long as the lease lasts, unless a lost connection counts
// as a loss.
func TestJoiningNeedsNoConnection(t *testing.T) {
	for name, strict := range map[string]bool{"suspended": false, "strict": true} {
		t.Run(name, func(t *testing.T) {
			owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
				joiner, between := r.SeatWith(owner), r.SeatWith(owner)
				var once atomic.Bool
				owner.Hears(func(in recipes.Input) {
					if in == (recipes.Suspended{}) && once.CompareAndSwap(false, true) {
						between.Create(recipes.Create{Epoch: 1, Attempt: 1})
					}
				})
				r.Server.Down(true)
				r.WantState(session.Suspended)
				joiner.Fresh()
				joiner.Create(recipes.Create{Epoch: 1, Attempt: 1})
				for _, s := range []*sessiontest.Seat{joiner, between} {
					if told := s.Fresh(); count[recipes.Created](told) != map[bool]int{false: 1, true: 0}[strict] {
						t.Errorf("without a connection, strict %v, the seat is told %+v; want to join unless it is strict", strict, told)
					}
				}
				r.Server.Down(false)
				r.Settle()
				r.WantChildren(map[bool]int{false: 1, true: 3}[strict])
			}, session.OptionFunc(func(cfg *session.Config) { cfg.LossOnSuspend = strict }))
		})
	}
}

// TestWhoHasLostKeepsTheNodeWhileAnotherHasIt: one that has lost the lock gives the node up
// at once, and a function still runs under the other.
func TestWhoHasLostKeepsTheNodeWhileAnotherHasIt(t *testing.T) {
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		all := r.Three(owner, created)
		r.Server.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() }) // but the server hears of the session
		r.Until("the lease runs out", func() bool { return count[recipes.LeaseRanOut](all[0].Fresh()) > 0 })
		all[0].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		all[2].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		r.Server.Intercept(nil)
		r.Settle()
		for _, i := range []int{0, 2} {
			if told := all[i].Fresh(); count[recipes.Deleted](told) != 1 {
				t.Errorf("seat %d was told %+v, want one Deleted", i, told)
			}
		}
		r.WantChildren(1)
		all[1].Fresh()
		all[1].DeleteNode(created.Node.Text)
		r.WantChildren(0)
	})
}

// TestWhoStartsAnewSharesNothing: the node is gone, and who had it makes another one, which is
// removed though others have not given the first one up.
func TestWhoStartsAnewSharesNothing(t *testing.T) {
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		all := r.Three(owner, created)
		time.Sleep(probe + time.Millisecond)
		r.DeleteNode(created.Node.Text)
		for _, s := range all {
			s.Fresh()
		}
		all[1].Create(recipes.Create{Epoch: 1, Attempt: 2})
		made, ok := all[1].Answer().(recipes.Created)
		if !ok || made.Node.Text == created.Node.Text {
			r.Fatalf("the create after the loss is answered %+v, want another node than %v", made, created.Node)
		}
		r.WantChildren(1)
		all[1].DeleteNode(made.Node.Text)
		r.WantChildren(0)
	})
}
