package session_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

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

// A watch fires when the data change, and then it is gone. No seat wants to hear of data.
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
			r.Once(action, func(q zktest.Request) bool { return q.Op == zktest.OpGetData })
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

// The client cannot drop a watch. So a path is armed once, however many seats follow it.
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

// Two seats follow a path, and arming the watch fails for one of them or for both. One that does not know asks again.
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
			if c.other != "" {
				other.WatchNode("n")
				r.Settle()
				other.Want("")
			}
			r.DeleteNode("n")
			other.WantGone("n")
			first.Want("")
		})
	}
}

// The watch cannot be armed again because the session may not read the node any more.
func TestArmingAgainIsDenied(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Watching("n")
		r.On(zktest.OpGetData, zktest.Fail(zktest.NoAuth))
		r.SetData("n")
		s.WantOnly(recipes.Unknown{Epoch: 1, Op: recipes.OpWatch})
		s.WatchNode("n")
		s.WantOnly(recipes.Refused{Epoch: 1, Op: recipes.OpWatch, Node: events.Name{Text: "n"}})
	})
}

func TestOneSeatWatchesItsOwnNodeAndAnother(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("a", "b", "c")
		s := r.Seated()
		own := s.CreateNode(1).Text
		s.ListNodes(1)
		s.WatchNode("a")
		s.WatchNode("b") // it replaces a
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

func TestWatchesOutliveTheConnection(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("kept", "missed", "both", "changed")
		names := []string{"kept", "missed", "both", "changed"}
		seats := map[string]*sessiontest.Seat{}
		for _, name := range names {
			seats[name] = r.Watching(name)
		}
		r.Server.Down(true)
		synctest.Wait()
		r.SetData("both")
		r.DeleteNode("both")
		r.DeleteNode("missed")
		r.SetData("changed")
		r.Server.Down(false)
		r.Settle()
		// A seat that looks after Reconnected sees the event first.
		for _, name := range names {
			want := "Suspended Reconnected"
			if name == "missed" || name == "both" {
				want = "Suspended Gone Reconnected"
			}
			seats[name].Want(want)
		}
		time.Sleep(time.Second)
		r.WantWatches(2)
		r.DeleteNode("kept")
		r.DeleteNode("changed")
		seats["kept"].WantGone("kept")
		seats["changed"].WantGone("changed")
		seats["missed"].Want("")
	})
}

// Thousands of watches do not fit into one request of the client's.
func TestManyWatchesAreRestored(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		const n = 5000
		seats := make([]*sessiontest.Seat, n)
		for i := range seats {
			r.Plant(fmt.Sprint("a-name-of-about-the-usual-length-", i))
			seats[i] = r.SeatAt(session.Place{Dir: sessiontest.Dir})
			seats[i].WatchNode(fmt.Sprint("a-name-of-about-the-usual-length-", i))
		}
		synctest.Wait()
		r.Server.Down(true)
		synctest.Wait()
		for i := 0; i < n; i += 2 {
			r.DeleteNode(fmt.Sprint("a-name-of-about-the-usual-length-", i))
		}
		r.Server.Down(false)
		r.Settle()
		time.Sleep(time.Second)
		if got := r.Server.Watches(); got != n/2 {
			t.Errorf("%d watches, want %d", got, n/2)
		}
		for i, s := range seats {
			gone := slices.ContainsFunc(s.Inputs, func(in recipes.Input) bool { _, ok := in.(recipes.Gone); return ok })
			if gone != (i%2 == 0) {
				t.Fatalf("seat %d was told %+v, want Gone of each second node", i, s.Inputs)
			}
		}
	})
}
