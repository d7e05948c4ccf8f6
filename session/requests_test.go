package session_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestEachRequestIsAnsweredWithWhatTheServerSays(t *testing.T) {
	inSession(t, func(r *rig) {
		a, b := r.Seated(), r.Seated()
		if in := b.Look(0, true); len(in.Queue) != 0 || in.Own != (recipes.Own{}) || in.Epoch != 1 {
			t.Errorf("a directory that does not exist is listed as %+v, want nothing in it", in)
		}
		nodeA, nodeB := a.Makes(1).Node, b.Makes(1).Node
		expect(t, nodeA.Seq == 0 && nodeB.Seq == 1 && nodeA.Kind == events.KindLock,
			"the first two nodes are %+v and %+v, want locks 0 and 1", nodeA, nodeB)
		r.Plant("stranger")
		listed := b.Look(1, false)
		queue := slices.SortedFunc(slices.Values(listed.Queue), events.CompareNames)
		expect(t, slices.Equal(queue, []events.Name{nodeA, nodeB}),
			"the queue is %v, want %v and %v", queue, nodeA, nodeB)
		own := listed.Own
		expect(t, own.Name == nodeB && own.Owner == r.Only() && own.Token > a.Look(1, false).Own.Token,
			"the second seat finds %+v as its own, want %v with a larger token than the first's", own, nodeB)
		for _, attempt := range []recipes.Attempt{0, 2} { // these have created nothing
			if in := b.Look(attempt, false); in.Own != (recipes.Own{}) || len(in.Queue) != 2 {
				t.Errorf("attempt %d finds %+v; want a queue of 2 and no node of its own", attempt, in)
			}
		}

		a.Asks(recipes.Claim{Epoch: 1, Node: nodeA}, recipes.Claimed{Epoch: 1, Fresh: true})
		b.Watches(nodeA.Text)
		a.Do(recipes.Delete{Epoch: 1, Node: nodeA})
		a.Want("Gone Deleted") // it watches its own node
		b.Want("Gone")
		a.Deletes(nodeA.Text) // there is no such node, which counts as deleted
	})
}

func TestARefusalSaysWhatWasRefusedAndWhy(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		node := named(s.Makes(1).Node.Text)
		var fail zktest.Code
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if fail != 0 && q.Op != zktest.OpPing && q.Op != zktest.OpConnect {
				return zktest.Fail(fail)
			}
			return zktest.Pass()
		})
		create, list := recipes.Create{Epoch: 1, Attempt: 2}, recipes.List{Epoch: 1}
		claim, watch := recipes.Claim{Epoch: 1, Node: node}, recipes.Watch{Epoch: 1, Node: node}
		remove := recipes.Delete{Epoch: 1, Node: node}
		refused := func(op recipes.Op) recipes.Input { return recipes.Refused{Epoch: 1, Op: op} }
		unknown := func(op recipes.Op) recipes.Input { return recipes.Unknown{Epoch: 1, Op: op} }
		for _, c := range []struct {
			fail    zktest.Code
			request recipes.Effect
			want    recipes.Input
			err     error
		}{
			{
				0, recipes.Claim{Epoch: 1, Node: named("none")},
				recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}, zk.ErrNoNode,
			},
			{zktest.NoAuth, create, refused(recipes.OpCreate), session.ErrNoAuth},
			{zktest.NoAuth, list, refused(recipes.OpList), session.ErrNoAuth},
			{zktest.NoAuth, recipes.List{Epoch: 1, Barrier: true}, refused(recipes.OpList), session.ErrNoAuth},
			{zktest.NoAuth, watch, recipes.Refused{Epoch: 1, Op: recipes.OpWatch, Node: node}, session.ErrNoAuth},
			{zktest.NoAuth, claim, refused(recipes.OpClaim), session.ErrNoAuth},
			{zktest.NoAuth, remove, refused(recipes.OpDelete), session.ErrNoAuth},
			{zktest.QuotaExceeded, create, refused(recipes.OpCreate), session.ErrQuota},
			// The server is overloaded. That says nothing about the request.
			{zktest.Throttled, remove, unknown(recipes.OpDelete), nil},
			{zktest.NoNode, watch, recipes.Gone{Epoch: 1, Node: node}, nil},
			{zktest.NoNode, remove, recipes.Deleted{Epoch: 1}, nil},
			// The session has moved to another connection. That says nothing either, and
			// the session connects again.
			{zktest.SessionMoved, create, unknown(recipes.OpCreate), nil},
		} {
			synctest.Wait()
			fail = c.fail
			s.Asks(c.request, c.want)
			err := s.LastErr()
			expect(t, c.err == nil || errors.Is(err, c.err), "%v: %v, want %v", c.fail, err, c.err)
		}
	})
}

// TestRequestsOfAPastEpochAreNotMade: whether the session ends while they wait for a
// connection or while they are in transit, they are answered in their own epoch.
func TestRequestsOfAPastEpochAreNotMade(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		r.Server.Down(true)
		s.Want("Suspended")
		s.Do(recipes.Create{Epoch: 1, Attempt: 1}) // waits, and the expiry overtakes it
		r.Must(r.Server.Expire(r.Only()))
		r.Server.Down(false)
		s.Await(2)
		unknown := recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}
		equal[recipes.Input](t, s.Want("Expired Unknown Opened")[1], unknown, "the answer of the past epoch")
		for op, request := range map[recipes.Op]recipes.Effect{
			recipes.OpCreate: recipes.Create{Epoch: 1, Attempt: 2},
			recipes.OpList:   recipes.List{Epoch: 1, Attempt: 1},
			recipes.OpWatch:  recipes.Watch{Epoch: 1, Node: named("n")},
			recipes.OpClaim:  recipes.Claim{Epoch: 1, Node: named("n")},
			recipes.OpDelete: recipes.Delete{Epoch: 1, Node: named("n")},
		} {
			s.Asks(request, recipes.Unknown{Epoch: 1, Op: op})
		}
		expect(t, len(r.Server.Tree()) == 0, "requests of a past epoch made %v, want nothing", r.Server.Tree())
		r.On(zktest.OpCreate, zktest.Swallow())
		s.Do(recipes.Create{Epoch: 2, Attempt: 1})
		synctest.Wait()
		s.ExpireBefore(3)
		s.WantAnswer(recipes.Unknown{Epoch: 2, Op: recipes.OpCreate}) // it was in transit
	})
}

func TestParentsAreContainers(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  zktest.Code // of createContainer
		reaps int
	}{
		{"containers", 0, 1}, // the others are removed at the next check
		{"server without containers", zktest.Unimplemented, 0},
	} {
		run(t, c.name, func(r *rig) {
			if c.code != 0 {
				r.On(zktest.OpCreateContainer, zktest.Fail(c.code))
			}
			s := r.SeatedAt(session.Place{Dir: "/x/y/z"})
			node := s.Makes(1).Node.Text
			eventstest.Equal(r, r.Server.Tree(), []string{"/x", "/x/y", "/x/y/z", "/x/y/z/" + node}, "made")
			s.DeleteNode(node)
			n := r.Server.Reap()
			expect(r, n == c.reaps, "%d containers are reaped, want %d; left %v", n, c.reaps, r.Server.Tree())
			expect(r, r.Server.Exists("/x/y/z") == (c.reaps == 0),
				"after the reaping there are %v, want the parents kept: %v", r.Server.Tree(), c.reaps == 0)
			s.Makes(2) // and the container again, which was removed while it was empty
		})
	}
}

// TestADirectoryThatKeepsGoingAway: a directory that is removed before the node is
// created in it is created again, but not forever.
func TestADirectoryThatKeepsGoingAway(t *testing.T) {
	for times, want := range map[int]string{1: "Created", 5: "Created", 1000: "Refused"} {
		inSession(t, func(r *rig) {
			r.Times(times, zktest.Pass(), func(q zktest.Request) bool {
				if q.Op != zktest.OpCreate || !r.Server.Exists(lockDir) {
					return false
				}
				r.Must(r.Server.Delete(lockDir))
				return true
			})
			s := r.Seated()
			s.Do(recipes.Create{Epoch: 1, Attempt: 1})
			equal(t, typesOf([]recipes.Input{s.Answer()}), want, "%d times", times)
		})
	}
}

// TestABarrierSeesWhatHasHappenedBefore: a follower that has fallen behind does not know
// the latest nodes. After a write through it, it does. So the request before the listing
// must go through the quorum. A sync is not enough: a deposed leader that has not noticed
// answers it.
func TestABarrierSeesWhatHasHappenedBefore(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		own := s.Makes(1).Node
		r.Server.Lag(r.Only(), true)
		r.Plant("lock-0000000001")
		if got := s.Look(1, false).Queue; len(got) != 1 || got[0] != own {
			t.Errorf("through a follower that lags the queue is %v, want only %v", got, own)
		}
		var asked []zktest.Op
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpPing {
				asked = append(asked, q.Op)
			}
			return zktest.Pass()
		})
		if in := s.Look(1, true); len(in.Queue) != 2 || in.Own.Name != own {
			t.Errorf("after a barrier the listing is %+v, want both nodes", in)
		}
		read := slices.IndexFunc(asked, func(op zktest.Op) bool {
			return op == zktest.OpGetChildren || op == zktest.OpGetChildren2
		})
		expect(t, read >= 1 && asked[read-1] == zktest.OpMulti,
			"the server was asked for %v, want a Multi before the reading", asked)
		r.Server.Lag(r.Only(), false)
	})
}

// TestADiscardIsTriedUntilTheNodeIsGone: that includes lost connections, the next
// session, and a closed seat.
func TestADiscardIsTriedUntilTheNodeIsGone(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("a", "b", "c")
		s := r.Seated()
		s.Do(recipes.Discard{Node: named("a")})
		s.Do(recipes.Discard{Node: named("none")})
		synctest.Wait()
		got := r.Server.Children(lockDir)
		expect(t, slices.Equal(got, []string{"b", "c"}), "after the discard there are %v, want b and c", got)
		r.Times(3, zktest.CutBefore(), isA(zktest.OpDelete))
		s.Do(recipes.Discard{Node: named("b")})
		s.Close()
		r.Until("b is gone", func() bool { return !r.Server.Exists(lockDir + "/b") })

		r.Server.Down(true)
		synctest.Wait()
		s.Do(recipes.Discard{Node: named("c")})
		r.Must(r.Server.Expire(r.Only()))
		r.Server.Down(false)
		r.Until("c is gone", func() bool { return !r.Server.Exists(lockDir + "/c") })
		// The first cut may have come before Close.
		told := s.Fresh()
		expect(t, len(told) == count[recipes.Suspended](told), "one that discards is told %+v, want nothing", told)
	})
}

// TestPastRequestsDoNotWaitBehindADiscard: the discard waits for a connection.
func TestPastRequestsDoNotWaitBehindADiscard(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Seated()
		r.Server.Down(true)
		s.Want("Suspended")
		s.Do(recipes.Discard{Node: named("n")})
		s.Do(recipes.Create{Epoch: 1, Attempt: 1})
		r.Must(r.Server.Expire(r.Only()))
		r.Either(func(q zktest.Request) bool { return q.Op == zktest.OpConnect && q.Session == 0 },
			zktest.CutBefore(), zktest.Pass()) // no new session for now
		r.Server.Down(false)
		r.Until("the session is over", func() bool { return r.Session.State() == session.Connecting })
		s.Want("Expired Unknown")
		r.Server.Intercept(nil)
	})
}

// TestRemove: a node is deleted whichever session owns it. A missing node is no error,
// even one that goes just before the delete. A refusal is an error. If the reply to the
// delete is lost, a later node with the same name stays.
func TestRemove(t *testing.T) {
	inSession(t, func(r *rig) {
		found := func(node string) session.Found {
			all, err := r.Session.Look(r.Context(), node)
			eventstest.Must(t, err)
			return all[0]
		}
		node := lockDir + "/" + r.Seated().Makes(1).Node.Text
		old := found(node)
		for range 2 {
			eventstest.ErrorIs(t, r.Session.Remove(r.Context(), lockDir, old), nil, "removing %s", node)
		}
		expect(t, !r.Server.Exists(node), "%s is there, want it removed", node)
		r.Make("/full/child", "")
		expect(t, r.Session.Remove(r.Context(), "/", found("/full")) != nil, "a full node was removed, want a refusal")

		r.Make("/gone", "")
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpDelete {
				eventstest.Check(t, r.Server.Delete("/gone"))
			}
			return zktest.Pass()
		})
		eventstest.ErrorIs(t, r.Session.Remove(r.Context(), "/", found("/gone")), nil, "removing a node that goes")

		r.Make("/one", "first")
		first := found("/one")
		lost := false
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			switch {
			case q.Op == zktest.OpDelete && !lost:
				lost = true
				return zktest.CutAfter()
			case q.Op == zktest.OpConnect:
				eventstest.Check(t, r.Server.Create("/one", []byte("next")))
			}
			return zktest.Pass()
		})
		eventstest.ErrorIs(t, r.Session.Remove(r.Context(), "/", first), nil, "removing a node, whose reply is lost")
		data, _ := r.Server.Data("/one")
		expect(t, lost && string(data) == "next", "the reply is lost: %v; the node is %q, want the next one", lost, data)
	})
}
