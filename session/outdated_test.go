package session_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// gate holds up the goroutine that waits at it until it is opened, or the test ends.
func gate(r *sessiontest.Rig) (wait, open func()) {
	closed := make(chan struct{})
	open = sync.OnceFunc(func() { close(closed) })
	r.Cleanup(open)
	return func() { <-closed }, open
}

// An answer that has come on an earlier connection counts as lost, unless it stays true.
func TestAnswersOfAnEarlierConnection(t *testing.T) {
	const unknown = "Unknown"
	for _, c := range []struct {
		op   recipes.Op
		in   recipes.Input
		want string // its type, if it stays true
	}{
		{recipes.OpCreate, recipes.Created{Epoch: 1, Alone: true, Token: 7}, unknown},
		{recipes.OpCreate, recipes.Created{Epoch: 1}, unknown},
		{recipes.OpCreate, recipes.Enqueued{Epoch: 1}, unknown},
		{recipes.OpCreate, recipes.Occupied{Epoch: 1}, "Occupied"},
		{recipes.OpCreate, recipes.Refused{Epoch: 1, Op: recipes.OpCreate}, "Refused"},
		{recipes.OpList, recipes.Listed{Epoch: 1}, unknown},
		{recipes.OpClaim, recipes.Claimed{Epoch: 1}, unknown},
		{recipes.OpClaim, recipes.Claimed{Epoch: 1, Recorded: true}, unknown},
		{recipes.OpClaim, recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}, "Refused"},
		{recipes.OpAdvance, recipes.Advanced{Epoch: 1, Floor: true}, unknown},
		{recipes.OpAdvance, recipes.Advanced{Epoch: 1, Stands: true}, unknown},
		{recipes.OpSurvey, recipes.Surveyed{Epoch: 1}, unknown},
		{recipes.OpEnter, recipes.Entered{Epoch: 1, Permits: []string{"l"}}, unknown},
		{recipes.OpDelete, recipes.Deleted{Epoch: 1}, "Deleted"},
		{recipes.OpWatch, recipes.Gone{Epoch: 1, Node: events.Name{Text: "n"}}, "Gone"},
		{recipes.OpWatch, recipes.Unknown{Epoch: 1, Op: recipes.OpWatch}, unknown},
	} {
		sessiontest.Run(t, fmt.Sprintf("%v %s %+v", c.op, sessiontest.TypesOf([]recipes.Input{c.in}), c.in), func(r *sessiontest.Rig) {
			s := r.Seated()
			wait, open := gate(r)
			s.AnswerWith(1, c.op, func() recipes.Input { wait(); return c.in })
			synctest.Wait()
			r.Server.Cut(r.Only())
			r.Settle()
			open()
			told := s.Want("Suspended Reconnected " + c.want)
			if want := (recipes.Unknown{Epoch: 1, Op: c.op}); c.want == unknown && told[2] != want {
				t.Errorf("told %+v, want %+v", told[2], want)
			}
		})
	}
}

// Before the news of the next connection an answer of the last one counts: the news come after it, and have it verified.
func TestAnswersBetweenTwoConnections(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Data: []byte("own")})
		wait, open := gate(r)
		s.ClaimLate(recipes.Claim{Epoch: 1, Node: events.Name{Text: "n"}}, wait)
		synctest.Wait()
		r.Server.Down(true)
		synctest.Wait()
		open()
		if told := s.Want("Suspended Claimed"); told[1] != (recipes.Claimed{Epoch: 1, Fresh: true}) {
			t.Errorf("told %+v, want a fresh claim", told[1])
		}
		r.Server.Down(false)
		r.Settle()
		s.Want("Reconnected")
	})
}

// TestAnAnswerSaysWhichClaimItIsTo: a claim verifies that a holder still holds, or makes a contender
// a holder. The answers of the two must not be confused.
func TestAnAnswerSaysWhichClaimItIsTo(t *testing.T) {
	for _, held := range []bool{false, true} {
		sessiontest.Run(t, fmt.Sprint("held: ", held), func(r *sessiontest.Rig) {
			r.Plant("n")
			s := r.Seated()
			claim := func(epoch recipes.Epoch, node string) recipes.Claim {
				return recipes.Claim{Epoch: epoch, Node: events.Name{Text: node}, Held: held}
			}
			for _, c := range []struct {
				claim recipes.Claim
				want  recipes.Input
			}{
				{claim(1, "n"), recipes.Claimed{Epoch: 1, Fresh: true, Held: held}},
				{claim(1, "none"), recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true, Held: held}},
				{claim(7, "n"), recipes.Unknown{Epoch: 7, Op: recipes.OpClaim, Held: held}}, // there is no such session
			} {
				s.Do(c.claim)
				s.WantAnswer(c.want)
			}
			wait, open := gate(r)
			s.ClaimLate(claim(1, "n"), wait)
			synctest.Wait()
			r.Server.Cut(r.Only())
			r.Settle()
			open()
			told := s.Want("Suspended Reconnected Unknown")
			if want := (recipes.Unknown{Epoch: 1, Op: recipes.OpClaim, Held: held}); told[2] != want {
				t.Errorf("an answer of the earlier connection: told %+v, want %+v", told[2], want)
			}
		})
	}
}

// An unfair lock's node is removed by hand while the connection is away, and another contender makes the next one. The answer to a claim
// that comes after that does not tell the owner of the present node. Nor does the answer to a look of the session's own. A release leaves
// the node alone.
func TestAnEarlierAnswerSaysNothingOfTheNode(t *testing.T) {
	for name, ask := range map[string]func(s *sessiontest.Seat, node string, wait func()){
		"claim": func(s *sessiontest.Seat, node string, wait func()) {
			s.ClaimLate(recipes.Claim{Epoch: 1, Node: events.Name{Text: node}}, wait)
		},
		"look": func(s *sessiontest.Seat, _ string, wait func()) { s.Verify(wait) },
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			s := r.SeatedAt(session.Place{Dir: sessiontest.TaskNode, Kind: events.KindUnfair, Data: []byte("own")})
			node := s.Makes(1).Node.Text
			wait, open := gate(r)
			ask(s, node, wait)
			synctest.Wait()
			others(r)
			s.Hears(func(in recipes.Input) { // in the session's own time: nothing else is settled before
				if _, again := in.(recipes.Reconnected); again {
					open()
					time.Sleep(time.Microsecond)
					s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}})
				}
			})
			r.Settle()
			if !r.Server.Exists(sessiontest.TaskNode) {
				t.Error("another contender's node was deleted, want it left alone")
			}
		})
	}
}

// others cuts the session's connection, and has another client replace the one node of a lock.
func others(r *sessiontest.Rig) {
	r.Helper()
	admin := r.Admin()
	r.Server.Intercept(func(q zktest.Request) zktest.Action { // the session's
		if q.Op == zktest.OpConnect && q.Session != 0 {
			return zktest.Delay(time.Second)
		}
		return zktest.Pass()
	})
	r.Server.Cut(r.Session.ID())
	r.Must(r.Server.Delete(sessiontest.TaskNode))
	_, err := admin.Create(sessiontest.TaskNode, []byte("b"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	r.Must(err)
}

// TestACreateIsTakenBackUnlessItWasSent: after a Cancel it is answered Canceled if it waits, or if its answer says that there is no
// directory. If it makes a node the Cancel changes nothing.
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
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			if c.dir {
				r.Must(r.Server.Create(path.Dir(sessiontest.Dir), nil))
				r.Must(r.Server.Create(sessiontest.Dir, nil))
			}
			s := r.Seated()
			r.Server.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(time.Second) })
			if c.down {
				r.Server.Down(true)
				s.Want("Suspended")
			}
			s.Do(recipes.Create{Epoch: 1, Attempt: 1})
			synctest.Wait()
			s.Do(recipes.Cancel{Epoch: c.cancel})
			s.Do(recipes.Cancel{Epoch: c.cancel}) // which says nothing new
			s.Want(c.want)
			r.Server.Down(false)
			r.Settle()
			time.Sleep(10 * time.Second)
			if got := len(r.Server.Children(sessiontest.Dir)); got != c.nodes {
				r.Errorf("%d nodes are made, want %d", got, c.nodes)
			}
			if told := sessiontest.TypesOf(s.Fresh()); !strings.HasSuffix(told, c.later) {
				r.Errorf("in the end the seat is told %q, want %s", told, c.later)
			}
		})
	}
}

// TestWhatIsNotWantedIsNotSent: a seat's requests go with the seat, and a look and a size with their callers. Exception: a delete is sent.
func TestWhatIsNotWantedIsNotSent(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		leaves, lists := r.Seated(), r.Seated()
		node := leaves.Makes(1).Node.Text
		r.Server.Down(true)
		leaves.Want("Suspended")
		lists.Want("Suspended")
		leaves.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
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
		if err := <-resized; !errors.Is(err, context.Canceled) {
			r.Errorf("the size: %v, want %v", err, context.Canceled)
		}
		if word, told := <-words; told {
			r.Errorf("the observer is told %+v, want nothing", word)
		}
		synctest.Wait()
		asked := r.Asked()
		r.Server.Down(false)
		r.Settle()
		got := asked()
		delete(got, zktest.OpConnect)
		delete(got, zktest.OpSetWatches)
		if len(got) != 1 || got[zktest.OpDelete] != 1 {
			r.Errorf("the server is asked for %v, want one delete", got)
		}
	})
}

// Each request is answered once, with many at once, and with breaks all the time.
func TestEveryRequestIsAnsweredOnceInAStorm(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		const seats = 400
		rounds := eventstest.Amount(8, 20)
		list := make([]*sessiontest.Seat, seats)
		for i := range list {
			list[i] = r.SeatAt(session.Place{Dir: fmt.Sprintf("/locks/%d", i%7)})
			list[i].Want("Opened")
		}
		for round := range rounds {
			for i, s := range list {
				switch (i + round) % 4 {
				case 0:
					s.Do(recipes.Create{Epoch: 1, Attempt: recipes.Attempt(round)})
				case 1:
					s.Do(recipes.List{Epoch: 1, Barrier: true})
				case 2:
					s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "none"}})
				case 3:
					s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "none"}})
				}
			}
			r.Server.Cut(r.Only())
			time.Sleep(time.Duration(round) * time.Millisecond)
		}
		r.Settle()
		time.Sleep(time.Second)
		for i, s := range list {
			answers := 0
			for _, in := range s.Fresh() {
				switch in.(type) {
				case recipes.Suspended, recipes.Reconnected:
				default:
					answers++
				}
			}
			if answers != rounds {
				t.Fatalf("seat %d has %d answers to %d requests, want one to each", i, answers, rounds)
			}
		}
	})
}

// The connection is lost again and again right after the handshake. So requests for watches stay in the client's queue, and go out on later
// connections. If an answer gets through before the client has put its own request together, the race detector fails the test.
func TestRequestsForWatchesThatOutliveTheirConnection(t *testing.T) {
	var cuts atomic.Int64
	rule := func(f faultnet.Frame) faultnet.Verdict {
		if f.Direction == faultnet.Down && f.Op == zktest.OpConnect && cuts.Add(-1) >= 0 {
			return faultnet.CutAfter()
		}
		return faultnet.Pass()
	}
	sessiontest.Bubble(t, func(r *sessiontest.Rig) {
		network := faultnet.New(r.Server.DialContext, rule)
		r.Open("", session.OptionFunc(func(c *session.Config) { c.Dial = network.Dial }))
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
		if told := sessiontest.TypesOf(s.Fresh()); !strings.Contains(told, "Gone") {
			t.Errorf("after 50 cuts the seat is told %s, want Gone", told)
		}
	})
}
