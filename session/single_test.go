package session_test

import (
	"errors"
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

// TestASingleCreateProvesEverything: the answer proves everything, and the second seat learns who has it.
func TestASingleCreateProvesEverything(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.Single(), r.Single()
		made := a.Makes(1)
		if !made.Alone || !made.Fresh || made.Node.Text != "7" || made.Token == 0 {
			t.Fatalf("%+v", made)
		}
		sessiontest.MakeOf[recipes.Taken](b, 1)
		listed := b.Look(0, false)
		holder, ok := b.Holder()
		if len(listed.Queue) != 1 || listed.Own != (recipes.Own{}) || !ok || holder.Node != sessiontest.Task || string(holder.Data) != "me" || holder.Session != r.Session.ID() {
			t.Errorf("the second seat finds %+v, held by %+v; want a queue of one, the first seat's", listed, holder)
		}
		reads := r.Server.Requests(zktest.OpGetData) + r.Server.Requests(zktest.OpExists)
		b.Watch(recipes.Watch{Epoch: 1, Node: "7"})
		b.Want("")
		if n := r.Server.Requests(zktest.OpGetData) + r.Server.Requests(zktest.OpExists) - reads; n != 0 {
			t.Errorf("%d requests were made for a watch that is armed, want none", n)
		}
		a.Delete(recipes.Delete{Epoch: 1, Node: "7"})
		a.Want("Deleted")
		b.Want("Gone")
		b.Makes(2)
	})
}

// TestSingleLostCreate: what became of a create is found out by the one seat that sent it, and
// until then no other seat of the session sends one.
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
			sessiontest.MakeOf[recipes.Taken](b, 1)
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
				a.Delete(recipes.Delete{Epoch: 1, Node: "7"})
				a.Want("Gone Deleted") // the look has armed a watch
				b.Fresh()
			}
			b.Makes(2)
		})
	}
}

// TestSingleReplaced: somebody deletes the seat's node and makes another one by the same name. A claim does not
// take that for the seat's, nor does a delete take it away.
func TestSingleReplaced(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a := r.Single()
		a.Makes(1)
		r.Must(r.Server.Delete(sessiontest.Task))
		r.Must(r.Server.Create(sessiontest.Task, nil))
		a.Want("") // nobody watches it yet
		a.Claim(recipes.Claim{Epoch: 1, Node: "7"})
		a.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
		a.Delete(recipes.Delete{Epoch: 1, Node: "7"})
		a.Want("Deleted")
		if !r.Server.Exists(sessiontest.Task) {
			t.Error("somebody's node was deleted, want it left alone")
		}
		a.List(recipes.List{Epoch: 1})
		if in := sessiontest.AnswerOf[recipes.Refused](a); !errors.Is(a.LastErr(), session.ErrKind) {
			t.Errorf("the list of a node that is no lock is answered %+v, %v; want Refused, %v", in, a.LastErr(), session.ErrKind)
		}
	})
}

// TestSingleLostDelete: a delete of unknown outcome is made again only if the node is still the seat's.
func TestSingleLostDelete(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		other  bool // somebody else is quick
	}{
		"executed": {zktest.CutAfter(), false}, "executed, taken": {zktest.CutAfter(), true},
		"not executed": {zktest.CutBefore(), false}, "turned away": {zktest.Fail(zktest.Throttled), false},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			a := r.Single()
			a.Makes(1)
			r.Once(c.action, func(q zktest.Request) bool { return q.Op == zktest.OpDelete })
			a.Delete(recipes.Delete{Epoch: 1, Node: "7"})
			sessiontest.AnswerOf[recipes.Unknown](a)
			if c.other {
				r.Must(r.Server.Create(sessiontest.Task, nil))
			}
			r.Settle()
			a.Fresh()
			a.Delete(recipes.Delete{Epoch: 1, Node: "7"})
			if _, deleted := a.Answer().(recipes.Deleted); !deleted || r.Server.Exists(sessiontest.Task) != c.other {
				r.Errorf("the second delete is answered Deleted: %v, with a node there: %v; want it deleted unless it is another's", deleted, r.Server.Exists(sessiontest.Task))
			}
		})
	}
}

// TestSingleRefusedDelete: a node that may not be deleted stays until its session ends. Another seat of the session
// that loses a reply does not take it for its own: it was held by the first one.
func TestSingleRefusedDelete(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.Single(), r.Single()
		a.Makes(1)
		r.Once(zktest.Fail(zktest.NoAuth), func(q zktest.Request) bool { return q.Op == zktest.OpDelete })
		a.Delete(recipes.Delete{Epoch: 1, Node: "7"})
		sessiontest.AnswerOf[recipes.Refused](a)
		a.Close()
		r.Once(zktest.CutBefore(), isCreate)
		sessiontest.MakeOf[recipes.Unknown](b, 1)
		r.Settle()
		b.Fresh()
		if listed := b.Look(1, true); listed.Own != (recipes.Own{}) || len(listed.Queue) != 1 {
			t.Errorf("the seat whose create is unknown finds %+v, want the other seat's node and none of its own", listed)
		}
	})
}

// TestSingleTellsTheOwner: by whatever way it becomes known that the node is gone, the seat that has it is told, once, and
// those who wait for it are.
func TestSingleTellsTheOwner(t *testing.T) {
	for name, c := range map[string]struct {
		watched bool // by the one that has it
		waits   bool
		replace bool
	}{
		"watched": {watched: true}, "another waits": {waits: true}, "both": {watched: true, waits: true},
		"nobody watches": {}, "replaced, and nobody watches": {replace: true},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			a, b := r.Single(), r.Single()
			a.Makes(1)
			if c.watched {
				time.Sleep(sessiontest.Timeout / 5)
			}
			if c.waits {
				b.Look(0, false)
				b.Watch(recipes.Watch{Epoch: 1, Node: "7"})
			}
			a.Want("")
			r.Must(r.Server.Delete(sessiontest.Task))
			if c.replace {
				r.Must(r.Server.Create(sessiontest.Task, nil))
			}
			if !c.watched && !c.waits {
				a.Want("")
				time.Sleep(sessiontest.Timeout / 5)
			}
			a.Want("Gone")
			if c.waits {
				b.Want("Gone")
			}
			time.Sleep(sessiontest.Timeout)
			a.Want("")
		})
	}
}

// TestSingleDiscardsNothing: a node of a past session went with it, and its name is another's by now.
func TestSingleDiscardsNothing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.Single(), r.Single()
		a.Makes(1)
		b.Discard(recipes.Discard{Node: "7"})
		time.Sleep(time.Second)
		if !r.Server.Exists(sessiontest.Task) {
			t.Error("another seat's node was discarded, want it left alone")
		}
	})
}

// TestSingleWithoutWrite: what costs one request where the node may be written takes the plain way where it may not.
func TestSingleWithoutWrite(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		acl := []zk.ACL{{Perms: zk.PermRead | zk.PermDelete | zk.PermCreate, Scheme: "world", ID: "anyone"}}
		a := r.SeatedAt(session.Place{Dir: sessiontest.Task, Kind: events.KindUnfair, ACL: acl})
		made := a.Makes(1)
		if made.Alone {
			t.Fatalf("%+v", made)
		}
		listed := a.Look(1, false)
		if listed.Own.Token == 0 || listed.Own.Owner != r.Session.ID() {
			t.Errorf("the list has %+v as the own node, want one of this session", listed)
		}
		a.ClaimNode(1, "7")
	})
}

// TestPausesGrowUpToABound: any time up to a bound, which grows with the attempts and not for ever.
func TestPausesGrowUpToABound(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a := r.Single()
		for attempt, bound := range map[recipes.Attempt]time.Duration{
			1: 5 * time.Millisecond, 2: 10 * time.Millisecond, 5: 80 * time.Millisecond,
			7: 320 * time.Millisecond, 8: 320 * time.Millisecond, 1 << 31: 320 * time.Millisecond,
		} {
			longest := time.Duration(0)
			for range 100 {
				start := time.Now()
				var took time.Duration
				paused := make(chan struct{})
				a.Mu.Lock()
				a.Hook = func(in recipes.Input) {
					if _, ok := in.(recipes.Paused); ok {
						took = time.Since(start)
						close(paused)
					}
				}
				a.Mu.Unlock()
				a.Pause(recipes.Pause{Epoch: 1, Attempt: attempt})
				<-paused
				longest = max(longest, took)
			}
			if longest >= bound || longest < bound/2 {
				t.Errorf("after attempt %d the longest of 100 pauses is %v, want more than half of the bound, %v", attempt, longest, bound)
			}
		}
	})
}

// TestAPastWatchSaysNothingOfTheOwnNode: the answer to a watch on the node before, which was asked for while that stood, comes
// when the seat has made the next one, which has the same name.
func TestAPastWatchSaysNothingOfTheOwnNode(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a := r.Single()
		a.FindGone(recipes.Watch{Epoch: 1, Node: "7"})
		a.Want("Gone") // it has none: this is about the one that it waits for
		a.MakesAlone()
		a.FindGone(recipes.Watch{Epoch: 1, Node: "7"})
		a.Want("")
		r.Must(r.Server.Delete(sessiontest.Task))
		a.Want("Gone") // the session has looked again, and watches it
	})
}
