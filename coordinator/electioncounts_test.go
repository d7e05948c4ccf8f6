package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestWhatObserversCost: nothing while others come and go behind the leader, and the same for any number of them in one
// coordinator.
func TestWhatObserversCost(t *testing.T) {
	for _, observers := range []int{1, 100} {
		t.Run(fmt.Sprint(observers), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, 1)
				c := coordtest.Connect(t, srv)
				var seen []<-chan events.Leader
				costs := func(what string, requests, evs int, change func()) {
					t.Helper()
					before := ms[0].Read()
					change()
					if n := ms[0].Read().Minus(before); n.Requests != requests || n.Events != evs {
						t.Errorf("%s: %+v, want %d requests and %d events", what, n, requests, evs)
					}
				}
				all := func(data string) {
					t.Helper()
					for _, s := range seen {
						wantLeader(t, srv, s, data)
					}
				}
				costs("to begin without a path", 2, 0, func() { // list, and look out for the path
					seen = append(seen, cs[0].Election(electionPath).Observe(t.Context()))
				})
				costs("another observer", 0, 0, func() {
					for range observers - 1 {
						seen = append(seen, cs[0].Election(electionPath).Observe(t.Context()))
					}
				})
				all("")
				costs("a path", 2, 1, func() { // list, and list again with a watch
					if err := srv.Create(electionPath, nil); err != nil {
						t.Fatal(err)
					}
				})
				var ann, bob, cleo, dan *coordinator.Acquisition
				costs("a leader", 2, 1, func() { ann = campaign(c, "ann") }) // list, read
				all("ann")
				costs("candidates", 0, 0, func() { bob, cleo, dan = campaign(c, "bob"), campaign(c, "cleo"), campaign(c, "dan") })
				costs("one who leaves", 0, 0, func() { cleo.Release() })
				costs("a word", 1, 1, func() { // read
					if err := c.Election(electionPath).Proclaim(t.Context(), ann, []byte("ann again")); err != nil {
						t.Fatal(err)
					}
				})
				all("ann again")
				costs("another leader", 2, 1, func() { ann.Release() }) // list, read
				all("bob")
				costs("one who leaves from behind", 0, 0, func() { dan.Release() })
				costs("nobody", 2, 1, func() { bob.Release() }) // list, and list again with a watch
				all("")
				costs("an hour", 0, 0, func() { time.Sleep(time.Hour) })
			})
		})
	}
}

// TestObserversLeaveOneWatch behind, which the next one uses, and nothing when that has fired.
func TestObserversLeaveOneWatch(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		c := coordtest.Connect(t, srv)
		ann := campaign(c, "ann")
		coordtest.Soon(t, ann)
		time.Sleep(time.Minute) // its own node is watched by now
		before := srv.Watches()
		for range 1000 {
			ctx, end := context.WithCancel(t.Context())
			wantLeader(t, srv, cs[0].Election(electionPath).Observe(ctx), "ann")
			end()
			synctest.Wait()
		}
		if n := srv.Watches() - before; n != 1 {
			t.Errorf("%d watches", n)
		}
		sent := ms[0].Read()
		ann.Release()
		synctest.Wait()
		if n, asked := srv.Watches(), ms[0].Read().Minus(sent); n != 0 || asked.Requests != 0 || asked.Events != 1 {
			t.Errorf("%d watches, %+v", n, asked)
		}
		seen := cs[0].Election(electionPath).Observe(t.Context())
		wantLeader(t, srv, seen, "")
		campaign(c, "bob")
		wantLeader(t, srv, seen, "bob")
	})
}

// TestObserversHaveNoGoroutines. It counts what the process has, so nothing runs beside it, and the time is real.
func TestObserversHaveNoGoroutines(t *testing.T) {
	srv := zktest.Start(t)
	c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(40*time.Second))
	coordtest.Hold(t, c.Mutex("/locks/counted")) // a client starts its last goroutines after it has told of the session
	before := runtime.NumGoroutine()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var seen []<-chan events.Leader
	for i := range 1000 {
		seen = append(seen, c.Election(fmt.Sprint("/elections/", i%10)).Observe(ctx))
	}
	for _, s := range seen {
		<-s
	}
	eventstest.Eventually(t, "nothing is under way any more", func() bool { return runtime.NumGoroutine() <= before })
	end()
	for _, s := range seen {
		for range s { // until it is closed
		}
	}
}
