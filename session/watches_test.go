package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAnEventMayOvertakeTheReply: the client delivers events and replies in different
// goroutines. If both arrive in one segment, either may be first.
func TestAnEventMayOvertakeTheReply(t *testing.T) {
	inSession(t, func(r *rig) {
		r.On(zktest.OpGetData, zktest.Delay(time.Second))
		s := r.Seated()
		for i := range 300 {
			name := fmt.Sprint("n", i)
			r.Plant(name)
			s.WatchNode(name)
			synctest.Wait()
			r.DeleteNode(name) // the event waits for the reply
			s.Want("")
			time.Sleep(time.Second)
			s.WantGone(name)
		}
	})
}

// TestChangedDataArmTheWatchAgain: a watch fires when the data change, and is then used
// up. No seat needs to be notified of data.
func TestChangedDataArmTheWatchAgain(t *testing.T) {
	inSession(t, func(r *rig) {
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

		// The node goes before the watch is armed again.
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

// TestArmingAgainFails: the connection breaks before or after the request that arms the
// watch again, or the session may no longer read the node.
func TestArmingAgainFails(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"before": zktest.CutBefore(), "after": zktest.CutAfter(), "denied": zktest.Fail(zktest.NoAuth),
	} {
		run(t, name, func(r *rig) {
			r.Plant("n")
			s := r.Watching("n")
			if name == "denied" {
				r.On(zktest.OpGetData, action)
				r.SetData("n")
				s.WantOnly(recipes.Unknown{Epoch: 1, Op: recipes.OpWatch})
				s.WatchNode("n")
				s.WantOnly(recipes.Refused{Epoch: 1, Op: recipes.OpWatch, Node: named("n")})
				return
			}
			r.Once(action, isA(zktest.OpGetData))
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

// TestArmingFailsForTwo: two seats follow a path, and arming fails for one or both. A
// seat that does not know the outcome requests the watch again.
func TestArmingFailsForTwo(t *testing.T) {
	const broken = "Suspended Unknown Reconnected"
	for name, c := range map[string]struct {
		action       zktest.Action
		first, other string
	}{
		"missing": {zktest.Fail(zktest.NoNode), "Gone", ""},
		"denied":  {zktest.Fail(zktest.NoAuth), "Refused", ""},
		"before":  {zktest.CutBefore(), broken, broken},
		"after":   {zktest.CutAfter(), broken, broken},
	} {
		run(t, name, func(r *rig) {
			r.Plant("n")
			wait, open := gate(r)
			r.Once(c.action, func(q zktest.Request) bool {
				if q.Op != zktest.OpGetData {
					return false
				}
				wait()
				return true
			})
			first, other := r.Seated(), r.Seated()
			first.WatchNode("n")
			synctest.Wait()
			other.WatchNode("n")
			synctest.Wait()
			open()
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

func TestAClosedSeatHearsNothing(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n", "late", "later")
		closed, other := r.Watching("n"), r.Watching("n")
		own := closed.Makes(1).Node.Text
		closed.Look(1, false)
		closed.Close()
		r.SetData("n")
		r.SetData(own)
		synctest.Wait()
		r.DeleteNode("n")
		r.DeleteNode(own)
		closed.Want("")
		other.WantGone("n")
		r.WantWatches(0)
		// A watch that was in transit when the seat was closed.
		r.On(zktest.OpGetData, zktest.Delay(time.Second))
		other.WatchNode("late")
		synctest.Wait()
		other.Close()
		time.Sleep(2 * time.Second)
		r.DeleteNode("late")
		other.Want("")

		// The same without a connection, so that the watch is requested after the seat is
		// closed.
		last := r.Seated()
		r.Server.Down(true)
		synctest.Wait()
		last.WatchNode("later")
		last.Close()
		r.Server.Down(false)
		r.Settle()
		time.Sleep(2 * time.Second)
		r.DeleteNode("later")
		last.Want("Suspended")
	})
}

func TestWatchesOutliveTheConnection(t *testing.T) {
	inSession(t, func(r *rig) {
		// A seat that looks after Reconnected receives the event first.
		told := map[string]string{
			"kept": "Suspended Reconnected", "changed": "Suspended Reconnected",
			"missed": "Suspended Gone Reconnected", "both": "Suspended Gone Reconnected",
		}
		seats := map[string]*seat{}
		for name := range told {
			r.Plant(name)
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
		for name, want := range told {
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

// TestManyWatchesAreRestored: thousands do not fit into one of the client's requests.
func TestManyWatchesAreRestored(t *testing.T) {
	inSession(t, func(r *rig) {
		seats := make([]*seat, 5000)
		name := func(i int) string { return fmt.Sprint("a-name-of-about-the-usual-length-", i) }
		for i := range seats {
			r.Plant(name(i))
			seats[i] = r.Seat()
			seats[i].WatchNode(name(i))
		}
		synctest.Wait()
		r.Server.Down(true)
		synctest.Wait()
		for i := 0; i < len(seats); i += 2 {
			r.DeleteNode(name(i))
		}
		r.Server.Down(false)
		r.Settle()
		time.Sleep(time.Second)
		r.WantWatches(len(seats) / 2)
		for i, s := range seats {
			if gone := count[recipes.Gone](s.Fresh()); gone != 1-i%2 {
				t.Fatalf("seat %d was told %+v, want Gone of each second node", i, s.Inputs)
			}
		}
	})
}

// TestReconnectsAddNoWatches: an observer of a leader that stays keeps one channel in the
// client, however often the session reconnects, because the client restores the watch. It
// needs one request for that, or several if it watches many other paths.
func TestReconnectsAddNoWatches(t *testing.T) {
	for _, others := range []int{0, 500, 1500} { // with names of 200 bytes: 100 KiB, 300 KiB
		run(t, fmt.Sprint(others, " others"), func(r *rig) {
			for i := range others {
				name := fmt.Sprintf("other-%0194d", i)
				r.Plant(name)
				r.Seat().WatchNode(name)
			}
			r.Plant("lock-0000000007") // the leader
			leaders := r.Session.Observe(r.Context(), lockDir)
			<-leaders
			synctest.Wait()
			before := r.Session.WatchChannels()
			for range 20 {
				r.Server.Cut(r.Only())
				synctest.Wait()
				r.Settle()
			}
			if after := r.Session.WatchChannels(); before <= others || after > before {
				r.Errorf("after 20 reconnects the client keeps %d channels for watches, want %d, and some", after, before)
			}
			r.DeleteNode("lock-0000000007")
			leader := <-leaders
			expect(r, leader.Node == "", "after the leader's end %+v leads, want nobody", leader)
		})
	}
}
