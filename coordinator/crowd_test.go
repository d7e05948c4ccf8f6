package coordinator_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Directories that others fill, and that others remove.

func TestForeignChildrenAreNoContenders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		names := []string{"lock", "lock-", "lock-1", "lock-00000000001x", "_c_", "_c_x", "_c_short-lock", "0000000000", "-lock-000000000", "readme.txt", "ü"}
		for i := range 1000 {
			names = append(names, fmt.Sprintf("config-%04d", i))
		}
		for _, name := range names {
			coordtest.Must(t, srv.Create(lockPath+"/"+name, []byte("mine")))
		}
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		a, grant := coordtest.Hold(t, c.Mutex(lockPath), coordinator.Try())
		if n := sent.Load(); n > steps+1 { // Try looks first
			t.Errorf("a try beside strange children took %d requests, want at most %d", n, steps+1)
		}
		w := coordtest.Queue(c.Mutex(lockPath))
		a.Release()
		next, err := w.Wait(t.Context())
		if err != nil || next.Token <= grant.Token {
			t.Errorf("the next one is granted %+v, %v, want a token above %d", next, err, grant.Token)
		}
		coordtest.End(w)
		if got := srv.Children(lockPath); len(got) != len(names) {
			t.Errorf("%d strange children are left, want all %d", len(got), len(names))
		}
	})
}

// TestQueueOf25000 stands behind 25,000 contenders. It costs one listing to join. A contender that
// leaves far ahead costs nothing, and the last ones to leave cost one round each.
func TestQueueOf25000(t *testing.T) {
	const ahead = 25_000
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		node := func(i int) string { return fmt.Sprintf("%s/_c_%032x-lock-%010d", lockPath, i, i) }
		for i := range ahead {
			coordtest.Must(t, srv.Create(node(i), nil))
		}
		coordtest.Must(t, srv.SetSequence(lockPath, ahead))
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		sent := coordtest.Traffic(srv)
		a := coordtest.Queue(c.Mutex(lockPath))
		if ev, ok := (<-stream).(events.Queued); !ok || ev.Ahead != ahead {
			t.Errorf("the waiter hears %+v, want that %d are ahead", ev, ahead)
		}
		joined := sent.Load()
		if joined > steps || srv.Watches() != 2 {
			t.Errorf("to join took %d requests and %d watches, want at most %d and 2", joined, srv.Watches(), steps)
		}
		for i := range ahead - 2 {
			coordtest.Must(t, srv.Delete(node(i)))
		}
		synctest.Wait()
		if n := sent.Load() - joined; n != 0 {
			t.Errorf("%d requests because contenders left that stood far ahead, want none", n)
		}
		if err := srv.Delete(node(ahead - 1)); err != nil { // gives up, out of turn
			t.Fatal(err)
		}
		synctest.Wait()
		if a.Valid() {
			t.Fatal("granted with a contender ahead")
		}
		coordtest.Must(t, srv.Delete(node(ahead-2)))
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := sent.Load() - joined; n > 10 { // two walks back by three requests, a listing with the own node and the floor, a claim
			t.Errorf("%d requests for the last two ahead, want at most 10", n)
		}
	})
}

// TestAContenderWakesNobodyButItsSuccessor has a queue of many sessions' own waiters
// drained: each hand-over takes the same few requests, however long the queue is.
func TestAContenderWakesNobodyButItsSuccessor(t *testing.T) {
	const waiters = 200
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		all := make([]*coordinator.Acquisition, waiters)
		for i := range all {
			all[i] = coordtest.Queue(cs[i%len(cs)].Mutex(lockPath))
		}
		sent := coordtest.Traffic(srv)
		for i, a := range all {
			before := sent.Load()
			if _, err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.Release()
			synctest.Wait()
			if n := sent.Load() - before; n > 3 { // delete, and the next one looks for the floor and claims
				t.Fatalf("hand-over %d took %d requests, want at most 3", i, n)
			}
		}
	})
}

// TestDirectoryDeletedUnderEverybody: the holder is told, and the waiters queue up again.
func TestDirectoryDeletedUnderEverybody(t *testing.T) {
	const waiters = 30
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		stream := cs[1].Events(t.Context())
		holder, first := coordtest.Hold(t, cs[0].Mutex(lockPath))
		var all []*coordinator.Acquisition
		for i := range waiters {
			all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
		}
		srv.MuteAll(true) // or they would be back before the directory is empty
		for _, child := range srv.Children(lockPath) {
			coordtest.Must(t, srv.Delete(lockPath+"/"+child))
		}
		for _, dir := range []string{lockPath, "/locks"} {
			coordtest.Must(t, srv.Delete(dir))
		}
		srv.MuteAll(false)
		if lost := <-holder.Lost(); lost.Reason != events.ReasonNodeRemoved {
			t.Errorf("the holder hears %+v, want that its node was removed", lost)
		}
		synctest.Wait()
		requeued := 0
		for requeued < waiters/len(cs) {
			if _, ok := (<-stream).(events.Requeued); ok {
				requeued++
			}
		}
		last := first.Token
		for range all {
			var now *coordinator.Acquisition
			for _, a := range all {
				if a.Valid() {
					if now != nil {
						t.Fatal("two hold the lock")
					}
					now = a
				}
			}
			if now == nil {
				t.Fatal("none of those that queue again holds the lock")
			}
			grant, err := now.Wait(t.Context())
			if err != nil || grant.Token <= last {
				t.Fatalf("%+v is granted, %v, want a token above %d", grant, err, last)
			}
			last = grant.Token
			now.Release()
			synctest.Wait()
		}
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("when all have released these nodes are left: %v", got)
		}
	})
}

// TestContainerReapedBetweenEnsureAndCreate has the directory removed each time it
// was made, right before the node is created in it.
func TestContainerReapedBetweenEnsureAndCreate(t *testing.T) {
	for name, tt := range map[string]struct {
		times int
		ends  bool
	}{
		"once": {1, false}, "five times": {5, false}, "always": {1 << 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				reaped, requests := 0, 0
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op != zktest.OpPing {
						requests++
					}
					if r.Op == zktest.OpCreate && srv.Exists(lockPath) && reaped < tt.times {
						reaped++
						coordtest.Must(t, srv.Delete(lockPath))
					}
					return zktest.Pass()
				})
				a := c.Mutex(lockPath).Acquire(t.Context())
				_, err := a.Wait(t.Context())
				if !tt.ends && (err != nil || reaped != tt.times) {
					t.Errorf("with the directory removed %d times Acquire ends with %v, want a grant after %d", reaped, err, tt.times)
				}
				if tt.ends && !errors.Is(err, zk.ErrNoNode) {
					t.Errorf("with the directory removed each time Acquire ends with %v, want zk.ErrNoNode", err)
				}
				coordtest.End(a)
				time.Sleep(time.Hour)
				if requests > 40 {
					t.Errorf("%d requests, want at most 40", requests)
				}
			})
		})
	}
}
