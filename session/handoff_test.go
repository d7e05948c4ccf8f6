package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestAReleaseThatMayNotLeaveAFloorIsARelease(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		s := r.Seated()
		node := s.Makes(1).Node.Text
		r.DenyWriting()
		s.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		s.Want("Deleted")
		r.WantChildren(0)
		r.WantData(sessiontest.OurData)
	})
}

// TestAFloorNamesANodeByItsCreation, in the request that removes the node.
func TestAFloorNamesANodeByItsCreation(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		s := r.Seated()
		for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
			created := s.Makes(attempt)
			asked := r.Asked()
			s.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text, Floor: true})
			s.Want("Deleted")
			if got := asked(); len(got) != 1 || got[zktest.OpMulti] != 1 || len(r.Server.Children(sessiontest.Dir)) != 0 {
				t.Errorf("the server was asked for %v and has %v, want one Multi and no node", got, r.Server.Children(sessiontest.Dir))
			}
			r.WantData(floorOf(created.Token))
		}
		// Who does not know its token leaves no floor, and who need not leave one does not.
		r.Plant("x-lock-0000000099")
		s.Delete(recipes.Delete{Epoch: 1, Node: "x-lock-0000000099", Floor: true})
		s.Want("Deleted")
		created := s.Makes(4)
		r.WantData(sessiontest.OurData)
		s.Delete(recipes.Delete{Epoch: 1, Node: created.Node.Text})
		s.Want("Deleted")
		r.WantData(sessiontest.OurData)
	})
}

// TestAnAdvanceSaysWhoStandsAhead has two stand ahead, the nearer one leave, and looks what a waiter learns
// of it.
func TestAnAdvanceSaysWhoStandsAhead(t *testing.T) {
	type scene struct {
		*sessiontest.Rig
		pred  *sessiontest.Seat
		node  string // pred's
		token int64
	}
	leave := func(s scene, floor bool) {
		s.pred.Delete(recipes.Delete{Epoch: 1, Node: s.node, Floor: floor})
	}
	data := func(s scene, data string) {
		s.Must(s.Server.SetData(sessiontest.Dir, []byte(data)))
	}
	const other = "lock-0000000000"
	for name, c := range map[string]struct {
		leaves func(scene)
		want   recipes.Advanced
		reads  int // beside the claim
	}{
		"gives up": {func(s scene) { leave(s, false) }, recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"gives up, another of this session was the holder before": {func(s scene) {
			before := s.Seat()
			before.Want("Opened")
			node := before.CreateNode(1).Text
			before.ListNodes(1)
			before.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			before.Fresh()
			leave(s, false)
		}, recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"both are gone": {func(s scene) { leave(s, false); s.DeleteNode(other) }, recipes.Advanced{Epoch: 1}, 2},
		"leaves as holder in this session": {func(s scene) { leave(s, true) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
		"holder in this session, both gone": {func(s scene) { leave(s, true); s.DeleteNode(other) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
		"leaves as holder in another session": {func(s scene) { leave(s, false); data(s, floorOf(s.token)) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 1},
		"another one's floor": {func(s scene) { leave(s, false); data(s, floorOf(s.token+1)) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"a floor in somebody's data": {func(s scene) { leave(s, false); data(s, "x"+floorOf(s.token)) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"a joiner wrote over the floor": {func(s scene) { leave(s, false); data(s, floorOf(s.token)); data(s, sessiontest.OurData) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"of this session, a joiner wrote over the floor": {func(s scene) { leave(s, true); synctest.Wait(); data(s, sessiontest.OurData) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.Warm()
			r.Plant(other)
			s := scene{Rig: r, pred: r.Seat()}
			s.pred.Want("Opened")
			s.node = s.pred.CreateNode(1).Text
			s.token = s.pred.ListNodes(1).Own.Token
			waiter := r.Seated()
			own := waiter.CreateNode(1).Text
			waiter.ListNodes(1)
			waiter.WatchNode(s.node)
			waiter.Want("")
			c.leaves(s)
			waiter.WantGone(s.node)
			asked := r.Asked()
			waiter.Advance(recipes.Advance{Epoch: 1, Node: own, Past: s.node, Next: other})
			if in := waiter.Answer(); in != c.want {
				r.Errorf("%+v, want %+v", in, c.want)
			}
			if got := asked(); got[zktest.OpGetData] != c.reads || got[zktest.OpMulti] != 1 || len(got) != 1+min(c.reads, 1) {
				r.Errorf("the server was asked for %v, want one Multi and %d reads", got, c.reads)
			}
			if c.want.Stands {
				r.DeleteNode(other)
				waiter.WantGone(other)
			}
		})
	}
}

// TestAnAdvanceWithoutAnOwnNode is refused, whatever the floor says.
func TestAnAdvanceWithoutAnOwnNode(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		pred, waiter := r.Seat(), r.Seated()
		r.Plant("lock-0000000000")
		node := pred.CreateNode(1).Text
		pred.ListNodes(1)
		waiter.WatchNode(node)
		waiter.Want("")
		pred.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		waiter.WantGone(node)
		waiter.Advance(recipes.Advance{Epoch: 1, Node: "none", Past: node, Next: "lock-0000000000"})
		waiter.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpAdvance, Missing: true})
	})
}

// TestAnAdvanceSeesThatTheDataAreSomebodys: from then on they are left alone, though the
// directory was made by us.
func TestAnAdvanceSeesThatTheDataAreSomebodys(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Plant("lock-0000000000")
		pred, waiter := r.Seat(), r.Seated()
		node := pred.CreateNode(1).Text
		own := waiter.CreateNode(1).Text
		waiter.ListNodes(1)
		waiter.WatchNode(node)
		waiter.Want("")
		r.Must(r.Server.SetData(sessiontest.Dir, []byte(theirData)))
		pred.Delete(recipes.Delete{Epoch: 1, Node: node})
		waiter.WantGone(node)
		waiter.Advance(recipes.Advance{Epoch: 1, Node: own, Past: node, Next: "lock-0000000000"})
		waiter.WantAnswer(recipes.Advanced{Epoch: 1, Stands: true})
		waiter.Delete(recipes.Delete{Epoch: 1, Node: own, Floor: true})
		waiter.Want("Gone Deleted")
		r.WantData(theirData)
	})
}

// TestWhoHasSeenTheOneBeforeLeaveNeedsNoFloor: nobody is older than a holder, so the one
// behind it was the last one ahead, however that leaves.
func TestWhoHasSeenTheOneBeforeLeaveNeedsNoFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		waiter, advance := r.Leaving(func(s *sessiontest.Seat, node string) {
			s.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		})
		asked := r.Asked()
		waiter.Advance(advance)
		waiter.WantAnswer(recipes.Advanced{Epoch: 1, Floor: true, Fresh: true})
		r.WantAsked(asked(), zktest.OpMulti)
	})
}

// TestAHolderWhoseNodeStaysIsInTheWay: it has let go, but a server has not removed it.
func TestAHolderWhoseNodeStaysIsInTheWay(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		waiter, advance := r.Leaving(func(s *sessiontest.Seat, node string) {
			r.On(zktest.OpMulti, zktest.Fail(zktest.Throttled))
			s.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			s.Fresh()
			r.Server.Intercept(nil)
		})
		waiter.Advance(advance)
		waiter.WantAnswer(recipes.Advanced{Epoch: 1, Stands: true})
	})
}
