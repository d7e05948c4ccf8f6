package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestAReleaseThatMayNotLeaveAFloorIsARelease(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		s := r.seat()
		s.want("Opened")
		node := s.makes(1).Node.Text
		r.denyWriting()
		s.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		s.want("Deleted")
		if got := r.srv.Children(dir); len(got) != 0 {
			t.Errorf("left %v", got)
		}
		r.wantData(ourData)
	})
}

// TestAFloorNamesANodeByItsCreation, in the request that removes the node.
func TestAFloorNamesANodeByItsCreation(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		s := r.seat()
		s.want("Opened")
		for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
			created := s.makes(attempt)
			asked := r.asked()
			s.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: true})
			s.want("Deleted")
			if got := asked(); len(got) != 1 || got[zktest.OpMulti] != 1 || len(r.srv.Children(dir)) != 0 {
				t.Errorf("asked %v, left %v", got, r.srv.Children(dir))
			}
			r.wantData(floorOf(created.Token))
		}
		// Who does not know its token leaves no floor, and who need not leave one does not.
		r.plant("x-lock-0000000099")
		s.Delete(recipes.Delete{Epoch: 1, Node: "x-lock-0000000099", Floor: true})
		s.want("Deleted")
		created := s.makes(4)
		r.wantData(ourData)
		s.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		s.want("Deleted")
		r.wantData(ourData)
	})
}

// TestAdvance has two stand ahead, the nearer one leave, and looks what a waiter learns
// of it.
func TestAdvance(t *testing.T) {
	type scene struct {
		*rig
		pred  *seat
		node  string // pred's
		token int64
	}
	leave := func(s scene, floor bool) {
		s.pred.Delete(recipes.Delete{Epoch: 1, Node: s.node, Floor: floor})
	}
	data := func(s scene, data string) {
		if err := s.srv.SetData(dir, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	const other = "lock-0000000000"
	for name, c := range map[string]struct {
		leaves func(scene)
		want   recipes.Advanced
		reads  int // beside the claim
	}{
		"gives up": {func(s scene) { leave(s, false) }, recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"gives up, another of this session was the holder before": {func(s scene) {
			before := s.seat()
			before.want("Opened")
			node := before.create(1).Text
			before.list(1)
			before.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			before.fresh()
			leave(s, false)
		}, recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"both are gone": {func(s scene) { leave(s, false); s.delete(other) }, recipes.Advanced{Epoch: 1}, 2},
		"leaves as holder in this session": {func(s scene) { leave(s, true) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
		"holder in this session, both gone": {func(s scene) { leave(s, true); s.delete(other) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
		"leaves as holder in another session": {func(s scene) { leave(s, false); data(s, floorOf(s.token)) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 1},
		"another one's floor": {func(s scene) { leave(s, false); data(s, floorOf(s.token+1)) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"a floor in somebody's data": {func(s scene) { leave(s, false); data(s, "x"+floorOf(s.token)) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"a joiner wrote over the floor": {func(s scene) { leave(s, false); data(s, floorOf(s.token)); data(s, ourData) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"of this session, a joiner wrote over the floor": {func(s scene) { leave(s, true); synctest.Wait(); data(s, ourData) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.warm()
				r.plant(other)
				s := scene{rig: r, pred: r.seat()}
				s.pred.want("Opened")
				s.node = s.pred.create(1).Text
				s.token = s.pred.list(1).Own.Token
				waiter := r.seat()
				waiter.want("Opened")
				own := waiter.create(1).Text
				waiter.list(1)
				waiter.watch(s.node)
				waiter.want("")
				c.leaves(s)
				waiter.wantGone(s.node)
				asked := r.asked()
				waiter.Advance(recipes.Advance{Epoch: 1, Node: own, Past: s.node, Next: other})
				if in := waiter.answer(); in != c.want {
					t.Errorf("%+v, want %+v", in, c.want)
				}
				if got := asked(); got[zktest.OpGetData] != c.reads || got[zktest.OpMulti] != 1 || len(got) != 1+min(c.reads, 1) {
					t.Errorf("asked %v", got)
				}
				if c.want.Stands {
					r.delete(other)
					waiter.wantGone(other)
				}
			})
		})
	}
}

// TestAnAdvanceWithoutAnOwnNode is refused, whatever the floor says.
func TestAnAdvanceWithoutAnOwnNode(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		pred, waiter := r.seat(), r.seat()
		waiter.want("Opened")
		r.plant("lock-0000000000")
		node := pred.create(1).Text
		pred.list(1)
		waiter.watch(node)
		waiter.want("")
		pred.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		waiter.wantGone(node)
		waiter.Advance(recipes.Advance{Epoch: 1, Node: "none", Past: node, Next: "lock-0000000000"})
		if in := waiter.answer(); in != (recipes.Refused{Epoch: 1, Op: recipes.OpAdvance, Missing: true}) {
			t.Errorf("%+v", in)
		}
	})
}

// TestAnAdvanceSeesThatTheDataAreSomebodys: from then on they are left alone, though the
// directory was made by us.
func TestAnAdvanceSeesThatTheDataAreSomebodys(t *testing.T) {
	inSession(t, func(r *rig) {
		r.warm()
		r.plant("lock-0000000000")
		pred, waiter := r.seat(), r.seat()
		waiter.want("Opened")
		node := pred.create(1).Text
		own := waiter.create(1).Text
		waiter.list(1)
		waiter.watch(node)
		waiter.want("")
		if err := r.srv.SetData(dir, []byte(theirData)); err != nil {
			t.Fatal(err)
		}
		pred.Delete(recipes.Delete{Epoch: 1, Node: node})
		waiter.wantGone(node)
		waiter.Advance(recipes.Advance{Epoch: 1, Node: own, Past: node, Next: "lock-0000000000"})
		if in := waiter.answer(); in != (recipes.Advanced{Epoch: 1, Stands: true}) {
			t.Errorf("%+v", in)
		}
		waiter.Delete(recipes.Delete{Epoch: 1, Node: own, Floor: true})
		waiter.want("Gone Deleted")
		r.wantData(theirData)
	})
}

// leaving is three in a queue, of which the last one waits for the second: the first
// leaves as a holder, and then the second for whatever reason.
func (r *rig) leaving(first func(*seat, string)) (waiter *seat, advance recipes.Advance) {
	r.Helper()
	r.warm()
	var seats [3]*seat
	var nodes [3]string
	for i := range seats {
		seats[i] = r.seat()
		seats[i].want("Opened")
		nodes[i] = seats[i].create(1).Text
		seats[i].list(1)
	}
	waiter = seats[2]
	waiter.watch(nodes[1])
	first(seats[0], nodes[0])
	waiter.fresh()
	seats[1].Delete(recipes.Delete{Epoch: 1, Node: nodes[1]})
	waiter.wantGone(nodes[1])
	return waiter, recipes.Advance{Epoch: 1, Node: nodes[2], Past: nodes[1], Next: nodes[0]}
}

// TestWhoHasSeenTheOneBeforeLeaveNeedsNoFloor: nobody is older than a holder, so the one
// behind it was the last one ahead, however that leaves.
func TestWhoHasSeenTheOneBeforeLeaveNeedsNoFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		waiter, advance := r.leaving(func(s *seat, node string) {
			s.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		})
		asked := r.asked()
		waiter.Advance(advance)
		if in := waiter.answer(); in != (recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}) {
			t.Errorf("%+v", in)
		}
		if got := asked(); got[zktest.OpMulti] != 1 || len(got) != 1 {
			t.Errorf("asked %v", got)
		}
	})
}

// TestAHolderWhoseNodeStaysIsInTheWay: it has let go, but a server has not removed it.
func TestAHolderWhoseNodeStaysIsInTheWay(t *testing.T) {
	inSession(t, func(r *rig) {
		waiter, advance := r.leaving(func(s *seat, node string) {
			r.srv.Intercept(func(q zktest.Request) zktest.Action {
				if q.Op == zktest.OpMulti {
					return zktest.Fail(zktest.Throttled)
				}
				return zktest.Pass()
			})
			s.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			s.fresh()
			r.srv.Intercept(nil)
		})
		waiter.Advance(advance)
		if in := waiter.answer(); in != (recipes.Advanced{Epoch: 1, Stands: true}) {
			t.Errorf("%+v", in)
		}
	})
}
