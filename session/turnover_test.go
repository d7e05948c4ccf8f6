package session_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// turn is a seat that holds and a seat that is about to request the lock.
type turn struct {
	*rig
	old, next *seat
	node      string // of old
}

func turnAt(r *rig, next session.Place) turn {
	r.Helper()
	r.Warm()
	t := turn{rig: r, old: r.Seated(), next: r.SeatedAt(next)}
	t.node = t.old.Makes(1).Node.Text
	return t
}

// over releases the old seat's lock, and requests it for the next seat.
func (t turn) over(floor bool) {
	t.Helper()
	t.Together(func() {
		t.old.Do(recipes.Delete{Epoch: 1, Node: named(t.node), Floor: floor})
		t.next.Do(recipes.Create{Epoch: 1, Attempt: 1})
	})
}

// is checks the answers to both seats.
func (t turn) is(alone bool) {
	t.Helper()
	t.old.WantAnswer(recipes.Deleted{Epoch: 1})
	created := answerOf[recipes.Created](t.next)
	expect(t, created.Alone == alone && created.Fresh == alone,
		"the next was answered %+v, want alone %v", created, alone)
	if got := t.Server.Children(lockDir); len(got) == 0 || strings.Contains(strings.Join(got, " "), t.node) {
		t.Errorf("after the turnover there are %v, want another node than %s", got, t.node)
	}
	if own := t.next.Look(1, false).Own; own.Name != created.Node || alone && own.Token != created.Token {
		t.Errorf("the create says %+v, want what a listing says: %+v", created, own)
	}
}

func TestAReleaseAndTheNextAcquireAreOneRequest(t *testing.T) {
	inSession(t, func(r *rig) {
		turn := turnAt(r, session.Place{Dir: lockDir})
		asked := r.Asked()
		turn.over(false)
		r.WantAsked(asked(), zktest.OpMulti)
		turn.is(true)
		r.WantData(ourData)
	})
}

// TestATurnoverThatIsRefused is made in two steps, which know how to continue. A turnover
// sees other contenders.
func TestATurnoverThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(turn)
		alone bool
	}{
		"the node is gone":           {func(t turn) { t.DeleteNode(t.node) }, true},
		"we may not write":           {func(t turn) { t.DenyWriting() }, false},
		"another contender is there": {func(t turn) { t.Plant("lock-0000000099") }, false},
	} {
		run(t, name, func(r *rig) {
			turn := turnAt(r, session.Place{Dir: lockDir})
			c.spoil(turn)
			turn.over(false)
			turn.is(c.alone)
		})
	}
}

func TestTwoRequestsThatAreNoTurnover(t *testing.T) {
	for name, c := range map[string]struct {
		next  session.Place
		floor bool
		spoil func(turn)
	}{
		"a floor is left":   {session.Place{Dir: lockDir}, true, nil},
		"another directory": {session.Place{Dir: "/locks/b"}, false, nil},
		"much data":         {session.Place{Dir: lockDir, Data: make([]byte, session.MaxRequest/2)}, false, nil},
		"another contender waited there": {session.Place{Dir: lockDir}, false, func(t turn) {
			t.Plant("lock-0000000099")
			t.next.Look(1, false)
		}},
		"a directory that is theirs": {session.Place{Dir: lockDir}, false, func(t turn) {
			t.DenyWriting()
			other := t.Seated() // teaches the session that it may not write there
			other.Asks(recipes.Delete{Epoch: 1, Node: other.Makes(1).Node, Floor: true}, recipes.Deleted{Epoch: 1})
			t.WantChildren(1)
			t.WantData(ourData)
			other.Close()
		}},
	} {
		run(t, name, func(r *rig) {
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
			answerOf[recipes.Created](turn.next)
		})
	}
}

// TestATurnoverWithoutAnAnswer: the outcome of both halves is unknown, and the session
// finds out both.
func TestATurnoverWithoutAnAnswer(t *testing.T) {
	for action, done := range map[zktest.Action]bool{zktest.CutAfter(): true, zktest.CutBefore(): false} {
		inSession(t, func(r *rig) {
			turn := turnAt(r, session.Place{Dir: lockDir})
			r.On(zktest.OpMulti, action)
			turn.over(false)
			turn.old.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpDelete})
			turn.next.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpCreate})
			r.Server.Intercept(nil)
			r.Settle()
			listed := turn.next.Look(1, true)
			expect(r, (listed.Own != recipes.Own{}) == done && len(listed.Queue) == 1,
				"executed %v, the listing is %+v; want the next seat's own node in it if it was", done, listed)
		})
	}
}

// TestAFloorNamesANodeByItsCreation: the request that deletes the node writes it.
func TestAFloorNamesANodeByItsCreation(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		s := r.Seated()
		for attempt := recipes.Attempt(1); attempt < 4; attempt++ {
			created := s.Makes(attempt)
			asked := r.Asked()
			s.Asks(recipes.Delete{Epoch: 1, Node: created.Node, Floor: true}, recipes.Deleted{Epoch: 1})
			r.WantAsked(asked(), zktest.OpMulti)
			r.WantChildren(0)
			r.WantData(floorOf(created.Token))
		}
		// A seat that does not know its token leaves no floor. Neither does a seat that
		// was not asked to.
		r.Plant("x-lock-0000000099")
		s.Asks(recipes.Delete{Epoch: 1, Node: named("x-lock-0000000099"), Floor: true}, recipes.Deleted{Epoch: 1})
		node := s.Makes(4).Node.Text
		r.WantData(ourData)
		s.Deletes(node)
		r.WantData(ourData)
	})
}

// LeaveAndWrite makes the seat leave, and then changes the directory's data.
func (l *line) LeaveAndWrite(data ...string) {
	l.Helper()
	l.Leave(false)
	for _, d := range data {
		l.Write(d)
	}
}

// TestAnAdvanceSaysWhatStandsAhead puts two contenders ahead of a waiter, removes the
// nearer one, and checks what the waiter learns.
func TestAnAdvanceSaysWhatStandsAhead(t *testing.T) {
	first := recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}
	stands := recipes.Advanced{Epoch: 1, Stands: true}
	for name, c := range map[string]struct {
		leaves func(*line)
		want   recipes.Advanced
		reads  int // in addition to the claim
	}{
		"gives up": {func(l *line) { l.Leave(false) }, stands, 2},
		"gives up, another of this session was the holder before": {func(l *line) {
			before := l.Seated()
			node := before.Makes(1).Node
			before.Look(1, false)
			before.Do(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			before.Fresh()
			l.Leave(false)
		}, stands, 2},
		"both are gone": {func(l *line) {
			l.Leave(false)
			l.DeleteNode(stranger)
		}, recipes.Advanced{Epoch: 1}, 2},
		"leaves as holder in this session": {func(l *line) { l.Leave(true) }, first, 0},
		"holder in this session, both gone": {func(l *line) {
			l.Leave(true)
			l.DeleteNode(stranger)
		}, first, 0},
		"leaves as holder in another session": {func(l *line) { l.LeaveAndWrite(floorOf(l.token)) }, first, 1},
		"another one's floor":                 {func(l *line) { l.LeaveAndWrite(floorOf(l.token + 1)) }, stands, 2},
		"a floor in foreign data":             {func(l *line) { l.LeaveAndWrite("x" + floorOf(l.token)) }, stands, 2},
		"a joiner wrote over the floor":       {func(l *line) { l.LeaveAndWrite(floorOf(l.token), ourData) }, stands, 2},
		"of this session, a joiner wrote over the floor": {func(l *line) {
			l.Leave(true)
			l.Write(ourData)
		}, first, 0},
	} {
		for state, claims := range map[string]int{"warm": 0, "cold": 1} {
			run(t, name+", "+state, func(r *rig) {
				l := r.Line()
				l.waiter.Look(1, false)
				c.leaves(l)
				time.Sleep(time.Duration(claims) * time.Minute)
				asked := r.Asked()
				l.waiter.Asks(l.advance, c.want)
				got := asked()
				if got[zktest.OpGetData] != c.reads || got[zktest.OpMulti] != claims || len(got) != claims+min(c.reads, 1) {
					r.Errorf("the server was asked for %v, want %d Multi and %d reads", got, claims, c.reads)
				}
				if c.want.Stands {
					r.DeleteNode(stranger)
					l.waiter.WantGone(stranger)
				}
			})
		}
	}
}

// TestAnAdvanceSeesForeignData: from then on, the data are left alone, although we
// created the directory.
func TestAnAdvanceSeesForeignData(t *testing.T) {
	inSession(t, func(r *rig) {
		l := r.Line()
		l.waiter.Look(1, false)
		r.Write(theirData)
		l.Leave(false)
		l.waiter.Asks(l.advance, recipes.Advanced{Epoch: 1, Stands: true})
		l.waiter.Do(recipes.Delete{Epoch: 1, Node: named(l.own), Floor: true})
		l.waiter.Want("Gone Deleted")
		r.WantData(theirData)
	})
}

// TestAWaiterThatHasSeenTheHolderLeaveNeedsNoFloor: no contender is older than a holder.
// So the contender after it was the last one ahead, however it leaves. Exception: if a
// server has not deleted the holder's node, that node still blocks.
func TestAWaiterThatHasSeenTheHolderLeaveNeedsNoFloor(t *testing.T) {
	for _, stays := range []bool{false, true} {
		inSession(t, func(r *rig) {
			r.Warm()
			var seats [3]*seat
			var nodes [3]string
			for i := range seats {
				seats[i] = r.Seated()
				nodes[i] = seats[i].Makes(1).Node.Text
				seats[i].Look(1, false)
			}
			waiter := seats[2]
			waiter.WatchNode(nodes[1])
			if stays {
				r.On(zktest.OpMulti, zktest.Fail(zktest.Throttled))
			}
			seats[0].Do(recipes.Delete{Epoch: 1, Node: named(nodes[0]), Floor: true})
			seats[0].Fresh()
			r.Server.Intercept(nil)
			waiter.Fresh()
			seats[1].Do(recipes.Delete{Epoch: 1, Node: named(nodes[1])})
			waiter.WantGone(nodes[1])
			want := recipes.Advanced{Epoch: 1, Floor: true, Fresh: true}
			if stays {
				want = recipes.Advanced{Epoch: 1, Stands: true}
			}
			advance := recipes.Advance{Epoch: 1, Node: named(nodes[2]), Past: named(nodes[1]), Next: named(nodes[0])}
			asked := r.Asked()
			waiter.Asks(advance, want)
			if !stays {
				r.WantAsked(asked())
			}
		})
	}
}

// TestAWarmAdvanceThatHasWaitedForAnotherConnection: it finds that its own node is gone,
// although no event reports that.
func TestAWarmAdvanceThatHasWaitedForAnotherConnection(t *testing.T) {
	inSession(t, func(r *rig) {
		l := r.Line()
		l.waiter.Look(1, false)
		l.Leave(false)
		r.Write(floorOf(l.token))
		r.Either(isA(zktest.OpDelete, zktest.OpMulti), zktest.Swallow(), zktest.Pass())
		crowd := r.Seated()
		for range 256 { // they leave no room for another urgent request
			crowd.Do(recipes.Delete{Epoch: 1, Node: named("none")})
		}
		synctest.Wait()
		l.waiter.Do(l.advance) // it waits for room
		l.waiter.Want("")
		// So that no event precedes the requests.
		r.On(zktest.OpSetWatches, zktest.Fail(zktest.MarshallingError))
		r.Server.Cut(r.Only())
		r.DeleteNode(l.own)
		r.Settle()
		told, missing := l.waiter.Fresh(), recipes.Refused{Epoch: 1, Op: recipes.OpAdvance, Missing: true}
		expect(r, slices.Contains(told, recipes.Input(missing)),
			"the waiter is told %+v, want to hear that its node is missing", told)
	})
}
