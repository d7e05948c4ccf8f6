package session_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestALookAtTheOneNodeArmsItsWatch: so a contender that waits needs no further request.
func TestALookAtTheOneNodeArmsItsWatch(t *testing.T) {
	inSession(t, func(r *rig) {
		a, b := r.Owner(), r.Owner()
		a.MakesAlone()
		makeOf[recipes.Occupied](b, 1)
		b.Look(0, false)
		asked := r.Asked()
		b.Watches("a")
		r.WantAsked(asked())
		a.Deletes("a")
		b.Want("Gone")
		b.Makes(2)
	})
}

// TestSingleLostCreate: the seat that sent a create finds out its outcome. Until then, no
// other seat of the session sends one.
func TestSingleLostCreate(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		made   bool
	}{"executed": {zktest.CutAfter(), true}, "not executed": {zktest.CutBefore(), false}} {
		run(t, name, func(r *rig) {
			r.Make("/tasks", "")
			a, b := r.Owner(), r.Owner()
			r.Once(c.action, func(q zktest.Request) bool {
				return q.Op == zktest.OpMulti && len(q.Parts) > 1 && q.Parts[0].Op == zktest.OpCreate
			})
			makeOf[recipes.Unknown](a, 1)
			r.Settle()
			b.Fresh()
			multis := r.Multis()
			makeOf[recipes.Occupied](b, 1)
			multis(0, 0, "while a create of the session is unknown")
			equal(r, b.Look(0, false).Own, recipes.Own{}, "the own node that another seat finds")
			own := a.Look(1, true).Own
			if made := own.Token != 0; made != c.made || made && own.Owner != r.Session.ID() {
				r.Fatalf("behind a barrier the seat finds %+v, want a node of its own: %v", own, c.made)
			}
			if c.made {
				a.ClaimNode("a")
				a.Do(recipes.Delete{Epoch: 1, Node: named("a")})
				a.Want("Gone Deleted") // the look has armed a watch
				b.Fresh()
			}
			b.Makes(2)
		})
	}
}

// TestSingleLostDelete: a delete with an unknown outcome is repeated only if the node is
// still the seat's.
func TestSingleLostDelete(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		other  bool // another contender is quick
	}{
		"executed": {zktest.CutAfter(), false}, "executed, taken": {zktest.CutAfter(), true},
		"not executed": {zktest.CutBefore(), false}, "turned away": {zktest.Fail(zktest.Throttled), false},
	} {
		run(t, name, func(r *rig) {
			a := r.Owner()
			a.Makes(1)
			r.Once(c.action, isA(zktest.OpDelete))
			ask[recipes.Unknown](a, recipes.Delete{Epoch: 1, Node: named("a")})
			if c.other {
				r.Make(taskNode, "")
			}
			r.Settle()
			a.Fresh()
			a.Asks(recipes.Delete{Epoch: 1, Node: named("a")}, recipes.Deleted{Epoch: 1})
			equal(r, r.Server.Exists(taskNode), c.other, "after the second delete there is a node, another's")
		})
	}
}

// TestAPastWatchSaysNothingOfTheOwnNode: a watch was requested while the previous node
// existed. Its answer arrives when the seat has created the next node, which has the same
// name.
func TestAPastWatchSaysNothingOfTheOwnNode(t *testing.T) {
	inSession(t, func(r *rig) {
		a := r.Owner()
		gone := func() recipes.Input { return recipes.Gone{Epoch: 1, Node: named("a")} }
		a.AnswerWith(1, recipes.OpWatch, gone)
		a.Want("Gone") // it has no node, so this is about the node that it waits for
		a.MakesAlone()
		a.AnswerWith(1, recipes.OpWatch, gone)
		a.Want("")
		r.Must(r.Server.Delete(taskNode))
		a.Want("Gone") // the session has looked again, and watches it
	})
}

// TestANodeThatCouldNotBeRemovedBelongsToNoSeat: the node belongs to this session, and
// has the same name as every node of the lock. A seat that has lost the reply to its
// create must not take that node for its own.
func TestANodeThatCouldNotBeRemovedBelongsToNoSeat(t *testing.T) {
	inSession(t, func(r *rig) {
		_, err := r.Admin().Create("/tasks", nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate))
		r.Must(err)
		first, second := r.Owner(), r.Owner()
		made := first.MakesAlone()
		first.Asks(recipes.Delete{Epoch: 1, Node: made.Node}, recipes.Refused{Epoch: 1, Op: recipes.OpDelete})
		r.Once(zktest.CutAfter(), isA(zktest.OpMulti))
		makeOf[recipes.Unknown](second, 1)
		r.Settle()
		second.Fresh()
		if in := second.Look(1, true); in.Own != (recipes.Own{}) || len(in.Queue) != 1 {
			r.Errorf("behind a barrier the seat finds %+v, want one node and none of its own", in)
		}
	})
}

// TestASeatWithoutANodeDeletesNothing: the node at the path belongs to another seat and
// has the same name. A seat whose own node ended with a past session does not discard it
// either.
func TestASeatWithoutANodeDeletesNothing(t *testing.T) {
	inSession(t, func(r *rig) {
		first, second := r.Owner(), r.Owner()
		made := first.Makes(1)
		second.Deletes(made.Node.Text)
		second.Do(recipes.Discard{Node: made.Node})
		time.Sleep(time.Second)
		expect(r, r.Server.Exists(taskNode), "the node of the first is gone, want it left alone")
	})
}

// TestAClaimIsOfTheOwnNode: there is a node at the path, but not the one that was
// created.
func TestAClaimIsOfTheOwnNode(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Owner()
		made := s.Makes(1)
		r.Must(r.Server.Delete(taskNode))
		s.Fresh() // it may have been notified of that
		r.Make(taskNode, "")
		missing := recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}
		s.Asks(recipes.Claim{Epoch: 1, Node: made.Node}, missing)
	})
}

// TestSessionsNodesAreLocks: only nodes owned by sessions count. Containers and nodes
// with a TTL have an owner that is not a session. Servers with the id 255 may not have
// nodes with a TTL.
func TestSessionsNodesAreLocks(t *testing.T) {
	for owner, want := range map[int64]bool{
		0: false, 0x100000000000001: true, -1 << 63: false, -1<<56 | 5: false, 0x7f00000000000001: true,
		-1<<56 | 1<<40: true, -1: true, // of a server with the id 255
	} {
		equal(t, session.Ephemeral(&zk.Stat{EphemeralOwner: owner}), want,
			"a node of owner %#x is a lock's", owner)
	}
}
