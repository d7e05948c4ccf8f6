package session_test

import (
	"errors"
	"fmt"
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

// gate holds up the goroutine that waits at it until it is opened, at the latest when the test ends.
func gate(r *sessiontest.Rig) (wait, open func()) {
	closed := make(chan struct{})
	open = sync.OnceFunc(func() { close(closed) })
	r.Cleanup(open)
	return func() { <-closed }, open
}

// An answer that has come on an earlier connection is as good as lost, unless what it says stays true.
func TestAnswersOfAnEarlierConnection(t *testing.T) {
	const unknown = "Unknown"
	for _, c := range []struct {
		op   recipes.Op
		in   recipes.Input
		want string // its type, where it stays true
	}{
		{recipes.OpCreate, recipes.Created{Epoch: 1, Alone: true, Token: 7}, unknown},
		{recipes.OpCreate, recipes.Created{Epoch: 1}, unknown},
		{recipes.OpCreate, recipes.Enqueued{Epoch: 1}, unknown},
		{recipes.OpCreate, recipes.Taken{Epoch: 1}, "Taken"},
		{recipes.OpCreate, recipes.Refused{Epoch: 1, Op: recipes.OpCreate}, "Refused"},
		{recipes.OpList, recipes.Listed{Epoch: 1}, unknown},
		{recipes.OpClaim, recipes.Claimed{Epoch: 1}, unknown},
		{recipes.OpClaim, recipes.Recorded{Epoch: 1}, unknown},
		{recipes.OpClaim, recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}, "Refused"},
		{recipes.OpAdvance, recipes.Advanced{Epoch: 1, Floor: true}, unknown},
		{recipes.OpAdvance, recipes.Advanced{Epoch: 1, Stands: true}, unknown},
		{recipes.OpSurvey, recipes.Surveyed{Epoch: 1}, unknown},
		{recipes.OpEnter, recipes.Entered{Epoch: 1, Leases: []string{"l"}}, unknown},
		{recipes.OpDelete, recipes.Deleted{Epoch: 1}, "Deleted"},
		{recipes.OpWatch, recipes.Gone{Epoch: 1, Node: "n"}, "Gone"},
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

// Before the news of the next connection an answer of the last one counts: the news come behind it, and have it verified.
func TestAnswersBetweenTwoConnections(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Data: []byte("own")})
		wait, open := gate(r)
		s.Linger(wait)
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
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

// An unfair lock's node is removed by hand while the connection is away, and somebody else makes the next one. The answer to a claim that
// comes behind that does not say whose the node is now, nor does that to a look of the session's own. A release leaves the node alone.
func TestAnEarlierAnswerSaysNothingOfTheNode(t *testing.T) {
	for name, ask := range map[string]func(s *sessiontest.Seat, node string, wait func()){
		"claim": func(s *sessiontest.Seat, node string, wait func()) {
			s.Linger(wait)
			s.Claim(recipes.Claim{Epoch: 1, Node: node})
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
					s.Delete(recipes.Delete{Epoch: 1, Node: node})
				}
			})
			r.Settle()
			if !r.Server.Exists(sessiontest.TaskNode) {
				t.Error("somebody else's node was deleted, want it left alone")
			}
		})
	}
}

// others cuts the session's connection, and has somebody else replace the node of a lock that is one.
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

// The same with a look: a transaction that rests on the node is not made.
func TestAnEarlierLookSettlesNothing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.SeatedAt(session.Place{Dir: sessiontest.TaskNode, Kind: events.KindUnfair, Data: []byte("own")})
		r.Must(r.Server.Create("/tasks", nil))
		r.Once(zktest.CutAfter(), isCreate)
		sessiontest.MakeOf[recipes.Unknown](s, 1)
		r.Settle()
		s.Fresh()
		wait, open := gate(r)
		s.Linger(wait)
		s.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		time.Sleep(time.Second) // answers on a resumed connection are held back for a moment
		others(r)
		r.Settle()
		open()
		synctest.Wait()
		_, err := s.Transact(r.Context(), 1, []string{sessiontest.TaskNode},
			[]any{&zk.CreateRequest{Path: "/done", Acl: zk.WorldACL(zk.PermAll)}})
		if !errors.Is(err, session.ErrGuard) || r.Server.Exists("/done") {
			t.Errorf("a transaction under somebody else's node: %v, executed: %v; want %v", err, r.Server.Exists("/done"), session.ErrGuard)
		}
	})
}
