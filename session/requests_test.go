package session_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestEachRequestIsAnsweredWithWhatTheServerSays(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.Seated(), r.Seated()

		b.Do(recipes.List{Epoch: 1, Barrier: true})
		if in := sessiontest.AnswerOf[recipes.Listed](b); len(in.Queue) != 0 || in.Own != (recipes.Own{}) || in.Epoch != 1 {
			t.Errorf("a directory that does not exist is listed as %+v, want nothing in it", in)
		}
		nodeA, nodeB := a.CreateNode(1), b.CreateNode(1)
		if nodeA.Seq != 0 || nodeB.Seq != 1 || nodeA.Kind != events.KindLock {
			t.Errorf("the first two nodes are %+v and %+v, want locks 0 and 1", nodeA, nodeB)
		}
		r.Must(r.Server.Create(sessiontest.Dir+"/stranger", nil))
		listed := b.ListNodes(1)
		queue := slices.SortedFunc(slices.Values(listed.Queue), events.CompareNames)
		if !slices.Equal(queue, []events.Name{nodeA, nodeB}) {
			t.Errorf("the queue is %v, want %v and %v", queue, nodeA, nodeB)
		}
		if listed.Own.Name != nodeB || listed.Own.Owner != r.Only() || listed.Own.Token <= a.ListNodes(1).Own.Token {
			t.Errorf("the second seat finds %+v as its own, want %v with a larger token than the first's", listed.Own, nodeB)
		}
		for _, attempt := range []recipes.Attempt{0, 2} { // these have created nothing
			b.Do(recipes.List{Epoch: 1, Attempt: attempt})
			if in := sessiontest.AnswerOf[recipes.Listed](b); in.Own != (recipes.Own{}) || len(in.Queue) != 2 {
				t.Errorf("attempt %d, which has made nothing, finds %+v; want a queue of 2 and no node of its own", attempt, in)
			}
		}

		a.Do(recipes.Claim{Epoch: 1, Node: nodeA})
		a.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true})
		b.Do(recipes.Watch{Epoch: 1, Node: nodeA})
		b.Want("")
		a.Do(recipes.Delete{Epoch: 1, Node: nodeA})
		a.Want("Gone Deleted") // it watches its own node
		b.Want("Gone")
		a.Do(recipes.Delete{Epoch: 1, Node: nodeA})
		a.Want("Deleted") // there is no such node, which is as good
	})
}

func TestARefusalSaysWhatWasRefusedAndWhy(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		node := s.CreateNode(1).Text
		var fail zktest.Code
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if fail != 0 && q.Op != zktest.OpPing {
				return zktest.Fail(fail)
			}
			return zktest.Pass()
		})
		for _, c := range []struct {
			fail    zktest.Code
			request func()
			want    recipes.Input
			err     error
		}{
			{0, func() { s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "none"}}) }, recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}, zk.ErrNoNode},
			{zktest.NoAuth, func() { s.Do(recipes.Create{Epoch: 1, Attempt: 2}) }, recipes.Refused{Epoch: 1, Op: recipes.OpCreate}, session.ErrNoAuth},
			{zktest.NoAuth, func() { s.Do(recipes.List{Epoch: 1}) }, recipes.Refused{Epoch: 1, Op: recipes.OpList}, session.ErrNoAuth},
			{zktest.NoAuth, func() { s.Do(recipes.List{Epoch: 1, Barrier: true}) }, recipes.Refused{Epoch: 1, Op: recipes.OpList}, session.ErrNoAuth},
			{zktest.NoAuth, func() { s.Do(recipes.Watch{Epoch: 1, Node: events.Name{Text: node}}) }, recipes.Refused{Epoch: 1, Op: recipes.OpWatch, Node: events.Name{Text: node}}, session.ErrNoAuth},
			{zktest.NoAuth, func() { s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: node}}) }, recipes.Refused{Epoch: 1, Op: recipes.OpClaim}, session.ErrNoAuth},
			{zktest.NoAuth, func() { s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}}) }, recipes.Refused{Epoch: 1, Op: recipes.OpDelete}, session.ErrNoAuth},
			{zktest.QuotaExceeded, func() { s.Do(recipes.Create{Epoch: 1, Attempt: 2}) }, recipes.Refused{Epoch: 1, Op: recipes.OpCreate}, session.ErrQuota},
			// The session is on another connection, or the server has too much to do. That says nothing about the request.
			{zktest.SessionMoved, func() { s.Do(recipes.Create{Epoch: 1, Attempt: 2}) }, recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}, nil},
			{zktest.Throttled, func() { s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}}) }, recipes.Unknown{Epoch: 1, Op: recipes.OpDelete}, nil},
			{zktest.NoNode, func() { s.Do(recipes.Watch{Epoch: 1, Node: events.Name{Text: node}}) }, recipes.Gone{Epoch: 1, Node: events.Name{Text: node}}, nil},
			{zktest.NoNode, func() { s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}}) }, recipes.Deleted{Epoch: 1}, nil},
		} {
			synctest.Wait()
			fail = c.fail
			c.request()
			if in := s.Answer(); in != c.want {
				t.Errorf("%v: %+v, want %+v", c.fail, in, c.want)
			}
			if err := s.LastErr(); c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%v: %v, want %v", c.fail, err, c.err)
			}
		}
	})
}

func TestRequestsWaitForAConnection(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		r.Server.Down(true)
		s.Want("Opened Suspended")
		s.Do(recipes.Create{Epoch: 1, Attempt: 1})
		time.Sleep(sessiontest.Timeout / 2)
		s.Want("")
		r.Server.Down(false)
		r.Until("it is answered", func() bool { return len(r.Server.Children(sessiontest.Dir)) == 1 })
		s.Want("Reconnected Created")
		if n := r.Server.Requests(zktest.OpCreate); n != 2 { // without parents, and with
			t.Errorf("%d creates were sent, want 2", n)
		}
	})
}

func TestRequestsOfAPastEpochAreNotMade(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		r.Server.Down(true)
		s.Want("Opened Suspended")
		s.Do(recipes.Create{Epoch: 1, Attempt: 1}) // waits, and is overtaken by the expiry
		r.Must(r.Server.Expire(r.Only()))
		r.Server.Down(false)
		s.Await(2)
		got := s.Want("Expired Unknown Opened")
		if got[1] != (recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}) {
			t.Errorf("the create of the past epoch is answered %+v, want Unknown", got[1])
		}
		for _, c := range []struct {
			op   recipes.Op
			make func()
		}{
			{recipes.OpCreate, func() { s.Do(recipes.Create{Epoch: 1, Attempt: 2}) }},
			{recipes.OpList, func() { s.Do(recipes.List{Epoch: 1, Attempt: 1}) }},
			{recipes.OpWatch, func() { s.Do(recipes.Watch{Epoch: 1, Node: events.Name{Text: "n"}}) }},
			{recipes.OpClaim, func() { s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "n"}}) }},
			{recipes.OpDelete, func() { s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "n"}}) }},
		} {
			c.make()
			s.WantAnswer(recipes.Unknown{Epoch: 1, Op: c.op})
		}
		if got := r.Server.Tree(); len(got) != 0 {
			t.Errorf("requests of a past epoch have made %v, want nothing", got)
		}
	})
}

// If the session ends while a request is on its way, the request is answered in its own epoch.
func TestAnAnswerBearsTheEpochOfItsRequest(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		r.On(zktest.OpCreate, zktest.Swallow())
		s.Want("Opened")
		s.Do(recipes.Create{Epoch: 1, Attempt: 1})
		synctest.Wait()
		s.ExpireBefore(2)
		var answers []recipes.Input
		for _, in := range s.Fresh() {
			if _, ok := in.(recipes.Unknown); ok {
				answers = append(answers, in)
			}
		}
		if !slices.Equal(answers, []recipes.Input{recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}}) {
			t.Errorf("the create is answered %+v, want one Unknown of its epoch", answers)
		}
	})
}

func TestParentsAreContainers(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  zktest.Code // of createContainer
		reaps int
	}{
		{"containers", 0, 1}, // the rest goes with the next reaping
		{"server without containers", zktest.Unimplemented, 0},
	} {
		sessiontest.Run(t, c.name, func(r *sessiontest.Rig) {
			r.Server.Intercept(func(q zktest.Request) zktest.Action {
				if c.code != 0 && q.Op == zktest.OpCreateContainer {
					return zktest.Fail(c.code)
				}
				return zktest.Pass()
			})
			s := r.SeatedAt(session.Place{Dir: "/x/y/z"})
			node := s.CreateNode(1).Text
			if got, want := r.Server.Tree(), []string{"/x", "/x/y", "/x/y/z", "/x/y/z/" + node}; !slices.Equal(got, want) {
				r.Errorf("made %v, want %v", got, want)
			}
			s.DeleteNode(node)
			if n := r.Server.Reap(); n != c.reaps {
				r.Errorf("%d containers are reaped, want %d; left %v", n, c.reaps, r.Server.Tree())
			}
			if r.Server.Exists("/x/y/z") != (c.reaps == 0) {
				r.Errorf("after the reaping there are %v, want the parents kept: %v", r.Server.Tree(), c.reaps == 0)
			}
			// The container went while no contender was there; then it is made again.
			s.Do(recipes.Create{Epoch: 1, Attempt: 2})
			if in := s.Answer(); sessiontest.TypesOf([]recipes.Input{in}) != "Created" {
				r.Errorf("%+v", in)
			}
		})
	}
}

// A directory that is reaped between its creation and that of the node is made again, but not for ever.
func TestADirectoryThatKeepsGoingAway(t *testing.T) {
	for _, times := range []int{1, 5, 1000} {
		sessiontest.InSession(t, func(r *sessiontest.Rig) {
			var mu sync.Mutex
			left := times
			r.Server.Intercept(func(q zktest.Request) zktest.Action {
				mu.Lock()
				defer mu.Unlock()
				if q.Op == zktest.OpCreate && left > 0 && r.Server.Exists(sessiontest.Dir) {
					left--
					if err := r.Server.Delete(sessiontest.Dir); err != nil {
						t.Error(err)
					}
				}
				return zktest.Pass()
			})
			s := r.Seated()
			s.Do(recipes.Create{Epoch: 1, Attempt: 1})
			in, want := sessiontest.TypesOf([]recipes.Input{s.Answer()}), "Created"
			if times == 1000 {
				want = "Refused"
			}
			if in != want {
				t.Errorf("%d times: %s, want %s", times, in, want)
			}
		})
	}
}

// A follower that has fallen behind does not know the latest nodes. After a write through it, it does.
func TestABarrierSeesWhatHasHappenedBefore(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		own := s.CreateNode(1)
		r.Server.Lag(r.Only(), true)
		r.Plant("lock-0000000001")
		if got := s.ListNodes(1).Queue; len(got) != 1 || got[0] != own {
			t.Errorf("through a follower that lags the queue is %v, want only %v", got, own)
		}
		s.Do(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		if in := sessiontest.AnswerOf[recipes.Listed](s); len(in.Queue) != 2 || in.Own.Name != own {
			t.Errorf("after a barrier the listing is %+v, want both nodes", in)
		}
		r.Server.Lag(r.Only(), false)
	})
}

func TestADiscardIsTriedUntilTheNodeIsGone(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		for _, name := range []string{"a", "b", "c"} {
			r.Must(r.Server.Create(sessiontest.Dir+"/"+name, nil))
		}
		s := r.Seated()
		s.Do(recipes.Discard{Node: events.Name{Text: "a"}})
		s.Do(recipes.Discard{Node: events.Name{Text: "none"}})
		synctest.Wait()
		if got := r.Server.Children(sessiontest.Dir); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("after the discard there are %v, want b and c", got)
		}
		// It is tried until it is done, through lost connections and in the next session, also when its seat is closed.
		var mu sync.Mutex
		cuts := 3
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			mu.Lock()
			defer mu.Unlock()
			if q.Op == zktest.OpDelete && cuts > 0 {
				cuts--
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		s.Do(recipes.Discard{Node: events.Name{Text: "b"}})
		s.Close()
		r.Until("b is gone", func() bool { return !r.Server.Exists(sessiontest.Dir + "/b") })

		r.Server.Down(true)
		synctest.Wait()
		s.Do(recipes.Discard{Node: events.Name{Text: "c"}})
		r.Must(r.Server.Expire(r.Only()))
		r.Server.Down(false)
		r.Until("c is gone", func() bool { return !r.Server.Exists(sessiontest.Dir + "/c") })
		for _, in := range s.Fresh() {
			if _, connection := in.(recipes.Suspended); connection { // the first cut may have come before Close
				continue
			}
			t.Errorf("a seat that discards is told %T, want nothing", in)
		}
	})
}

// A discard that waits for a connection must not hold up the answer to a request that is too late.
func TestPastRequestsDoNotWaitBehindADiscard(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seat()
		r.Server.Down(true)
		s.Want("Opened Suspended")
		s.Do(recipes.Discard{Node: events.Name{Text: "n"}})
		s.Do(recipes.Create{Epoch: 1, Attempt: 1})
		r.Must(r.Server.Expire(r.Only()))
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpConnect && q.Session == 0 {
				return zktest.CutBefore() // no new session for the time being
			}
			return zktest.Pass()
		})
		r.Server.Down(false)
		r.Until("the session is over", func() bool { return r.Session.State() == session.Connecting })
		s.Want("Expired Unknown")
		r.Server.Intercept(nil)
	})
}

// TestABarrierIsAWrite: the request before the reading has to go through the quorum. A sync does not: a leader that has been deposed, and
// has not noticed, answers it.
func TestABarrierIsAWrite(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		s.CreateNode(1)
		var asked []zktest.Op
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpPing {
				asked = append(asked, q.Op)
			}
			return zktest.Pass()
		})
		s.Do(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		sessiontest.AnswerOf[recipes.Listed](s)
		read := slices.IndexFunc(asked, func(op zktest.Op) bool {
			return op == zktest.OpGetChildren || op == zktest.OpGetChildren2
		})
		if read < 1 || asked[read-1] != zktest.OpMulti {
			t.Errorf("the server was asked for %v, want a Multi before the reading", asked)
		}
	})
}
