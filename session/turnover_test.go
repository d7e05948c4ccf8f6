package session_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// together runs f in the session's own time, so that whatever it asks for is parked
// before any of it is made.
func (r *rig) together(f func()) {
	r.Helper()
	var once sync.Once
	s := &seat{Seat: r.s.Seat(session.Place{Dir: "/aside"}), r: r, hook: func(recipes.Input) { once.Do(f) }}
	s.Open(s.note)
	s.fresh()
	s.Close()
}

// turn is a seat that holds, and one that is about to ask.
type turn struct {
	*rig
	old, next *seat
	node      string // old's
}

func (r *rig) turn() turn {
	r.Helper()
	return r.turnAt(session.Place{Dir: dir})
}

func (r *rig) turnAt(next session.Place) turn {
	r.Helper()
	r.warm()
	t := turn{rig: r, old: r.seat(), next: r.seatAt(next)}
	t.old.want("Opened")
	t.next.want("Opened")
	t.node = t.old.makes(1).Node.Text
	return t
}

// over releases the one and asks for the other.
func (t turn) over(floor bool) {
	t.Helper()
	t.together(func() {
		t.old.Delete(recipes.Delete{Epoch: 1, Node: t.node, Floor: floor})
		t.next.Create(recipes.Create{Epoch: 1, Attempt: 1})
	})
}

// is checks the answers to both.
func (t turn) is(alone bool) {
	t.Helper()
	if in := t.old.answer(); in != (recipes.Deleted{Epoch: 1}) {
		t.Errorf("the release was answered %+v", in)
	}
	created, ok := t.next.answer().(recipes.Created)
	if !ok || created.Alone != alone || created.Fresh != alone {
		t.Errorf("the next was answered %+v, want alone %v", created, alone)
	}
	if got := t.srv.Children(dir); len(got) == 0 || strings.Contains(strings.Join(got, " "), t.node) {
		t.Errorf("left %v", got)
	}
	if own := t.next.list(1).Own; own.Name != created.Node || alone && own.Token != created.Token {
		t.Errorf("%+v, and a listing says %+v", created, own)
	}
}

func TestAReleaseAndTheNextAcquireAreOneRequest(t *testing.T) {
	inSession(t, func(r *rig) {
		turn := r.turn()
		asked := r.asked()
		turn.over(false)
		if got := asked(); len(got) != 1 || got[zktest.OpMulti] != 1 {
			t.Errorf("asked %v", got)
		}
		turn.is(true)
		r.wantData(ourData)
	})
}

// TestATurnoverThatIsRefused is made in two steps, each of which knows how to go on.
func TestATurnoverThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(turn)
		alone bool
	}{
		"the node is gone": {func(t turn) { t.delete(t.node) }, true},
		"we may not write": {func(t turn) { t.denyWriting() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				turn := r.turn()
				c.spoil(turn)
				turn.over(false)
				turn.is(c.alone)
			})
		})
	}
}

// TestATurnoverSeesWhoStandsThere: the lock is somebody else's now.
func TestATurnoverSeesWhoStandsThere(t *testing.T) {
	inSession(t, func(r *rig) {
		turn := r.turn()
		r.plant("lock-0000000099")
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
		"a floor is left":            {session.Place{Dir: dir}, true, nil},
		"another directory":          {session.Place{Dir: "/locks/b"}, false, nil},
		"much data":                  {session.Place{Dir: dir, Data: make([]byte, session.MaxRequest/2)}, false, nil},
		"somebody waited there":      {session.Place{Dir: dir}, false, func(t turn) { t.plant("lock-0000000099"); t.next.list(1) }},
		"a directory that is theirs": {session.Place{Dir: dir}, false, func(t turn) { t.denyWriting(); t.floorFails() }},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				turn := r.turnAt(c.next)
				if c.spoil != nil {
					c.spoil(turn)
				}
				asked := r.asked()
				turn.over(c.floor)
				if got := asked(); got[zktest.OpDelete]+got[zktest.OpMulti]+got[zktest.OpCreate] < 2 {
					t.Errorf("asked %v", got)
				}
				if in := turn.old.answer(); in != (recipes.Deleted{Epoch: 1}) {
					t.Errorf("the release was answered %+v", in)
				}
				if _, ok := turn.next.answer().(recipes.Created); !ok {
					t.Error("not created")
				}
			})
		})
	}
}

// TestATurnoverWithoutAnAnswer: nobody knows of either half, and both are found out.
func TestATurnoverWithoutAnAnswer(t *testing.T) {
	for name, done := range map[string]bool{"executed": true, "not executed": false} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				turn := r.turn()
				r.srv.Intercept(func(q zktest.Request) zktest.Action {
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
				if in := turn.old.answer(); in != (recipes.Unknown{Epoch: 1, Op: recipes.OpDelete}) {
					t.Errorf("the release was answered %+v", in)
				}
				if in := turn.next.answer(); in != (recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}) {
					t.Errorf("the next was answered %+v", in)
				}
				r.srv.Intercept(nil)
				r.settle()
				turn.next.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
				listed, ok := turn.next.answer().(recipes.Listed)
				if !ok || (listed.Own != recipes.Own{}) != done || len(listed.Queue) != 1 {
					t.Errorf("executed %v, and listed %+v", done, listed)
				}
			})
		})
	}
}

// TestATurnoverOfASessionThatIsOver is answered, both halves of it.
func TestATurnoverOfASessionThatIsOver(t *testing.T) {
	inSession(t, func(r *rig) {
		turn := r.turn()
		id := r.only()
		r.srv.Down(true)
		turn.old.fresh()
		turn.next.fresh()
		turn.over(false)
		if err := r.srv.Expire(id); err != nil {
			t.Fatal(err)
		}
		r.srv.Down(false)
		if in := turn.old.answer(); in != (recipes.Unknown{Epoch: 1, Op: recipes.OpDelete}) {
			t.Errorf("the release was answered %+v", in)
		}
		if in := turn.next.answer(); in != (recipes.Unknown{Epoch: 1, Op: recipes.OpCreate}) {
			t.Errorf("the next was answered %+v", in)
		}
		r.until("nothing is left", func() bool { return len(r.srv.Children(dir)) == 0 })
	})
}

// floorFails has the session learn that it may not write the directory.
func (r *rig) floorFails() {
	r.Helper()
	other := r.seat()
	other.want("Opened")
	node := other.makes(1).Node.Text
	other.Delete(recipes.Delete{Epoch: 1, Node: node, Floor: true})
	other.want("Deleted")
	other.Close()
}
