package coordinator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestAWithdrawnCreateMakesNoNodeLater: an acquisition is released while its directories
// are being made, and a fault follows. Without a connection its caller does not wait for
// its requests, and acquires the lock again. From then on there are no nodes but those of
// the second acquisition.
func TestAWithdrawnCreateMakesNoNodeLater(t *testing.T) {
	const lag = 20 * time.Millisecond // each way
	kinds := map[string]struct {
		of    func(c *coordinator.Coordinator, dir string) handle
		nodes int
	}{
		"mutex":     {func(c *coordinator.Coordinator, dir string) handle { return c.Mutex(dir + "/a") }, 1},
		"semaphore": {func(c *coordinator.Coordinator, dir string) handle { return c.Semaphore(dir+"/s", 1) }, 1},
		"multi": {func(c *coordinator.Coordinator, dir string) handle {
			return c.Multi(c.Mutex(dir+"/b"), c.Mutex(dir+"/c"))
		}, 2},
	}
	type fault struct {
		direction faultnet.Direction
		verdict   faultnet.Verdict
		cut       time.Duration // the connection ends so much later; 0: never
	}
	swallowed, dropped := faultnet.Swallow(), faultnet.Drop()
	faults := []fault{
		{faultnet.Up, swallowed, 0}, {faultnet.Up, dropped, time.Second},
		{faultnet.Down, swallowed, 0}, {faultnet.Down, dropped, time.Second},
		{faultnet.Down, faultnet.CutBefore(), 0}, {faultnet.Down, faultnet.CutAfter(), 0},
	}
	play := func(t *testing.T, srv *zktest.Server, kind string, dir string, released time.Duration, f fault, nth int32) {
		t.Helper()
		of, most := kinds[kind].of, kinds[kind].nodes
		nodes := func() (n int) {
			for _, node := range srv.Tree() {
				if srv.Owner(node) != 0 {
					n++
				}
			}
			return n
		}
		var phase, frames atomic.Int32 // phase: 1 acquiring, 2 released, 3 acquiring again
		var network *faultnet.Network
		network = faultnet.New(srv.DialContext, func(x faultnet.Frame) faultnet.Verdict {
			if n := nodes(); phase.Load() == 3 && n > most {
				t.Errorf("%d nodes, want %d at most", n, most)
			}
			// A frame upwards is judged when it is sent, and one downwards when it arrives. What the client sends
			// after the end of a connection waits in its queue, and no one can take it back.
			if x.Op == zktest.OpPing || x.Direction != f.direction || phase.Load() < int32(f.direction) || frames.Add(1) != nth {
				return faultnet.Pass()
			}
			if f.cut > 0 {
				time.AfterFunc(f.cut, network.Cut)
			}
			return f.verdict
		})
		c := coordtest.Connect(t, srv, coordinator.WithDialer(network.Dial))
		holdAgainAndAgain(t, c.Mutex("/locks/first"), 1) // from now on the session knows that there are containers
		network.Lag(faultnet.Up, lag)
		network.Lag(faultnet.Down, lag)
		phase.Store(1)
		first := of(c, dir).Acquire(context.Background())
		time.Sleep(released)
		phase.Store(2)
		coordtest.End(first)
		for nodes() > 0 {
			time.Sleep(lag)
		}
		phase.Store(3)
		second := of(c, dir).Acquire(context.Background())
		coordtest.GrantOf(t, second)
		coordtest.End(second)
		time.Sleep(time.Minute)
		if n := nodes(); n > 0 {
			t.Errorf("%d nodes are left, want none", n)
		}
	}
	for kind := range kinds {
		for _, f := range faults {
			if kind != "mutex" && f.verdict != faultnet.CutAfter() {
				continue
			}
			for nth := int32(1); nth <= 4; nth++ {
				for _, dir := range []string{"/locks", "/more"} {
					for _, released := range []time.Duration{lag / 2, lag/2 + 2*lag} {
						name := fmt.Sprintf("%s in %s, released after %v, frame %d %v: %v", kind, dir, released, nth, f.direction, f.verdict)
						coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
							play(t, srv, kind, dir, released, f, nth)
						})
					}
				}
			}
		}
	}
}
