package session_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestANodeThatCouldNotBeRemovedIsNobodys: it is of this session, and bears the name that everybody's does. Who has lost
// the reply to his create must not take it for his.
func TestANodeThatCouldNotBeRemovedIsNobodys(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		admin := r.Admin()
		defer admin.Close()
		_, err := admin.Create("/tasks", nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate))
		r.Must(err)
		first, second := r.Claimant(), r.Claimant()
		made := first.MakesAlone()
		first.Delete(recipes.Delete{Epoch: 1, Node: made.Node.Text})
		if in, ok := first.Answer().(recipes.Refused); !ok || in.Op != recipes.OpDelete {
			r.Fatalf("a delete without permission is answered %+v, want Refused", in)
		}
		r.Once(zktest.CutAfter(), func(q zktest.Request) bool { return q.Path == sessiontest.TaskNode && q.Op == zktest.OpMulti })
		sessiontest.MakeOf[recipes.Unknown](second, 1)
		r.Settle()
		second.Fresh()
		second.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		if in := sessiontest.AnswerOf[recipes.Listed](second); in.Own != (recipes.Own{}) || len(in.Queue) != 1 {
			r.Errorf("behind a barrier the seat finds %+v, want one node and none of its own", in)
		}
	})
}

// TestWhoHasNothingDeletesNothing: the node at the path is another one's, of the same name.
func TestWhoHasNothingDeletesNothing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		first, second := r.Claimant(), r.Claimant()
		made := first.Makes(1)
		second.Delete(recipes.Delete{Epoch: 1, Node: made.Node.Text})
		second.Want("Deleted")
		if !r.Server.Exists(sessiontest.TaskNode) {
			r.Error("the node of the first is gone, want it left alone")
		}
	})
}

// TestAClaimIsOfTheOwnNode: there is a node at the path, and another one than was made.
func TestAClaimIsOfTheOwnNode(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Claimant()
		made := s.Makes(1)
		r.Must(r.Server.Delete(sessiontest.TaskNode))
		s.Fresh() // it may have heard of that
		r.Must(r.Server.Create(sessiontest.TaskNode, nil))
		s.Claim(recipes.Claim{Epoch: 1, Node: made.Node.Text})
		if in := sessiontest.AnswerOf[recipes.Refused](s); !in.Missing {
			r.Errorf("the claim of a node that was replaced is answered %+v, want Refused as missing", in)
		}
	})
}

// TestWhoseNodesAreLocks: those of sessions. Containers, and nodes with a time to live, have an owner that is none.
func TestWhoseNodesAreLocks(t *testing.T) {
	for owner, want := range map[int64]bool{
		0: false, 0x100000000000001: true, -1 << 63: false, -1<<56 | 5: false, 0x7f00000000000001: true,
	} {
		if got := session.Ephemeral(&zk.Stat{EphemeralOwner: owner}); got != want {
			t.Errorf("a node of owner %#x is a lock's: %v, want %v", owner, got, want)
		}
	}
}
