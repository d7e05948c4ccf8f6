package session_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// turn is a seat that holds, and a seat that is about to ask.
type turn struct {
	*sessiontest.Rig
	old, next *sessiontest.Seat
	node      string // of old
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

// over releases the old seat's lock and asks for the next one's.
func (t turn) over(floor bool) {
	t.Helper()
	t.Together(func() {
		t.old.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: t.node}, Floor: floor})
		t.next.Do(recipes.Create{Epoch: 1, Attempt: 1})
	})
}

// is checks the answers to both seats.
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

// TestATurnoverSeesOtherContenders: another contender has the lock now.
func TestATurnoverSeesOtherContenders(t *testing.T) {
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
		"a floor is left":                {session.Place{Dir: sessiontest.Dir}, true, nil},
		"another directory":              {session.Place{Dir: "/locks/b"}, false, nil},
		"much data":                      {session.Place{Dir: sessiontest.Dir, Data: make([]byte, session.MaxRequest/2)}, false, nil},
		"another contender waited there": {session.Place{Dir: sessiontest.Dir}, false, func(t turn) { t.Plant("lock-0000000099"); t.next.ListNodes(1) }},
		"a directory that is theirs":     {session.Place{Dir: sessiontest.Dir}, false, func(t turn) { t.DenyWriting(); t.FloorFails() }},
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

// TestATurnoverWithoutAnAnswer: the outcome of both halves is unknown, and both are found out.
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
			turn.next.Do(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
			listed := sessiontest.AnswerOf[recipes.Listed](turn.next)
			if (listed.Own != recipes.Own{}) != done || len(listed.Queue) != 1 {
				r.Errorf("executed %v, the listing is %+v; want the next seat's own node in it if it was", done, listed)
			}
		})
	}
}

func TestAReleaseThatMayNotLeaveAFloorIsARelease(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		s := r.Seated()
		node := s.Makes(1).Node.Text
		r.DenyWriting()
		s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
		s.Want("Deleted")
		r.WantChildren(0)
		r.WantData(sessiontest.OurData)
	})
}

// TestAFloorNamesANodeByItsCreation, in the request that removes the node.
func TestAFloorNamesANodeByItsCreation(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		s := r.Seated()
		for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
			created := s.Makes(attempt)
			asked := r.Asked()
			s.Do(recipes.Delete{Epoch: 1, Node: created.Node, Floor: true})
			s.Want("Deleted")
			if got := asked(); len(got) != 1 || got[zktest.OpMulti] != 1 || len(r.Server.Children(sessiontest.Dir)) != 0 {
				t.Errorf("the server was asked for %v and has %v, want one Multi and no node", got, r.Server.Children(sessiontest.Dir))
			}
			r.WantData(floorOf(created.Token))
		}
		// A seat that does not know its token leaves no floor. Nor does a seat that need not leave one.
		r.Plant("x-lock-0000000099")
		s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "x-lock-0000000099"}, Floor: true})
		s.Want("Deleted")
		created := s.Makes(4)
		r.WantData(sessiontest.OurData)
		s.Do(recipes.Delete{Epoch: 1, Node: created.Node})
		s.Want("Deleted")
		r.WantData(sessiontest.OurData)
	})
}

// TestAnAdvanceSaysWhatStandsAhead has two contenders stand ahead, of which the nearer one leaves, and checks what a waiter learns of that.
func TestAnAdvanceSaysWhatStandsAhead(t *testing.T) {
	type scene struct {
		*sessiontest.Rig
		pred  *sessiontest.Seat
		node  string // pred's
		token int64
	}
	leave := func(s scene, floor bool) {
		s.pred.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: s.node}, Floor: floor})
	}
	data := func(s scene, data string) {
		s.Must(s.Server.SetData(sessiontest.Dir, []byte(data)))
	}
	const other = "lock-0000000000"
	for name, c := range map[string]struct {
		leaves func(scene)
		want   recipes.Advanced
		reads  int // beside the claim
	}{
		"gives up": {func(s scene) { leave(s, false) }, recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"gives up, another of this session was the holder before": {func(s scene) {
			before := s.Seat()
			before.Want("Opened")
			node := before.CreateNode(1).Text
			before.ListNodes(1)
			before.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
			before.Fresh()
			leave(s, false)
		}, recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"both are gone": {func(s scene) { leave(s, false); s.DeleteNode(other) }, recipes.Advanced{Epoch: 1}, 2},
		"leaves as holder in this session": {func(s scene) { leave(s, true) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
		"holder in this session, both gone": {func(s scene) { leave(s, true); s.DeleteNode(other) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
		"leaves as holder in another session": {func(s scene) { leave(s, false); data(s, floorOf(s.token)) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 1},
		"another one's floor": {func(s scene) { leave(s, false); data(s, floorOf(s.token+1)) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"a floor in foreign data": {func(s scene) { leave(s, false); data(s, "x"+floorOf(s.token)) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"a joiner wrote over the floor": {func(s scene) { leave(s, false); data(s, floorOf(s.token)); data(s, sessiontest.OurData) },
			recipes.Advanced{Epoch: 1, Stands: true}, 2},
		"of this session, a joiner wrote over the floor": {func(s scene) { leave(s, true); synctest.Wait(); data(s, sessiontest.OurData) },
			recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}, 0},
	} {
		for state, claims := range map[string]int{"warm": 0, "cold": 1} {
			sessiontest.Run(t, name+", "+state, func(r *sessiontest.Rig) {
				r.Warm()
				r.Plant(other)
				s := scene{Rig: r, pred: r.Seat()}
				s.pred.Want("Opened")
				s.node = s.pred.CreateNode(1).Text
				s.token = s.pred.ListNodes(1).Own.Token
				waiter := r.Seated()
				own := waiter.CreateNode(1).Text
				waiter.ListNodes(1)
				waiter.WatchNode(s.node)
				waiter.Want("")
				c.leaves(s)
				waiter.WantGone(s.node)
				time.Sleep(time.Duration(claims) * time.Minute)
				asked := r.Asked()
				waiter.Do(recipes.Advance{Epoch: 1, Node: events.Name{Text: own}, Past: events.Name{Text: s.node}, Next: events.Name{Text: other}})
				if in := waiter.Answer(); in != c.want {
					r.Errorf("%+v, want %+v", in, c.want)
				}
				got := asked()
				if got[zktest.OpGetData] != c.reads || got[zktest.OpMulti] != claims || len(got) != claims+min(c.reads, 1) {
					r.Errorf("the server was asked for %v, want %d Multi and %d reads", got, claims, c.reads)
				}
				if c.want.Stands {
					r.DeleteNode(other)
					waiter.WantGone(other)
				}
			})
		}
	}
}

// TestAnAdvanceWithoutAnOwnNode is refused, whatever the floor says.
func TestAnAdvanceWithoutAnOwnNode(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		pred, waiter := r.Seat(), r.Seated()
		r.Plant("lock-0000000000")
		node := pred.CreateNode(1).Text
		pred.ListNodes(1)
		waiter.WatchNode(node)
		waiter.Want("")
		pred.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
		waiter.WantGone(node)
		waiter.Do(recipes.Advance{Epoch: 1, Node: events.Name{Text: "none"}, Past: events.Name{Text: node}, Next: events.Name{Text: "lock-0000000000"}})
		waiter.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpAdvance, Missing: true})
	})
}

// TestAnAdvanceSeesForeignData: from then on they are left alone, though the directory was made by us.
func TestAnAdvanceSeesForeignData(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		r.Plant("lock-0000000000")
		pred, waiter := r.Seat(), r.Seated()
		node := pred.CreateNode(1).Text
		own := waiter.CreateNode(1).Text
		waiter.ListNodes(1)
		waiter.WatchNode(node)
		waiter.Want("")
		r.Must(r.Server.SetData(sessiontest.Dir, []byte(theirData)))
		pred.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}})
		waiter.WantGone(node)
		waiter.Do(recipes.Advance{Epoch: 1, Node: events.Name{Text: own}, Past: events.Name{Text: node}, Next: events.Name{Text: "lock-0000000000"}})
		waiter.WantAnswer(recipes.Advanced{Epoch: 1, Stands: true})
		waiter.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: own}, Floor: true})
		waiter.Want("Gone Deleted")
		r.WantData(theirData)
	})
}

// TestAWaiterThatHasSeenTheHolderLeaveNeedsNoFloor: no contender is older than a holder. So the contender behind it was the last one ahead,
// however it leaves.
func TestAWaiterThatHasSeenTheHolderLeaveNeedsNoFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		waiter, advance := r.Leaving(func(s *sessiontest.Seat, node string) {
			s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
		})
		asked := r.Asked()
		waiter.Do(advance)
		waiter.WantAnswer(recipes.Advanced{Epoch: 1, Floor: true, Fresh: true})
		r.WantAsked(asked())
	})
}

// TestAHolderWhoseNodeStaysIsInTheWay: it has let go, but a server has not removed its node.
func TestAHolderWhoseNodeStaysIsInTheWay(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		waiter, advance := r.Leaving(func(s *sessiontest.Seat, node string) {
			r.On(zktest.OpMulti, zktest.Fail(zktest.Throttled))
			s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
			s.Fresh()
			r.Server.Intercept(nil)
		})
		waiter.Do(advance)
		waiter.WantAnswer(recipes.Advanced{Epoch: 1, Stands: true})
	})
}
