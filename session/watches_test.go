package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestAWatchTellsOfTheEndOnce(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n", "other")
		s := r.Watching("n")
		r.DeleteNode("other")
		s.Want("")
		r.DeleteNode("n")
		s.WantGone("n")
		s.WatchNode("n") // which is not there
		s.WantGone("n")
		time.Sleep(time.Minute)
		s.Want("")
		r.WantWatches(0)
	})
}

// The client hands out events and replies by different goroutines. If both come in one segment, either may be first.
func TestAnEventMayOvertakeTheReply(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.On(zktest.OpGetData, zktest.Delay(time.Second))
		s := r.Seated()
		for i := range 300 {
			name := fmt.Sprint("n", i)
			r.Plant(name)
			s.WatchNode(name)
			synctest.Wait()
			r.DeleteNode(name) // the event waits behind the reply
			s.Want("")
			time.Sleep(time.Second)
			s.WantGone(name)
		}
	})
}

// A watch fires when the data change, and then it is gone. Nobody is interested in data.
func TestChangedDataArmTheWatchAgain(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		a, b := r.Watching("n"), r.Watching("n")
		for range 3 {
			r.SetData("n")
			a.Want("")
			b.Want("")
			r.WantWatches(1)
		}
		r.DeleteNode("n")
		a.WantGone("n")
		b.WantGone("n")

		// It goes before the watch is armed again.
		for i := range 300 {
			name := fmt.Sprint("n", i)
			r.Plant(name)
			a.WatchNode(name)
			synctest.Wait()
			r.SetData(name)
			r.DeleteNode(name)
			a.WantGone(name)
		}
		time.Sleep(time.Minute)
		a.Want("")
		r.WantWatches(0)
	})
}

// The connection breaks before or after the request that arms the watch again.
func TestArmingAgainSurvivesABreak(t *testing.T) {
	for name, action := range map[string]zktest.Action{"before": zktest.CutBefore(), "after": zktest.CutAfter()} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.Plant("n")
			s := r.Watching("n")
			cut{1, action}.intercept(r.Server)
			r.SetData("n")
			s.Want("Suspended")
			r.Settle()
			s.Want("Reconnected")
			r.WantWatches(1)
			r.DeleteNode("n")
			s.WantGone("n")
		})
	}
}

// The client cannot drop a watch, so one path is armed once, however many are interested.
func TestAPathIsArmedOnce(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		seats := make([]*sessiontest.Seat, 20)
		for i := range seats {
			seats[i] = r.Watching("n")
			seats[i].WatchNode("n")
		}
		synctest.Wait()
		if n := r.Server.Requests(zktest.OpGetData); n != 1 {
			t.Errorf("%d readings for 40 watches on one node, want 1", n)
		}
		r.DeleteNode("n")
		for _, s := range seats {
			s.WantGone("n")
		}
	})
}

// Two are interested, one of them arms the watch for both, and that fails.
func TestArmingFailsForTwo(t *testing.T) {
	for name, c := range map[string]struct {
		action       zktest.Action
		first, other string
	}{
		"missing": {zktest.Fail(zktest.NoNode), "Gone", ""},
		"denied":  {zktest.Fail(zktest.NoAuth), "Refused", ""},
		"before":  {zktest.CutBefore(), "Suspended Unknown Reconnected", "Suspended Unknown Reconnected"},
		"after":   {zktest.CutAfter(), "Suspended Unknown Reconnected", "Suspended Unknown Reconnected"},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.Plant("n")
			goOn := make(chan struct{})
			r.Server.Intercept(func(q zktest.Request) zktest.Action {
				if q.Op != zktest.OpGetData || q.Count > 1 {
					return zktest.Pass()
				}
				<-goOn
				return c.action
			})
			first, other := r.Seated(), r.Seated()
			first.WatchNode("n")
			synctest.Wait()
			other.WatchNode("n")
			synctest.Wait()
			close(goOn)
			r.Settle()
			first.Want(c.first)
			other.Want(c.other)
			r.DeleteNode("n")
			other.WantGone("n")
			first.Want("")
		})
	}
}

// The watch cannot be armed again because others may not read the node any more.
func TestArmingAgainIsDenied(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Watching("n")
		r.On(zktest.OpGetData, zktest.Fail(zktest.NoAuth))
		r.SetData("n")
		s.WantOnly(recipes.Unknown{Epoch: 1, Op: recipes.OpWatch})
		s.WatchNode("n")
		s.WantOnly(recipes.Refused{Epoch: 1, Op: recipes.OpWatch, Node: "n"})
	})
}

func TestOneSeatWatchesItsOwnNodeAndAnother(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("a", "b", "c")
		s := r.Seated()
		own := s.CreateNode(1).Text
		s.ListNodes(1)
		s.WatchNode("a")
		s.WatchNode("b") // takes the place of a
		s.Want("")
		r.DeleteNode("a")
		s.Want("")
		r.DeleteNode("b")
		s.WantGone("b")
		r.SetData(own)
		s.Want("")
		r.DeleteNode(own)
		s.WantGone(own)
	})
}

func TestAClosedSeatHearsNothing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		closed, other := r.Watching("n"), r.Watching("n")
		own := closed.CreateNode(1).Text
		closed.ListNodes(1)
		closed.Close()
		r.SetData("n")
		r.SetData(own)
		synctest.Wait()
		r.DeleteNode("n")
		r.DeleteNode(own)
		closed.Want("")
		other.WantGone("n")
		r.WantWatches(0)
		// A watch that was on its way when the seat was closed.
		r.Plant("late")
		r.On(zktest.OpGetData, zktest.Delay(time.Second))
		other.WatchNode("late")
		synctest.Wait()
		other.Close()
		time.Sleep(2 * time.Second)
		r.DeleteNode("late")
		other.Want("")

		// The same while there is no connection, so that it is carried out after the closing.
		r.Plant("later")
		last := r.Seated()
		r.Server.Down(true)
		synctest.Wait()
		last.WatchNode("later")
		last.Close()
		r.Server.Down(false)
		r.Settle()
		time.Sleep(2 * time.Second)
		last.Want("Suspended")
		r.DeleteNode("later")
		last.Want("")
	})
}

// What was watched in one session is of no interest in the next.
func TestWatchesEndWithTheirSession(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Watching("n")
		s.ExpireBefore(2)
		r.DeleteNode("n")
		s.Want("Suspended Expired Opened")
		s.Watch(recipes.Watch{Epoch: 2, Node: "n"})
		s.WantAnswer(recipes.Gone{Epoch: 2, Node: "n"})
	})
}
