package session_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestAnswersOfAnEarlierConnection: they count as lost unless they stay true.
func TestAnswersOfAnEarlierConnection(t *testing.T) {
	for _, c := range []struct {
		op   recipes.Op
		in   recipes.Input
		stay bool // it stays true
	}{
		{recipes.OpCreate, recipes.Created{Epoch: 1, Alone: true, Token: 7}, false},
		{recipes.OpCreate, recipes.Created{Epoch: 1}, false},
		{recipes.OpCreate, recipes.Enqueued{Epoch: 1}, false},
		{recipes.OpCreate, recipes.Occupied{Epoch: 1}, true},
		{recipes.OpCreate, recipes.Refused{Epoch: 1, Op: recipes.OpCreate}, true},
		{recipes.OpList, recipes.Listed{Epoch: 1}, false},
		{recipes.OpClaim, recipes.Claimed{Epoch: 1}, false},
		{recipes.OpClaim, recipes.Claimed{Epoch: 1, Recorded: true}, false},
		{recipes.OpClaim, recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}, true},
		{recipes.OpAdvance, recipes.Advanced{Epoch: 1, Floor: true}, false},
		{recipes.OpAdvance, recipes.Advanced{Epoch: 1, Stands: true}, false},
		{recipes.OpSurvey, recipes.Surveyed{Epoch: 1}, false},
		{recipes.OpEnter, recipes.Entered{Epoch: 1, Permits: []string{"l"}}, false},
		{recipes.OpDelete, recipes.Deleted{Epoch: 1}, true},
		{recipes.OpWatch, recipes.Gone{Epoch: 1, Node: named("n")}, true},
		{recipes.OpWatch, recipes.Unknown{Epoch: 1, Op: recipes.OpWatch}, false},
	} {
		inSession(t, func(r *rig) {
			s := r.Seated()
			wait, open := gate(r)
			s.AnswerWith(1, c.op, func() recipes.Input { wait(); return c.in })
			synctest.Wait()
			r.Server.Cut(r.Only())
			r.Settle()
			s.Want("Suspended Reconnected")
			open()
			if c.stay {
				s.WantOnly(c.in)
			} else {
				s.WantOnly(recipes.Unknown{Epoch: 1, Op: c.op})
			}
		})
	}
}

// TestAnswersBetweenTwoConnections: until the next connection is reported, an answer of
// the last one counts. The report follows, and makes the machine verify it.
func TestAnswersBetweenTwoConnections(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s := r.SeatedAt(session.Place{Dir: lockDir, Data: []byte("own")})
		wait, open := gate(r)
		s.ClaimLate(recipes.Claim{Epoch: 1, Node: named("n")}, wait)
		synctest.Wait()
		r.Server.Down(true)
		s.Want("Suspended")
		open()
		s.WantOnly(recipes.Claimed{Epoch: 1, Fresh: true})
		r.Server.Down(false)
		r.Settle()
		s.Want("Reconnected")
	})
}

// TestAnAnswerSaysWhichClaimItIsTo: a claim either verifies that a holder still holds, or
// makes a contender a holder. Their answers must not be confused.
func TestAnAnswerSaysWhichClaimItIsTo(t *testing.T) {
	for _, held := range []bool{false, true} {
		run(t, fmt.Sprint("held: ", held), func(r *rig) {
			r.Plant("n")
			s := r.Seated()
			claim := recipes.Claim{Epoch: 1, Node: named("n"), Held: held}
			s.Asks(claim, recipes.Claimed{Epoch: 1, Fresh: true, Held: held})
			s.Asks(recipes.Claim{Epoch: 1, Node: named("none"), Held: held},
				recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true, Held: held})
			s.Asks(recipes.Claim{Epoch: 7, Node: named("n"), Held: held}, // there is no such session
				recipes.Unknown{Epoch: 7, Op: recipes.OpClaim, Held: held})
			wait, open := gate(r)
			s.ClaimLate(claim, wait)
			synctest.Wait()
			r.Server.Cut(r.Only())
			r.Settle()
			s.Want("Suspended Reconnected")
			open() // an answer of the earlier connection
			s.WantOnly(recipes.Unknown{Epoch: 1, Op: recipes.OpClaim, Held: held})
		})
	}
}

// TestAnEarlierAnswerSaysNothingOfTheNode: an unfair lock's node is deleted by hand
// during an outage, and another contender creates the next one. A late answer to a claim
// must not convince the former owner that the current node is its own, and neither must a
// late answer to the session's own read. A release leaves that node alone.
func TestAnEarlierAnswerSaysNothingOfTheNode(t *testing.T) {
	for name, ask := range map[string]func(s *seat, node string, wait func()){
		"claim": func(s *seat, node string, wait func()) {
			s.ClaimLate(recipes.Claim{Epoch: 1, Node: named(node)}, wait)
		},
		"look": func(s *seat, _ string, wait func()) { s.Verify(wait) },
	} {
		run(t, name, func(r *rig) {
			s := r.SeatedAt(session.Place{Dir: taskNode, Kind: events.KindUnfair, Data: []byte("own")})
			node := s.Makes(1).Node.Text
			wait, open := gate(r)
			ask(s, node, wait)
			synctest.Wait()
			admin := r.Admin()
			r.Either(func(q zktest.Request) bool { return q.Op == zktest.OpConnect && q.Session != 0 },
				zktest.Delay(time.Second), zktest.Pass()) // the session's, not that of admin
			r.Server.Cut(r.Session.ID())
			r.Must(r.Server.Delete(taskNode))
			_, err := admin.Create(taskNode, []byte("b"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			r.Must(err)
			s.Hears(func(in recipes.Input) { // in the session's loop: nothing else is settled before
				if _, again := in.(recipes.Reconnected); again {
					open()
					time.Sleep(time.Microsecond)
					s.Do(recipes.Delete{Epoch: 1, Node: named(node)})
				}
			})
			r.Settle()
			expect(t, r.Server.Exists(taskNode), "another contender's node was deleted, want it left alone")
		})
	}
}

// TestACreateIsTakenBackUnlessItWasSent: after a Cancel, a create is answered Canceled if
// it waits, or if its answer says that there is no directory. If it creates a node, the
// Cancel changes nothing.
func TestACreateIsTakenBackUnlessItWasSent(t *testing.T) {
	for name, c := range map[string]struct {
		dir, down   bool
		cancel      recipes.Epoch
		want, later string
		nodes       int
	}{
		"it waits for a connection":      {false, true, 1, "Canceled", "", 0},
		"of another epoch":               {false, true, 2, "", "Created", 1},
		"it is at the server":            {true, false, 1, "", "Created", 1},
		"and its directory is not there": {false, false, 1, "", "Canceled", 0},
		"the same, but of another epoch": {false, false, 2, "", "Created", 1},
	} {
		run(t, name, func(r *rig) {
			if c.dir {
				r.Make(path.Dir(lockDir), "")
				r.Make(lockDir, "")
			}
			s := r.Seated()
			r.OnAll(zktest.Delay(time.Second))
			if c.down {
				r.Server.Down(true)
				s.Want("Suspended")
			}
			s.Do(recipes.Create{Epoch: 1, Attempt: 1})
			synctest.Wait()
			s.Do(recipes.Cancel{Epoch: c.cancel})
			s.Do(recipes.Cancel{Epoch: c.cancel}) // changes nothing more
			s.Want(c.want)
			r.Server.Down(false)
			r.Settle()
			time.Sleep(10 * time.Second)
			r.WantChildren(c.nodes)
			told := typesOf(s.Fresh())
			expect(r, strings.HasSuffix(told, c.later), "in the end the seat is told %q, want %s", told, c.later)
		})
	}
}

// TestWhatIsNotWantedIsNotSent: a closed seat's requests are dropped, and so are a look
// and a resize whose caller gives up. A delete is still sent.
func TestWhatIsNotWantedIsNotSent(t *testing.T) {
	inSession(t, func(r *rig) {
		leaves, lists := r.Seated(), r.Seated()
		node := leaves.Makes(1).Node
		r.Server.Down(true)
		leaves.Want("Suspended")
		lists.Want("Suspended")
		leaves.Do(recipes.Delete{Epoch: 1, Node: node, Floor: true})
		lists.Do(recipes.List{Epoch: 1})
		leaves.Close()
		lists.Close()
		ctx, cancel := context.WithCancel(r.Context())
		words := r.Session.Observe(ctx, "/locks/election")
		resized := make(chan error, 1)
		go func() {
			_, err := r.Session.Resize(ctx, "/locks/permits", 3, nil)
			resized <- err
		}()
		synctest.Wait()
		cancel()
		eventstest.ErrorIs(r, <-resized, context.Canceled, "the size")
		word, told := <-words
		expect(r, !told, "the observer is told %+v, want nothing", word)
		synctest.Wait()
		asked := r.Asked()
		r.Server.Down(false)
		r.Settle()
		got := asked()
		delete(got, zktest.OpConnect)
		delete(got, zktest.OpSetWatches)
		r.WantAsked(got, zktest.OpDelete)
	})
}

// TestEveryRequestIsAnsweredOnceInAStorm: there are many requests at once, and the
// connection breaks all the time.
func TestEveryRequestIsAnsweredOnceInAStorm(t *testing.T) {
	inSession(t, func(r *rig) {
		rounds, list := eventstest.Amount(8, 20), make([]*seat, 400)
		for i := range list {
			list[i] = r.SeatedAt(session.Place{Dir: fmt.Sprintf("/locks/%d", i%7)})
		}
		for round := range rounds {
			requests := []recipes.Effect{
				recipes.Create{Epoch: 1, Attempt: recipes.Attempt(round)}, recipes.List{Epoch: 1, Barrier: true},
				recipes.Claim{Epoch: 1, Node: named("none")}, recipes.Delete{Epoch: 1, Node: named("none")},
			}
			for i, s := range list {
				s.Do(requests[(i+round)%len(requests)])
			}
			r.Server.Cut(r.Only())
			time.Sleep(time.Duration(round) * time.Millisecond)
		}
		r.Settle()
		time.Sleep(time.Second)
		for i, s := range list {
			if answers := s.FreshAnswers(); len(answers) != rounds {
				t.Fatalf("seat %d has %d answers to %d requests, want one to each", i, len(answers), rounds)
			}
		}
	})
}

// TestRequestsForWatchesThatOutliveTheirConnection: the connection is lost several times
// right after the handshake. So requests for watches stay in the client's queue, and are
// sent on later connections. If an answer arrives before the client has built its own
// request, the race detector fails the test.
func TestRequestsForWatchesThatOutliveTheirConnection(t *testing.T) {
	var cuts atomic.Int64
	rule := func(f faultnet.Frame) faultnet.Verdict {
		if f.Direction == faultnet.Down && f.Op == zktest.OpConnect && cuts.Add(-1) >= 0 {
			return faultnet.CutAfter()
		}
		return faultnet.Pass()
	}
	bubble(t, func(r *rig) {
		network := faultnet.New(r.Server.DialContext, rule)
		r.Open("", configured(func(c *session.Config) { c.Dial = network.Dial }))
		r.Plant("n")
		s := r.Watching("n")
		for range 50 {
			cuts.Store(3)
			r.Server.Cut(r.Only())
			r.Settle()
			time.Sleep(2 * time.Second) // the next dial comes at once
		}
		s.Fresh()
		r.DeleteNode("n")
		s.WantGone("n")
	})
}
