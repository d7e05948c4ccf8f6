package session_test

import (
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// turn is a seat that holds, and one that is about to ask.
type turn struct {
	*sessiontest.Rig
	old, next *sessiontest.Seat
	node      string // old's
}

func turnIn(r *sessiontest.Rig) turn {
	r.Helper()
	return turnAt(r, session.Place{Dir: sessiontest.Dir})
}

func turnAt(r *sessiontest.Rig, next session.Place) turn {
	r.Helper()
	r.Warm()
	t := turn{Rig: r, old: r.Seat(), next: r.SeatAt(next)}
	t.old.Want("Opened")
	t.next.Want("Opened")
	t.node = t.old.Makes(1).Node.Text
	return t
}

// over releases the one and asks for the other.
func (t turn) over(floor bool) {
	t.Helper()
	t.Together(func() {
		t.old.Delete(recipes.Delete{Epoch: 1, Node: t.node, Floor: floor})
		t.next.Create(recipes.Create{Epoch: 1, Attempt: 1})
	})
}

// is checks the answers to both.
func (t turn) is(alone bool) {
	t.Helper()
	t.old.WantAnswer(recipes.Deleted{Epoch: 1})
	created, ok := t.next.Answer().(recipes.Created)
	if !ok || created.Alone != alone || created.Fresh != alone {
		t.Errorf("the next was answered %+v, want alone %v", created, alone)
	}
	if got := t.Server.Children(sessiontest.Dir); len(got) == 0 || strings.Contains(strings.Join(got, " "), t.node) {
		t.Errorf("after the turnover there are %v, want another node than %s", got, t.node)
	}
	if own := t.next.ListNodes(1).Own; own.Name != created.Node || alone && own.Token != created.Token {
		t.Errorf("the create says %+v, want what a listing says: %+v", created, own)
	}
}

func TestAReleaseAndTheNextAcquireAreOneRequest(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		turn := turnIn(r)
		asked := r.Asked()
		turn.over(false)
		r.WantAsked(asked(), zktest.OpMulti)
		turn.is(true)
		r.WantData(sessiontest.OurData)
	})
}

// TestATurnoverThatIsRefused is made in two steps, each of which knows how to go on.
func TestATurnoverThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(turn)
		alone bool
	}{
		"the node is gone": {func(t turn) { t.DeleteNode(t.node) }, true},
		"we may not write": {func(t turn) { t.DenyWriting() }, false},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			turn := turnIn(r)
			c.spoil(turn)
			turn.over(false)
			turn.is(c.alone)
		})
	}
}

// TestATurnoverSeesWhoStandsThere: the lock is somebody else's now.
func TestATurnoverSeesWhoStandsThere(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		turn := turnIn(r)
		r.Plant("lock-0000000099")
		turn.over(false)
		turn.is(false)
	})
}

// TestTwoRequestsThatAreNoTurnover.
func TestTwoRequestsThatAreNoTurnover(t *testing.T) {
	for name, c := range map[string]struct {
		next  session.Place
		floor bool
		spoil func(turn)
	}{
		"a floor is left":            {session.Place{Dir: sessiontest.Dir}, true, nil},
		"another directory":          {session.Place{Dir: "/locks/b"}, false, nil},
		"much data":                  {session.Place{Dir: sessiontest.Dir, Data: make([]byte, session.MaxRequest/2)}, false, nil},
		"somebody waited there":      {session.Place{Dir: sessiontest.Dir}, false, func(t turn) { t.Plant("lock-0000000099"); t.next.ListNodes(1) }},
		"a directory that is theirs": {session.Place{Dir: sessiontest.Dir}, false, func(t turn) { t.DenyWriting(); t.FloorFails() }},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			turn := turnAt(r, c.next)
			if c.spoil != nil {
				c.spoil(turn)
			}
			asked := r.Asked()
			turn.over(c.floor)
			if got := asked(); got[zktest.OpDelete]+got[zktest.OpMulti]+got[zktest.OpCreate] < 2 {
				r.Errorf("the server was asked for %v, want two requests or more", got)
			}
			turn.old.WantAnswer(recipes.Deleted{Epoch: 1})
			sessiontest.AnswerOf[recipes.Created](turn.next)
		})
	}
}

// TestATurnoverWithoutAnAnswer: nobody knows of either half, and both are found out.
func TestATurnoverWithoutAnAnswer(t *testing.T) {
	for name, done := range map[string]bool{"executed": true, "not executed": false} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			turn := turnIn(r)
			r.Server.Intercept(func(q zktest.Request) zktest.Action {
				switch {
				case q.Op != zktest.OpMulti:
					return zktest.Pass()
				case done:
					return zktest.CutAfter()
				default:
					return zktest.CutBefore()
				}
			})
			turn.over(false)
			turn.old.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpDelete})
			turn.next.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpCreate})
			r.Server.Intercept(nil)
			r.Settle()
			turn.next.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
			listed := sessiontest.AnswerOf[recipes.Listed](turn.next)
			if (listed.Own != recipes.Own{}) != done || len(listed.Queue) != 1 {
				r.Errorf("executed %v, the listing is %+v; want the next seat's own node in it if it was", done, listed)
			}
		})
	}
}

// TestATurnoverOfASessionThatIsOver is answered, both halves of it.
func TestATurnoverOfASessionThatIsOver(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		turn := turnIn(r)
		id := r.Only()
		r.Server.Down(true)
		turn.old.Fresh()
		turn.next.Fresh()
		turn.over(false)
		r.Must(r.Server.Expire(id))
		r.Server.Down(false)
		turn.old.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpDelete})
		turn.next.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpCreate})
		r.Until("nothing is left", func() bool { return len(r.Server.Children(sessiontest.Dir)) == 0 })
	})
}
