package coordinator_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A lock in one round trip, and handoffs that do not list: what callers see of them.

// TestTokensGrowInALoop: each of them is the zxid that created the node, by whichever way
// that was learnt.
func TestTokensGrowInALoop(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		var last int64
		for i := range 20 {
			a, grant := coordtest.Hold(t, cs[i/5%2].Mutex(lockPath))
			listed := srv.Children(lockPath)
			if grant.Token <= last || len(listed) != 1 || grant.Node != lockPath+"/"+listed[0] {
				t.Errorf("cycle %d: %+v after token %d; nodes %v", i, grant, last, listed)
			}
			last = grant.Token
			a.Release()
			<-a.Done()
		}
	})
}

// TestAWaiterWalksBackAsFarAsItRemembers: those between it and the holder give up, the
// nearest first. It stays where it is until the holder goes.
func TestAWaiterWalksBackAsFarAsItRemembers(t *testing.T) {
	const between = 9 // more than it remembers twice
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, others := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Warm(t, c, others)
		holder, held := coordtest.Hold(t, others.Mutex(lockPath))
		ahead := make([]*coordinator.Acquisition, between)
		for i := range ahead {
			ahead[i] = coordtest.Queue(others.Mutex(lockPath))
		}
		last := coordtest.Queue(c.Mutex(lockPath))
		for i := between - 1; i >= 0; i-- {
			ahead[i].Release()
			synctest.Wait()
			if last.Valid() || !holder.Valid() {
				t.Fatalf("with %d between: the last one holds %v, the holder %v", i, last.Valid(), holder.Valid())
			}
		}
		holder.Release()
		if grant := coordtest.Soon(t, last); grant.Token <= held.Token {
			t.Errorf("%+v after %+v", grant, held)
		}
	})
}

// TestGivingUpLetsNobodyIn: a floor is in the directory, of one who has held the lock
// before. It says nothing of one who gives up, and that one leaves none.
func TestGivingUpLetsNobodyIn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		coordtest.Warm(t, cs...)
		all := make([]*coordinator.Acquisition, 6)
		for i := range all {
			all[i] = coordtest.Queue(cs[i%len(cs)].Mutex(lockPath))
		}
		for i := range 3 { // the second leaves the first floor
			coordtest.Soon(t, all[i])
			if i < 2 {
				all[i].Release()
			}
		}
		holder, next, last := all[2], all[4], all[5]
		next.Release()
		synctest.Wait()
		all[3].Release()
		synctest.Wait()
		if !holder.Valid() || last.Valid() || len(last.Granted()) != 0 {
			t.Fatalf("the holder holds %v, the last one %v", holder.Valid(), last.Valid())
		}
		holder.Release()
		coordtest.Soon(t, last)
	})
}

// TestAFloorThatIsWrittenOverCostsAListing, and nothing else: between the release and the
// reading somebody joins who does not know that others are there, and marks the directory.
func TestAFloorThatIsWrittenOverCostsAListing(t *testing.T) {
	const waiters = 6
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)} // with two nobody reads the floor
		coordtest.Warm(t, cs...)
		all := make([]*coordinator.Acquisition, 2+waiters)
		for i := range all {
			all[i] = coordtest.Queue(cs[i%3].Mutex(lockPath))
		}
		lists := srv.Requests(zktest.OpGetChildren2)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpGetData && r.Path == lockPath {
				if err := srv.SetData(lockPath, []byte("zkgrant\n")); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass()
		})
		var last int64
		for _, a := range all {
			grant := coordtest.Soon(t, a)
			if grant.Token <= last || !a.Valid() {
				t.Errorf("%+v after token %d, valid %v", grant, last, a.Valid())
			}
			last = grant.Token
			a.Release()
		}
		if n := srv.Requests(zktest.OpGetChildren2) - lists; n != waiters { // the first one to wait has one ahead only
			t.Errorf("%d listings for %d handoffs", n, waiters)
		}
	})
}

// TestALoneHolderIsToldOfItsLosses, who has made one request.
func TestALoneHolderIsToldOfItsLosses(t *testing.T) {
	const timeout, locks = 10 * time.Second, 20
	for reason, c := range map[events.Reason]struct {
		within  time.Duration
		happens func(t *testing.T, srv *zktest.Server, held events.Grant)
	}{
		events.ReasonLeaseRanOut: {timeout, func(_ *testing.T, srv *zktest.Server, _ events.Grant) { srv.MuteAll(true) }},
		// The probes look at one of the locks each.
		events.ReasonNodeRemoved: {100 * time.Millisecond, func(t *testing.T, srv *zktest.Server, held events.Grant) {
			if err := srv.Delete(held.Node); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout))
				mutex := func(i int) *coordinator.Lock { return cs.Mutex(fmt.Sprint("/locks/", i)) }
				for i := range 3 * locks { // twice, for the directory to be known
					a, _ := coordtest.Hold(t, mutex(i%locks))
					a.Release()
					<-a.Done()
				}
				sent := coordtest.Traffic(srv)
				var last *coordinator.Acquisition
				var held events.Grant
				for i := range locks {
					last, held = coordtest.Hold(t, mutex(i))
				}
				if n := sent.Load(); n != locks {
					t.Fatalf("%d requests for %d locks", n, locks)
				}
				srv.Intercept(nil)
				time.Sleep(timeout + timeout/40) // past the first pace, and between two probes
				c.happens(t, srv, held)
				select {
				case lost := <-last.Lost():
					if lost.Reason != reason || lost.Token != held.Token {
						t.Errorf("%+v", lost)
					}
				case <-time.After(c.within):
					t.Errorf("nothing was heard in %v", c.within)
				}
				srv.MuteAll(false)
			})
		})
	}
}
