package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Seats that share a node: who gets it, and when it goes.

// seatWith opens a seat that may have the node of any of the owners.
func (r *rig) seatWith(owners ...*seat) *seat {
	r.Helper()
	var with []*session.Seat
	for _, o := range owners {
		with = append(with, o.Seat)
	}
	s := r.seatAt(session.Place{Dir: dir, With: with})
	s.fresh() // Opened, and whatever else is to be said of the session
	return s
}

// owners are the ways in which somebody becomes the holder of a node of its own.
func owners() map[string]func(r *rig) (s *seat, created recipes.Created) {
	return map[string]func(r *rig) (*seat, recipes.Created){
		"alone by its create": func(r *rig) (*seat, recipes.Created) {
			r.warm()
			s := r.seat()
			s.want("Opened")
			return s, s.makes(1)
		},
		"listed, and claimed": func(r *rig) (*seat, recipes.Created) {
			s := r.seat()
			s.want("Opened")
			node := s.create(1)
			own := s.list(1).Own
			s.claim(1, node.Text)
			return s, recipes.Created{Epoch: 1, Node: own.Name, Alone: true, Fresh: true, Token: own.Token}
		},
	}
}

// owning is a rig with an owner of the one kind and of the other.
func owning(t *testing.T, test func(r *rig, owner *seat, created recipes.Created), options ...session.Option) {
	t.Helper()
	for name, makes := range owners() {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				owner, created := makes(r)
				test(r, owner, created)
			}, options...)
		})
	}
}

// joins asks for a node, and checks that it is the shared one.
func (s *seat) joins(shared recipes.Created) {
	s.r.Helper()
	s.Create(recipes.Create{Epoch: 1, Attempt: 1})
	if in := s.want("Created")[0]; in != shared {
		s.r.Errorf("told %+v, want %+v", in, shared)
	}
}

// standsAlone asks for a node, and checks that it is one of its own.
func (s *seat) standsAlone(epoch recipes.Epoch, shared recipes.Created) {
	s.r.Helper()
	if node := s.create(epoch); node.Text == shared.Node.Text {
		s.r.Errorf("has got %s", node.Text)
	}
}

func (r *rig) wantChildren(n int) {
	r.Helper()
	synctest.Wait()
	if got := r.srv.Children(dir); len(got) != n {
		r.Errorf("the directory has %v, want %d nodes", got, n)
	}
}

// TestWhoJoinsHasTheNodeForNothing: no request is made, neither to get in nor to get out,
// and whoever joins is told what a create would have been that found nobody else.
func TestWhoJoinsHasTheNodeForNothing(t *testing.T) {
	owning(t, func(r *rig, owner *seat, created recipes.Created) {
		asked := r.asked()
		last := owner
		for range 3 {
			s := r.seatWith(last)
			s.joins(created)
			last = s
		}
		last.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		last.want("Deleted")
		if got := asked(); len(got) != 0 {
			t.Errorf("asked %v", got)
		}
		r.wantChildren(1)
	})
}

// TestTheNodeGoesWithTheLast, in every order in which three can leave, whoever joined by
// whom. It leaves a floor if any of them would have, and one request is made for all.
func TestTheNodeGoesWithTheLast(t *testing.T) {
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for by := range 3 { // whose node the third asks for: the first's, the second's, that of either
		for _, order := range orders {
			for floors := range 1 << 3 {
				t.Run(fmt.Sprintf("%d %v %03b", by, order, floors), func(t *testing.T) {
					inSession(t, func(r *rig) {
						r.warm()
						seats := [3]*seat{r.seat()}
						seats[0].want("Opened")
						created := seats[0].makes(1)
						seats[1] = r.seatWith(seats[0])
						seats[1].joins(created)
						seats[2] = r.seatWith([][]*seat{seats[:1], seats[1:2], seats[:2]}[by]...)
						seats[2].joins(created)
						asked := r.asked()
						for _, who := range order {
							r.wantChildren(1)
							seats[who].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: floors>>who&1 != 0})
							seats[who].want("Deleted")
						}
						r.wantChildren(0)
						got, want := asked(), zktest.OpDelete
						r.wantData(map[bool]string{false: ourData, true: floorOf(created.Token)}[floors != 0])
						if floors != 0 {
							want = zktest.OpMulti
						}
						if len(got) != 1 || got[want] != 1 {
							t.Errorf("asked %v", got)
						}
					})
				})
			}
		}
	}
}

// step is what one of the seats asks for: to join, or to leave.
type step struct {
	who    int
	leaves bool
}

func (s step) String() string {
	return fmt.Sprintf("%d%s", s.who, map[bool]string{false: "+", true: "-"}[s.leaves])
}

// interleavings are the orders of all the steps of a first seat, which holds already, and
// of two that join it: each joins before it leaves.
func interleavings(done []step, each func([]step)) {
	next := [3]int{1, 0, 0} // how many of its two steps each has taken
	for _, s := range done {
		next[s.who]++
	}
	all := true
	for who, n := range next {
		if n < 2 {
			all = false
			interleavings(append(done[:len(done):len(done)], step{who, n == 1}), each)
		}
	}
	if all {
		each(done)
	}
}

// TestJoinsAndReleasesInEveryOrder: the first holds; the second may have its node, and the
// third that of either. What they ask for comes one behind the other, or is all there at once
// when the session looks. Who joins when nobody holds any more has a node of its own.
func TestJoinsAndReleasesInEveryOrder(t *testing.T) {
	orders := 0
	interleavings(nil, func(steps []step) {
		orders++
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v at once %v", steps, atOnce), func(t *testing.T) {
				inSession(t, func(r *rig) {
					r.warm()
					first := r.seat()
					first.want("Opened")
					created := first.makes(1)
					r.plant("lock-0000000099") // so that nobody else is alone, and a holder
					second := r.seatWith(first)
					third := r.seatWith(first, second)
					seats := [3]*seat{first, second, third}
					holds, joined := [3]bool{true}, [3]bool{true}
					own := 1 // nodes that are not shared
					take := func() {
						for _, s := range steps {
							switch {
							case !s.leaves:
								joined[s.who] = holds[0] || s.who == 2 && holds[1]
								holds[s.who] = joined[s.who]
								seats[s.who].Create(recipes.Create{Epoch: 1, Attempt: 1})
								if !joined[s.who] {
									own++
								}
							case joined[s.who]:
								holds[s.who] = false
								seats[s.who].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
							}
							if !atOnce {
								synctest.Wait()
							}
						}
					}
					if atOnce {
						r.together(take)
					} else {
						take()
					}
					r.wantChildren(own)
					for who, s := range seats {
						got := s.fresh()
						want := "Created Deleted"
						switch {
						case who == 0:
							want = "Deleted"
						case !joined[who]:
							want = "Created"
						}
						if typesOf(got) != want || who > 0 && (got[0] == created) != joined[who] {
							t.Errorf("%d was told %+v, joined %v", who, got, joined[who])
						}
					}
				})
			})
		}
	})
	if orders != 30 { // 5!/(2! 2!)
		t.Errorf("%d orders", orders)
	}
}

// TestWhoMayNotJoin: what an owner that does not hold stands for.
func TestWhoMayNotJoin(t *testing.T) {
	for name, owner := range map[string]func(r *rig, s *seat, node string) *seat{
		"one that has closed": func(r *rig, s *seat, node string) *seat {
			s.delete(node)
			s.Close()
			return s
		},
		"one that only waits": func(r *rig, _ *seat, _ string) *seat {
			waiter := r.seat()
			waiter.create(1)
			waiter.list(1)
			return waiter
		},
		"one that has joined, and left": func(r *rig, s *seat, node string) *seat {
			joiner := r.seatWith(s)
			joiner.Create(recipes.Create{Epoch: 1, Attempt: 1})
			joiner.fresh()
			joiner.delete(node)
			return joiner
		},
		"one whose lease has run out": func(r *rig, s *seat, _ string) *seat {
			r.srv.MuteAll(true)
			time.Sleep(timeout)
			r.srv.MuteAll(false)
			r.settle()
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			owning(t, func(r *rig, s *seat, created recipes.Created) {
				joiner := r.seatWith(owner(r, s, created.Node.Text))
				joiner.List(recipes.List{Epoch: 1})
				if _, ok := joiner.answer().(recipes.Listed); !ok {
					t.Error("not listed")
				}
				joiner.standsAlone(1, created)
			})
		})
	}
}

// TestWhoMayJoinFindsNobodyInItsWay, when it looks before it creates anything; who may
// not sees who is there.
func TestWhoMayJoinFindsNobodyInItsWay(t *testing.T) {
	owning(t, func(r *rig, owner *seat, created recipes.Created) {
		joiner, other := r.seatWith(owner), r.seat()
		other.want("Opened")
		asked := r.asked()
		joiner.List(recipes.List{Epoch: 1})
		if in := joiner.answer().(recipes.Listed); len(in.Queue) != 0 || in.Epoch != 1 {
			t.Errorf("told %+v", in)
		}
		if got := asked(); len(got) != 0 {
			t.Errorf("asked %v", got)
		}
		other.List(recipes.List{Epoch: 1})
		if in := other.answer().(recipes.Listed); len(in.Queue) != 1 {
			t.Errorf("told %+v", in)
		}
		owner.delete(created.Node.Text)
		r.plant("lock-0000000099")
		joiner.List(recipes.List{Epoch: 1})
		if in := joiner.answer().(recipes.Listed); len(in.Queue) != 1 {
			t.Errorf("told %+v once the owner has left", in)
		}
	})
}

// TestAnUnknownEndOfTheLastIsTriedAgain, with the floor that another one would have left.
func TestAnUnknownEndOfTheLastIsTriedAgain(t *testing.T) {
	for name, cut := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
		t.Run(name, func(t *testing.T) {
			owning(t, func(r *rig, owner *seat, created recipes.Created) {
				joiner := r.seatWith(owner)
				joiner.joins(created)
				owner.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: true})
				owner.want("Deleted")
				owner.Close()
				once := false
				r.srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Op == zktest.OpMulti && !once {
						once = true
						return cut
					}
					return zktest.Pass()
				})
				joiner.delete(created.Node.Text)
				r.wantChildren(0)
				r.wantData(floorOf(created.Token))
			})
		})
	}
}

// TestNothingIsRememberedOfThoseWhoHaveShared: a node can be handed on from one to the
// next for ever, and none of those who have left is kept.
func TestNothingIsRememberedOfThoseWhoHaveShared(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		last := r.seat()
		last.want("Opened")
		created := last.makes(1)
		for range 100 {
			next := r.seatWith(last)
			next.joins(created)
			last.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
			last.want("Deleted")
			last.Close()
			last = next
		}
		r.wantChildren(1)
		if n := r.s.Sharing(); n != 1 {
			t.Errorf("%d seats are remembered", n)
		}
		last.delete(created.Node.Text)
		last.Close()
		synctest.Wait()
		if n := r.s.Sharing(); n != 0 {
			t.Errorf("%d seats are remembered of none that is left", n)
		}
	})
}
