package coordinator_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealStorms has crowds of contenders meet at one ensemble. In virtual time schedules
// and the explorer have them.
func TestRealStorms(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	for name, test := range map[string]func(*testing.T, *ensemble.Ensemble){
		"elections": realElections,
		"watchers":  realWatch, "contended": realContended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// Directories that other clients fill, and that other clients remove.

// sessions returns n coordinators with a session each, and acquisitions that wait for the
// lock, of one after the other.
func sessions(t *testing.T, srv *zktest.Server, n, waiters int) (cs []*coordinator.Coordinator, all []*coordinator.Acquisition) {
	t.Helper()
	for range n {
		cs = append(cs, coordtest.Connect(t, srv))
	}
	for i := range waiters {
		all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
	}
	return cs, all
}

// TestAContenderWakesOnlyItsSuccessor drains a queue with waiters of many sessions: each
// handoff takes the same few requests, however long the queue is.
func TestAContenderWakesOnlyItsSuccessor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, all := sessions(t, srv, 3, 200)
		sent := coordtest.Traffic(srv)
		for i, a := range all {
			before := sent.Load()
			coordtest.Soon(t, a)
			a.Release()
			synctest.Wait()
			if n := sent.Load() - before; n > 3 { // delete, and the next one looks for the floor and claims
				t.Fatalf("hand-over %d took %d requests, want at most 3", i, n)
			}
		}
	})
}

// TestTheHolderIsToldAndTheWaitersQueueAgainWhenTheDirectoryIsDeleted. Each of them is
// granted in the end, with a greater token. Only the next in line may be granted by the
// end of the holder's node, and then loses the lock with its own.
func TestTheHolderIsToldAndTheWaitersQueueAgainWhenTheDirectoryIsDeleted(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, all := sessions(t, srv, 3, 31)
		first, all := all[0], all[1:]
		last := coordtest.Soon(t, first).Token
		stream := cs[1].Events(t.Context())
		srv.MuteAll(true) // or they would be back before the directory is empty
		for _, child := range srv.Children(lockPath) {
			eventstest.Must(t, srv.Delete(lockPath+"/"+child))
		}
		eventstest.Must(t, srv.Delete(lockPath))
		eventstest.Must(t, srv.Delete("/locks"))
		srv.MuteAll(false)
		if lost := <-first.Lost(); lost.Reason != events.ReasonNodeRemoved {
			t.Errorf("the holder hears %+v, want that its node was removed", lost)
		}
		for requeued := map[uint64]bool{}; len(requeued) < 10; {
			switch ev := (<-stream).(type) {
			case events.Requeued, events.Grant: // which replaces the former, unless that was read
				requeued[ev.AcquisitionID()] = true
			}
		}
		synctest.Wait()
		if errors.Is(all[0].Err(), coordinator.ErrNodeRemoved) {
			all = all[1:]
		}
		for range all {
			synctest.Wait()
			i := slices.IndexFunc(all, (*coordinator.Acquisition).Valid)
			if i < 0 || slices.ContainsFunc(all[i+1:], (*coordinator.Acquisition).Valid) {
				t.Fatal("none or two of those that queue again hold the lock, want one")
			}
			if grant := coordtest.Soon(t, all[i]); grant.Token <= last {
				t.Errorf("%+v is granted, want a token above %d", grant, last)
			}
			last = all[i].Grant().Token
			all[i].Release()
		}
		synctest.Wait()
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("when all have released the nodes %v are left, want none", got)
		}
	})
}
