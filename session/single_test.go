package session_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func isCreate(q zktest.Request) bool {
	return q.Op == zktest.OpMulti && len(q.Parts) > 1 && q.Parts[0].Op == zktest.OpCreate
}

// TestASingleCreateProvesEverything: the answer proves everything, and the second seat learns the holder.
func TestASingleCreateProvesEverything(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.Single(), r.Single()
		made := a.Makes(1)
		if !made.Alone || !made.Fresh || made.Node.Text != "7" || made.Token == 0 {
			t.Fatalf("%+v", made)
		}
		sessiontest.MakeOf[recipes.Occupied](b, 1)
		listed := b.Look(0, false)
		holder, ok := b.Holder()
		if len(listed.Queue) != 1 || listed.Own != (recipes.Own{}) || !ok || holder.Node != sessiontest.Task || string(holder.Data) != "me" || holder.Session != r.Session.ID() {
			t.Errorf("the second seat finds %+v, held by %+v; want a queue of one, the first seat's", listed, holder)
		}
		reads := r.Server.Requests(zktest.OpGetData) + r.Server.Requests(zktest.OpExists)
		b.Do(recipes.Watch{Epoch: 1, Node: events.Name{Text: "7"}})
		b.Want("")
		if n := r.Server.Requests(zktest.OpGetData) + r.Server.Requests(zktest.OpExists) - reads; n != 0 {
			t.Errorf("%d requests were made for a watch that is armed, want none", n)
		}
		a.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "7"}})
		a.Want("Deleted")
		b.Want("Gone")
		b.Makes(2)
	})
}

// TestSingleLostCreate: the one seat that sent a create finds out its outcome. Until then no other seat of the session sends one.
func TestSingleLostCreate(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		made   bool
	}{"executed": {zktest.CutAfter(), true}, "not executed": {zktest.CutBefore(), false}} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.Must(r.Server.Create("/tasks", nil))
			a, b := r.Single(), r.Single()
			r.Once(c.action, isCreate)
			sessiontest.MakeOf[recipes.Unknown](a, 1)
			r.Settle()
			b.Fresh()
			creates := r.Server.Requests(zktest.OpMulti)
			sessiontest.MakeOf[recipes.Occupied](b, 1)
			if r.Server.Requests(zktest.OpMulti) != creates {
				r.Error("a create was sent while another one of the session is unknown, want Taken without a request")
			}
			if listed := b.Look(0, false); listed.Own != (recipes.Own{}) {
				r.Errorf("another seat finds %+v, want no node of its own", listed)
			}
			listed := a.Look(1, true)
			if made := listed.Own.Token != 0; made != c.made || made && listed.Own.Owner != r.Session.ID() {
				r.Fatalf("behind a barrier the seat finds %+v, want a node of its own: %v", listed, c.made)
			}
			if c.made {
				a.ClaimNode(1, "7")
				a.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "7"}})
				a.Want("Gone Deleted") // the look has armed a watch
				b.Fresh()
			}
			b.Makes(2)
		})
	}
}

// TestSingleLostDelete: a delete of unknown outcome is made again only if the node is still the seat's.
func TestSingleLostDelete(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		other  bool // another contender is quick
	}{
		"executed": {zktest.CutAfter(), false}, "executed, taken": {zktest.CutAfter(), true},
		"not executed": {zktest.CutBefore(), false}, "turned away": {zktest.Fail(zktest.Throttled), false},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			a := r.Single()
			a.Makes(1)
			r.Once(c.action, func(q zktest.Request) bool { return q.Op == zktest.OpDelete })
			a.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "7"}})
			sessiontest.AnswerOf[recipes.Unknown](a)
			if c.other {
				r.Must(r.Server.Create(sessiontest.Task, nil))
			}
			r.Settle()
			a.Fresh()
			a.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "7"}})
			if _, deleted := a.Answer().(recipes.Deleted); !deleted || r.Server.Exists(sessiontest.Task) != c.other {
				r.Errorf("the second delete is answered Deleted: %v, with a node there: %v; want it deleted unless it is another's", deleted, r.Server.Exists(sessiontest.Task))
			}
		})
	}
}

// TestSingleDiscardsNothing: a node of a past session went with it, and another node has its name by now.
func TestSingleDiscardsNothing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.Single(), r.Single()
		a.Makes(1)
		b.Do(recipes.Discard{Node: events.Name{Text: "7"}})
		time.Sleep(time.Second)
		if !r.Server.Exists(sessiontest.Task) {
			t.Error("another seat's node was discarded, want it left alone")
		}
	})
}

// TestAPastWatchSaysNothingOfTheOwnNode: a watch on the node before was asked for while that stood. Its answer comes when the seat has made
// the next node, which has the same name.
func TestAPastWatchSaysNothingOfTheOwnNode(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a := r.Single()
		a.FindGone(recipes.Watch{Epoch: 1, Node: events.Name{Text: "7"}})
		a.Want("Gone") // it has no node: this is about the one that it waits for
		a.MakesAlone()
		a.FindGone(recipes.Watch{Epoch: 1, Node: events.Name{Text: "7"}})
		a.Want("")
		r.Must(r.Server.Delete(sessiontest.Task))
		a.Want("Gone") // the session has looked again, and watches it
	})
}

// TestANodeThatCouldNotBeRemovedBelongsToNoSeat: it is of this session, and has the same name as every node of the lock. A seat that has lost the
// reply to its create must not take that node for its own.
func TestANodeThatCouldNotBeRemovedBelongsToNoSeat(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		admin := r.Admin()
		defer admin.Close()
		_, err := admin.Create("/tasks", nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate))
		r.Must(err)
		first, second := r.Owner(), r.Owner()
		made := first.MakesAlone()
		first.Do(recipes.Delete{Epoch: 1, Node: made.Node})
		if in, ok := first.Answer().(recipes.Refused); !ok || in.Op != recipes.OpDelete {
			r.Fatalf("a delete without permission is answered %+v, want Refused", in)
		}
		r.Once(zktest.CutAfter(), func(q zktest.Request) bool { return q.Path == sessiontest.TaskNode && q.Op == zktest.OpMulti })
		sessiontest.MakeOf[recipes.Unknown](second, 1)
		r.Settle()
		second.Fresh()
		second.Do(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		if in := sessiontest.AnswerOf[recipes.Listed](second); in.Own != (recipes.Own{}) || len(in.Queue) != 1 {
			r.Errorf("behind a barrier the seat finds %+v, want one node and none of its own", in)
		}
	})
}

// TestASeatWithoutANodeDeletesNothing: the node at the path is another seat's, of the same name.
func TestASeatWithoutANodeDeletesNothing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		first, second := r.Owner(), r.Owner()
		made := first.Makes(1)
		second.Do(recipes.Delete{Epoch: 1, Node: made.Node})
		second.Want("Deleted")
		if !r.Server.Exists(sessiontest.TaskNode) {
			r.Error("the node of the first is gone, want it left alone")
		}
	})
}

// TestAClaimIsOfTheOwnNode: there is a node at the path, and it is not the one that was made.
func TestAClaimIsOfTheOwnNode(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Owner()
		made := s.Makes(1)
		r.Must(r.Server.Delete(sessiontest.TaskNode))
		s.Fresh() // it may have heard of that
		r.Must(r.Server.Create(sessiontest.TaskNode, nil))
		s.Do(recipes.Claim{Epoch: 1, Node: made.Node})
		if in := sessiontest.AnswerOf[recipes.Refused](s); !in.Missing {
			r.Errorf("the claim of a node that was replaced is answered %+v, want Refused as missing", in)
		}
	})
}

// TestSessionsNodesAreLocks: those of sessions. Containers, and nodes with a time to live, have an owner that is no session.
func TestSessionsNodesAreLocks(t *testing.T) {
	for owner, want := range map[int64]bool{
		0: false, 0x100000000000001: true, -1 << 63: false, -1<<56 | 5: false, 0x7f00000000000001: true,
	} {
		if got := session.Ephemeral(&zk.Stat{EphemeralOwner: owner}); got != want {
			t.Errorf("a node of owner %#x is a lock's: %v, want %v", owner, got, want)
		}
	}
}
