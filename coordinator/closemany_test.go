package coordinator_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// flight is how many requests a session has under way at a time.
const flight = 256

// TestCloseRemovesManyNodesTogether: the end of the session removes what the first flight of requests has not, so Close does not
// send a request for each lock, and who waits for one of them has it when that is answered.
func TestCloseRemovesManyNodesTogether(t *testing.T) {
	const locks, latency = 2000, time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
		eventstest.Must(t, err)
		other := coordtest.Connect(t, srv)
		waiting := make([]*coordinator.Acquisition, locks)
		for i := range locks {
			path := fmt.Sprintf("/locks/%d", i)
			coordtest.Hold(t, c.Mutex(path))
			waiting[i] = other.Mutex(path).Acquire(t.Context())
		}
		time.Sleep(5 * time.Second) // every node is watched
		var requests atomic.Int32
		id := c.SessionID()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == id && r.Op != zktest.OpPing {
				requests.Add(1)
			}
			return zktest.Delay(latency)
		})
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v, want nil: the server has ended the session", err)
		}
		if n := requests.Load(); n > flight+1 {
			t.Errorf("Close of %d locks sent %d requests, want at most one flight of %d and the end of the session", locks, n, flight)
		}
		if took := time.Since(start); took > 10*latency {
			t.Errorf("Close took %v with a latency of %v, want a few round trips", took, latency)
		}
		for _, a := range waiting {
			coordtest.Soon(t, a)
		}
	})
}

// TestCloseLeavesAFloor: a holder that has waited leaves word for those behind it, at Close as at a release, which spares the next
// one a listing.
func TestCloseLeavesAFloor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 4)
		coordtest.Warm(t, cs...)
		var handoff [2]int
		for i, end := range []func(*coordinator.Acquisition){
			func(a *coordinator.Acquisition) { a.Release() },
			func(*coordinator.Acquisition) { eventstest.Check(t, cs[1].Close()) },
		} {
			first, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
			second, third := coordtest.Queue(cs[1].Mutex(lockPath)), coordtest.Queue(cs[2].Mutex(lockPath))
			coordtest.End(first)
			coordtest.Soon(t, second)
			before := ms[2].Read()
			end(second)
			coordtest.Soon(t, third)
			handoff[i] = ms[2].Read().Minus(before).Requests
			coordtest.End(third)
		}
		if handoff[1] != handoff[0] {
			t.Errorf("the handoff behind a Close cost the next holder %d requests, want %d as behind a release", handoff[1], handoff[0])
		}
	})
}

// TestCloseSaysWhatIsLeft: nothing, if the server has said that the session is over, however late the answers to the deletes
// are; and else how many nodes it has not said anything about.
func TestCloseSaysWhatIsLeft(t *testing.T) {
	const locks, timeout = 300, 10 * time.Second
	for name, c := range map[string]struct {
		action func(zktest.Request) zktest.Action
		want   string
	}{
		"every answer takes a twentieth of the timeout": {
			func(zktest.Request) zktest.Action { return zktest.Delay(timeout / 20) }, "",
		},
		"the end of the session is not answered": {
			func(r zktest.Request) zktest.Action {
				if r.Op == zktest.OpClose {
					return zktest.Swallow()
				}
				return zktest.Delay(time.Millisecond) // so a flight is under way when the next request could be sent
			}, "zkgrant: closed, and no server has said that the session is over; nodes that may be left until it expires: 76",
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				closing, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
				eventstest.Must(t, err)
				for i := range locks {
					coordtest.Hold(t, closing.Mutex(fmt.Sprintf("/locks/%d", i)))
				}
				srv.Intercept(c.action)
				start := time.Now()
				got := ""
				if err := closing.Close(); err != nil {
					got = err.Error()
				}
				if took := time.Since(start); got != c.want || took > timeout {
					t.Errorf("Close = %q after %v, want %q within %v", got, took, c.want, timeout)
				}
			})
		})
	}
}

// TestCloseRemovesRecords: what tells of a crash is no ephemeral, and does not go with the session. A Grant that nobody took
// is no crash, nor is a release that was not answered when Close was called.
func TestCloseRemovesRecords(t *testing.T) {
	const locks = flight + 1
	for name, c := range map[string]struct {
		hold    func(*coordinator.Acquisition)
		crashed bool
	}{
		"never taken":   {func(*coordinator.Acquisition) {}, false},
		"released":      {func(a *coordinator.Acquisition) { <-a.Granted(); a.Release() }, false},
		"held at Close": {func(a *coordinator.Acquisition) { <-a.Granted() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				closing, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
				eventstest.Must(t, err)
				all := make([]*coordinator.Acquisition, locks)
				for i := range all {
					all[i] = closing.Mutex(fmt.Sprintf("/locks/%d", i), coordinator.DetectCrash()).Acquire(t.Context())
				}
				time.Sleep(5 * time.Second)
				srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(time.Millisecond) })
				for _, a := range all {
					c.hold(a)
				}
				eventstest.Check(t, closing.Close())
				other, crashed := coordtest.Connect(t, srv), 0
				for i := range all {
					_, grant := coordtest.Hold(t, other.Mutex(fmt.Sprintf("/locks/%d", i), coordinator.DetectCrash()))
					if grant.Abandoned != nil {
						crashed++
					}
				}
				if c.crashed && crashed != locks || !c.crashed && crashed != 0 {
					t.Errorf("of %d locks behind Close %d tell of a crash, want all: %t", locks, crashed, c.crashed)
				}
			})
		})
	}
}

// TestRealCloseOfManyLocks holds many locks on a real server, and closes. What Close says is true; whether a server is quick enough to answer
// within the timeout is a figure.
func TestRealCloseOfManyLocks(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout, hands = 4 * time.Second, 128
	locks := eventstest.Many(2000, 100_000)
	e := largeServer(t)
	c, err := coordinator.Connect(coordtest.RealContext(t), e.Connect(), coordinator.WithSessionTimeout(timeout))
	eventstest.Must(t, err)
	raw := coordtest.RawClient(t, e.Connect())
	ctx, paths := coordtest.RealContext(t), make([]string, locks)
	var wait sync.WaitGroup
	for hand := range hands {
		wait.Go(func() {
			for i := hand; i < locks; i += hands {
				paths[i] = fmt.Sprintf("/of-many-%d", i)
				if _, err := c.Mutex(paths[i]).Acquire(ctx).Wait(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	start := time.Now()
	err = c.Close()
	took := time.Since(start)
	left := 0
	for _, path := range paths {
		children, _, err := raw.Children(path)
		if err == nil {
			left += len(children)
		}
	}
	t.Logf("Close of %d locks with a timeout of %v took %v, and says %v; %d nodes are left", locks, timeout, took, err, left)
	if err == nil && left > 0 {
		t.Errorf("Close says that nothing is left, and %d nodes are", left)
	}
}
