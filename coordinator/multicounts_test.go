package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What multi-locks cost.

// TestThirtyTwoFreeLocksCostTwoRequests: one to acquire all of them, one to give all back.
func TestThirtyTwoFreeLocksCostTwoRequests(t *testing.T) {
	const paths, cycles = 32, 20
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		all := mutexes(cs[0], pathsOf(paths)...)
		cycle := func() {
			a, grant := coordtest.Hold(t, all)
			if len(grant.Members) != paths {
				t.Fatalf("%+v", grant)
			}
			a.Release()
			<-a.Done()
		}
		for range 2 { // the directories are made, and known to be ours
			cycle()
		}
		before := coordtest.Total(ms)
		for range cycles {
			cycle()
		}
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2*cycles || n.Events != 0 {
			t.Errorf("%+v in %d cycles", n, cycles)
		}
		held, _ := coordtest.Hold(t, all)
		before = coordtest.Total(ms)
		time.Sleep(5 * time.Minute)
		if n := coordtest.Total(ms).Minus(before); n.Requests > 5*60+paths { // a probe a second, and each node is watched once
			t.Errorf("%+v to hold it for five minutes", n)
		}
		held.Release()
	})
}

// TestAHandoffOfMultiLocks: whoever comes when it is held creates, and lists each directory; whoever was the only one behind it claims
// when it goes. Nothing depends on the number of paths but the listings, which are in one flight.
func TestAHandoffOfMultiLocks(t *testing.T) {
	const handoffs = 10
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 2)
		a, b := mutexes(cs[0], accountA, accountB), mutexes(cs[1], accountB, accountA)
		now, _ := coordtest.Hold(t, a)
		before := coordtest.Total(ms)
		for range handoffs {
			next := coordtest.Queue(b)
			now.Release()
			coordtest.Soon(t, next)
			now, a, b = next, b, a
		}
		n := coordtest.Total(ms).Minus(before)
		t.Logf("%d handoffs: %+v", handoffs, n)
		// To come: the create, two listings, a look at each own node, a watch. To go on: the same without the create and the
		// watch, and the claim. To go: the delete.
		if n.Requests > (6+5+1)*handoffs+4 {
			t.Errorf("%+v for %d handoffs", n, handoffs)
		}
	})
}
