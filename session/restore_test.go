package session_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestWatchesOutliveTheConnection(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("kept", "missed", "both", "changed")
		names := []string{"kept", "missed", "both", "changed"}
		seats := map[string]*seat{}
		for _, name := range names {
			seats[name] = r.watching(name)
		}
		r.srv.Down(true)
		synctest.Wait()
		r.setData("both")
		r.delete("both")
		r.delete("missed")
		r.setData("changed")
		r.srv.Down(false)
		r.settle()
		// Whoever looks after Reconnected sees the event first.
		for _, name := range names {
			want := "Suspended Reconnected"
			if name == "missed" || name == "both" {
				want = "Suspended Gone Reconnected"
			}
			seats[name].want(want)
		}
		time.Sleep(time.Second)
		if n := r.srv.Watches(); n != 2 {
			t.Errorf("%d watches, want those on kept and changed", n)
		}
		r.delete("kept")
		r.delete("changed")
		seats["kept"].wantGone("kept")
		seats["changed"].wantGone("changed")
		seats["missed"].want("")
	})
}

// Nobody waits longer than it takes to restore them, or at all if there are none.
func TestRestoringWatchesIsNotWaitedForInVain(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.want("Opened")
		for _, watched := range []bool{false, true} {
			if watched {
				s.watch("n")
			}
			time.Sleep(time.Minute)
			r.srv.Cut(r.only())
			time.Sleep(time.Millisecond) // the dial after a connection that has lived for long comes at once
			s.want("Suspended Reconnected")
		}
	})
}

// A server that does not answer the client's request to restore the watches does not hold up everything else.
func TestRequestsDoNotWaitForWatchesForEver(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.watching("n")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpSetWatches {
				return zktest.Swallow()
			}
			return zktest.Pass()
		})
		r.srv.Cut(r.only())
		start := time.Now()
		r.settle()
		s.want("Suspended Reconnected")
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
		s.List(recipes.List{Epoch: 1})
		if _, ok := s.answer().(recipes.Listed); !ok {
			t.Error("not listed")
		}
	})
}

// Thousands of watches do not fit into one request of the client's.
func TestManyWatchesAreRestored(t *testing.T) {
	inSession(t, func(r *rig) {
		const n = 5000
		seats := make([]*seat, n)
		for i := range seats {
			r.plant(fmt.Sprint("a-name-of-about-the-usual-length-", i))
			seats[i] = r.seatAt(session.Place{Dir: dir})
			seats[i].watch(fmt.Sprint("a-name-of-about-the-usual-length-", i))
		}
		synctest.Wait()
		r.srv.Down(true)
		synctest.Wait()
		for i := 0; i < n; i += 2 {
			r.delete(fmt.Sprint("a-name-of-about-the-usual-length-", i))
		}
		r.srv.Down(false)
		r.settle()
		time.Sleep(time.Second)
		if got := r.srv.Watches(); got != n/2 {
			t.Errorf("%d watches, want %d", got, n/2)
		}
		for i, s := range seats {
			gone := slices.ContainsFunc(s.inputs, func(in recipes.Input) bool { _, ok := in.(recipes.Gone); return ok })
			if gone != (i%2 == 0) {
				t.Fatalf("seat %d was told %+v", i, s.inputs)
			}
		}
	})
}
