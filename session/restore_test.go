package session_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

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
		// Whoever looks after Reconnected sees the event first.
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

// Nobody waits longer than it takes to restore them, or at all if there are none.
func TestRestoringWatchesIsNotWaitedForInVain(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seated()
		for _, watched := range []bool{false, true} {
			if watched {
				s.WatchNode("n")
			}
			time.Sleep(time.Minute)
			r.Server.Cut(r.Only())
			time.Sleep(time.Millisecond) // the dial after a connection that has lived for long comes at once
			s.Want("Suspended Reconnected")
		}
	})
}

// A server that does not answer the client's request to restore the watches does not hold up everything else.
func TestRequestsDoNotWaitForWatchesForEver(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Watching("n")
		r.On(zktest.OpSetWatches, zktest.Swallow())
		r.Server.Cut(r.Only())
		start := time.Now()
		r.Settle()
		s.Want("Suspended Reconnected")
		if took := time.Since(start); took > time.Second {
			t.Errorf("without an answer to the request for watches the others waited %v, want at most 1s", took)
		}
		s.List(recipes.List{Epoch: 1})
		sessiontest.AnswerOf[recipes.Listed](s)
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
