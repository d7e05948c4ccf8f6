package session_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Seats that share a node: which seat gets it, and when it goes.

// owners are the ways in which a seat becomes the holder of a node of its own.
func owners() map[string]func(r *sessiontest.Rig) (s *sessiontest.Seat, created recipes.Created) {
	return map[string]func(r *sessiontest.Rig) (*sessiontest.Seat, recipes.Created){
		"alone by its create": func(r *sessiontest.Rig) (*sessiontest.Seat, recipes.Created) {
			r.Warm()
			s := r.Seated()
			return s, s.Makes(1)
		},
		"listed, and claimed": func(r *sessiontest.Rig) (*sessiontest.Seat, recipes.Created) {
			s := r.Seated()
			node := s.CreateNode(1)
			own := s.ListNodes(1).Own
			s.ClaimNode(1, node.Text)
			return s, recipes.Created{Epoch: 1, Node: own.Name, Alone: true, Fresh: true, Token: own.Token}
		},
	}
}

// owning runs a test with an owner of each kind.
func owning(t *testing.T, test func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created), options ...session.Option) {
	t.Helper()
	for name, makes := range owners() {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			owner, created := makes(r)
			test(r, owner, created)
		}, options...)
	}
}

// TestAJoinTakesNoRequest: no request is made, neither to get in nor to get out. A seat that joins is told the same as a
// create that found no other contender.
func TestAJoinTakesNoRequest(t *testing.T) {
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		asked := r.Asked()
		last := owner
		for range 3 {
			s := r.SeatWith(last)
			s.Joins(created)
			last = s
		}
		last.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		last.Want("Deleted")
		r.WantAsked(asked())
		r.WantChildren(1)
	})
}

// TestTheNodeGoesWithTheLast, in every order in which three can leave, whichever seat each has joined. It leaves a floor if any of
// them would have, and one request is made for all.
func TestTheNodeGoesWithTheLast(t *testing.T) {
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for by := range 3 { // the seat of which the third may have the node: the first, the second, either
		for _, order := range orders {
			for floors := range 1 << 3 {
				sessiontest.Run(t, fmt.Sprintf("%d %v %03b", by, order, floors), func(r *sessiontest.Rig) {
					r.Warm()
					seats := [3]*sessiontest.Seat{r.Seat()}
					seats[0].Want("Opened")
					created := seats[0].Makes(1)
					seats[1] = r.SeatWith(seats[0])
					seats[1].Joins(created)
					seats[2] = r.SeatWith([][]*sessiontest.Seat{seats[:1], seats[1:2], seats[:2]}[by]...)
					seats[2].Joins(created)
					asked := r.Asked()
					for _, who := range order {
						r.WantChildren(1)
						seats[who].Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: floors>>who&1 != 0})
						seats[who].Want("Deleted")
					}
					r.WantChildren(0)
					got, want := asked(), zktest.OpDelete
					r.WantData(map[bool]string{false: sessiontest.OurData, true: floorOf(created.Token)}[floors != 0])
					if floors != 0 {
						want = zktest.OpMulti
					}
					if len(got) != 1 || got[want] != 1 {
						r.Errorf("the server was asked for %v, want one %v", got, want)
					}
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

// interleavings are the orders of all the steps of a first seat, which holds already, and of two that join it. Each joins before it
// leaves.
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

// TestJoinsAndReleasesInEveryOrder: the first holds; the second may have its node, and the third that of either. Their requests come
// one after the other, or are all there at once when the session looks. A seat that comes when none holds any more has a node of its
// own.
func TestJoinsAndReleasesInEveryOrder(t *testing.T) {
	orders := 0
	interleavings(nil, func(steps []step) {
		orders++
		for _, atOnce := range []bool{false, true} {
			sessiontest.Run(t, fmt.Sprintf("%v at once %v", steps, atOnce), func(r *sessiontest.Rig) {
				r.Warm()
				first := r.Seated()
				created := first.Makes(1)
				r.Plant("lock-0000000099") // so that no other seat is alone, and a holder
				second := r.SeatWith(first)
				third := r.SeatWith(first, second)
				seats := [3]*sessiontest.Seat{first, second, third}
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
					r.Together(take)
				} else {
					take()
				}
				r.WantChildren(own)
				for who, s := range seats {
					got := s.Fresh()
					want := "Created Deleted"
					switch {
					case who == 0:
						want = "Deleted"
					case !joined[who]:
						want = "Created"
					}
					if sessiontest.TypesOf(got) != want || who > 0 && (got[0] == created) != joined[who] {
						r.Errorf("seat %d was told %+v, want %s, joined %v", who, got, want, joined[who])
					}
				}
			})
		}
	})
	if orders != 30 { // 5!/(2! 2!)
		t.Errorf("%d orders were played, want 30", orders)
	}
}

// TestASeatThatMayJoinFindsNoContenderInItsWay, when it looks before it creates anything. A seat that may not join sees the contenders.
func TestASeatThatMayJoinFindsNoContenderInItsWay(t *testing.T) {
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		joiner, other := r.SeatWith(owner), r.Seat()
		other.Want("Opened")
		asked := r.Asked()
		joiner.List(recipes.List{Epoch: 1})
		if in := sessiontest.AnswerOf[recipes.Listed](joiner); len(in.Queue) != 0 || in.Epoch != 1 {
			t.Errorf("a seat that may join is told %+v, want no contender in its way", in)
		}
		r.WantAsked(asked())
		other.List(recipes.List{Epoch: 1})
		if in := sessiontest.AnswerOf[recipes.Listed](other); len(in.Queue) != 1 {
			t.Errorf("a seat that may not join is told %+v, want the one that holds", in)
		}
		owner.DeleteNode(created.Node.Text)
		r.Plant("lock-0000000099")
		joiner.List(recipes.List{Epoch: 1})
		if in := sessiontest.AnswerOf[recipes.Listed](joiner); len(in.Queue) != 1 {
			t.Errorf("once the owner has left the seat is told %+v, want the next one in its way", in)
		}
	})
}

// TestAnUnknownEndOfTheLastIsTriedAgain, with the floor that another seat would have left.
func TestAnUnknownEndOfTheLastIsTriedAgain(t *testing.T) {
	for name, cut := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
		t.Run(name, func(t *testing.T) {
			owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
				joiner := r.SeatWith(owner)
				joiner.Joins(created)
				owner.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: true})
				owner.Want("Deleted")
				owner.Close()
				r.Once(cut, func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
				joiner.DeleteNode(created.Node.Text)
				r.WantChildren(0)
				r.WantData(floorOf(created.Token))
			})
		})
	}
}

// wantSharing checks how many seats are remembered because they share a node.
func wantSharing(r *sessiontest.Rig, want int) {
	r.Helper()
	if n := r.Session.Sharing(); n != want {
		r.Errorf("%d seats are remembered for sharing a node, want %d", n, want)
	}
}

// TestNothingIsRememberedOfSharersThatHaveLeft: a node can be handed on from one seat to the next for ever, and no seat that has left
// is kept.
func TestNothingIsRememberedOfSharersThatHaveLeft(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		last := r.Seated()
		created := last.Makes(1)
		for range 100 {
			next := r.SeatWith(last)
			next.Joins(created)
			last.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
			last.Want("Deleted")
			last.Close()
			last = next
		}
		r.WantChildren(1)
		wantSharing(r, 1)
		last.DeleteNode(created.Node.Text)
		last.Close()
		synctest.Wait()
		wantSharing(r, 0)
	})
}

// These tests lose a node that seats share: each seat is told, and none joins after that.

// count returns how many of the inputs are of the type.
func count[T recipes.Input](inputs []recipes.Input) (n int) {
	for _, in := range inputs {
		if _, ok := in.(T); ok {
			n++
		}
	}
	return n
}

// TestEachIsToldThatTheNodeIsGone, however that is learnt, and all of them before the session does anything else. A create that comes
// in that moment does not join any more.
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
				time.Sleep(sessiontest.Timeout / 2) // less than the time after which a connection is given up for a request without an answer
				for i, s := range all {
					told := s.Fresh()
					// The event comes before the refusal of a claim, where there is a watch.
					gone, refused := count[recipes.Gone](told), count[recipes.Refused](told)
					if gone+refused < 1 || gone > 1 || refused > 1 {
						t.Errorf("seat %d was told %+v, want Gone or Refused, each at most once", i, told)
					}
				}
				if in, ok := late.Fresh()[0].(recipes.Created); !ok || in.Node.Text == created.Node.Text {
					t.Errorf("the seat that came after the loss was told %+v, want a node of its own", in)
				}
			})
		})
	}
}

// TestALeaseThatHasRunOutUnnoticedLetsNoSeatJoin: the machine was suspended, and the clock was not read since.
func TestALeaseThatHasRunOutUnnoticedLetsNoSeatJoin(t *testing.T) {
	var asleep atomic.Int64
	owning(t, func(r *sessiontest.Rig, owner *sessiontest.Seat, created recipes.Created) {
		joiner := r.SeatWith(owner)
		asleep.Add(int64(sessiontest.Lease))
		joiner.StandsAlone(1, created)
	}, session.OptionFunc(func(cfg *session.Config) {
		cfg.Asleep = func() time.Duration { return time.Duration(asleep.Load()) }
	}))
}

// TestAPlaceIsNotJoinedToARelease: a create in another seat's place names the place, and is no part of a release's request.
func TestAPlaceIsNotJoinedToARelease(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		w, node := r.Writer()
		reader, other := r.InPlaceOf(w), r.Seat()
		other.Want("Opened")
		const foreign = "of-another"
		r.Must(r.Server.Create(sessiontest.Dir+"/"+foreign, nil))
		r.Together(func() {
			other.Delete(recipes.Delete{Epoch: 1, Node: foreign})
			reader.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		other.WantAnswer(recipes.Deleted{Epoch: 1})
		if in := sessiontest.AnswerOf[recipes.Created](reader); in.Node.Seq != node.Seq {
			r.Errorf("the reader is answered %+v, want the place of %v", in, node)
		}
	})
}

// TestAPlaceIsGivenByAHolderOnly: a seat that does not hold, or is about to leave, may have a request under way that would be right
// only without a reader in its place.
func TestAPlaceIsGivenByAHolderOnly(t *testing.T) {
	refused := func(r *sessiontest.Rig, reader *sessiontest.Seat) {
		r.Helper()
		if in := sessiontest.AnswerOf[recipes.Refused](reader); in.Op != recipes.OpCreate {
			r.Errorf("answered %+v", in)
		}
	}
	sessiontest.Run(t, "waits", func(r *sessiontest.Rig) {
		r.Writer()
		second := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Kind: events.KindWrite})
		second.Makes(1)
		second.ListNodes(1)
		reader := r.InPlaceOf(second)
		reader.Create(recipes.Create{Epoch: 1, Attempt: 1})
		refused(r, reader)
		r.WantChildren(2)
	})
	sessiontest.Run(t, "leaves", func(r *sessiontest.Rig) {
		w, node := r.Writer()
		reader := r.InPlaceOf(w)
		asked := r.Asked()
		r.Together(func() {
			w.Delete(recipes.Delete{Epoch: 1, Node: node.Text, Floor: true})
			reader.Create(recipes.Create{Epoch: 1, Attempt: 1})
		})
		refused(r, reader)
		if n := len(asked()); n != 1 {
			r.Errorf("%d kinds of requests, want the release's alone", n)
		}
	})
}

// TestAWriterThatGaveItsPlaceLeavesNoFloor: the reader in its place is older than the reader of the floor.
func TestAWriterThatGaveItsPlaceLeavesNoFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		w, node := r.Writer()
		reader := r.InPlaceOf(w)
		made := reader.Makes(1)
		if made.Node.Seq != node.Seq || made.Alone {
			r.Errorf("the reader has %+v, want the place of %v, beside it", made, node)
		}
		if !r.Server.Exists(sessiontest.Dir + "/" + made.Node.Text) {
			r.Errorf("the nodes are %v, want %s among them", r.Server.Children(sessiontest.Dir), made.Node.Text)
		}
		w.Delete(recipes.Delete{Epoch: 1, Node: node.Text, Floor: true})
		w.Want("Deleted")
		r.WantData(sessiontest.OurData)
	})
}
