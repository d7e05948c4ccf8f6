package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// However short the timeout is, and whatever the network does: the client library alone would wait for a second.
func TestCloseIsBoundedWithADeadNetwork(t *testing.T) {
	for name, breaks := range hangs() {
		for _, timeout := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second} {
			for _, noticed := range []time.Duration{0, timeout / 10, timeout, 3 * timeout} {
				t.Run(fmt.Sprintf("%s, T %v, since %v", name, timeout, noticed), func(t *testing.T) {
					eventstest.Bubble(t, func(t *testing.T) {
						srv := zktest.Start(t, zktest.Tick(timeout/2))
						c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
						if err != nil {
							t.Fatal(err)
						}
						coordtest.Hold(t, c.Mutex(lockPath))
						waiting := coordtest.Queue(c.Mutex(lockPath))
						breaks(srv)
						time.Sleep(noticed)
						start := time.Now()
						_ = c.Close()
						if took := time.Since(start); took > timeout {
							t.Errorf("Close took %v, want at most the session timeout, %v", took, timeout)
						}
						if !coordtest.IsClosed(waiting.Done()) {
							t.Error("after Close an acquisition waits, want it over")
						}
					})
				})
			}
		}
	}
}

func TestDoLeavesNothingOnAParentThatLivesForLong(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 100 {
			eventstest.Must(t, c.Mutex(lockPath).Do(parent, func(context.Context, events.Grant) error { return nil }))
		}
		synctest.Wait()
		if n := reflect.ValueOf(parent).Elem().FieldByName("children").Len(); n > 10 {
			t.Errorf("%d children hang on the parent after 100 calls that are over, want at most 10", n)
		}
	})
}

// TestCloseLetsGoOfTheCallersContext, which a lock keeps watched for the next one.
func TestCloseLetsGoOfTheCallersContext(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, acquire := range []asker{
			c.Mutex(lockPath).Acquire, c.Mutex("/locks/cached", coordinator.Cached()).Acquire, c.Election(coordtest.ElectionPath).Campaign,
		} {
			a := acquire(parent)
			coordtest.GrantOf(t, a)
			coordtest.End(a)
		}
		eventstest.Must(t, c.Close())
		if n := reflect.ValueOf(parent).Elem().FieldByName("children").Len(); n != 0 {
			t.Errorf("%d children hang on the parent after Close, want none", n)
		}
	})
}

// However early the context of Connect ends, the server is not left with a session without an owner.
func TestConnectThatIsGivenUpLeavesNoSession(t *testing.T) {
	for name, options := range map[string][]coordinator.Option{
		"without identity": nil,
		"with identity":    {coordinator.WithAuth("digest", []byte("u:p"))},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(2 * time.Millisecond) })
				vain := 0
				for wait := range 15 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(wait)*time.Millisecond)
					c, err := coordinator.Connect(ctx, srv.Addr(), append(options, srv.Option())...)
					cancel()
					if err == nil {
						err = c.Close()
					} else {
						vain++
						if errors.Is(err, context.DeadlineExceeded) {
							err = nil
						}
					}
					synctest.Wait()
					if left := srv.Sessions(); err != nil || len(left) > 0 {
						t.Errorf("given up after %d ms: %v, and the sessions %x are left; want nil or the end of the context, and none",
							wait, err, left)
					}
				}
				if vain == 0 || vain == 15 {
					t.Errorf("%d of 15 were in vain, want some", vain)
				}
			})
		})
	}
}

// These tests count goroutines and descriptors, so they use sockets and real time,
// and do not run beside others.

// descriptors counts the open descriptors of the process, if the system can tell.
func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// noLeak returns a check that fails the test if there are more goroutines or descriptors than now, once they had time to end.
func noLeak(t *testing.T) (check func()) {
	t.Helper()
	// The first socket of a process makes the runtime open a few for itself. A client starts its last goroutines after it has told of
	// the session: a round trip later all of them exist and are counted.
	srv := zktest.Start(t)
	a, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex("/locks/counted"))
	coordtest.End(a)
	goroutines, files := runtime.NumGoroutine(), descriptors()
	return func() {
		t.Helper()
		eventstest.Eventually(t, "goroutines and descriptors end", func() bool {
			return runtime.NumGoroutine() <= goroutines && descriptors() <= files
		})
	}
}

func TestCloseWithManyWaitingAndManyHeldLeavesNothing(t *testing.T) {
	waiting, held := eventstest.Amount(300, 1000), eventstest.Amount(30, 100)
	check := noLeak(t)
	srv := zktest.Start(t)
	c, err := coordinator.Connect(t.Context(), srv.Addr(), coordinator.WithSessionTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c.Events(t.Context()) // without a reader
	dir := func(i int) string { return fmt.Sprintf("/locks/%d", i) }
	all := make([]*coordinator.Acquisition, 0, held+waiting)
	for i := range held {
		a, _ := coordtest.Hold(t, c.Mutex(dir(i)))
		all = append(all, a)
	}
	// Half of the waiters are in one queue.
	for i := range waiting {
		all = append(all, c.Mutex(dir(max(0, i-waiting/2)%held)).Acquire(t.Context()))
	}
	nodes := func() (n int) {
		for i := range held {
			n += len(srv.Children(dir(i)))
		}
		return n
	}
	eventstest.Eventually(t, "all queue up", func() bool { return nodes() == held+waiting },
		func() string { return fmt.Sprintf("there are %d nodes, want %d", nodes(), held+waiting) })
	start := time.Now()
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	took := time.Since(start)
	t.Logf("Close took %v", took)
	if took > 10*time.Second {
		t.Errorf("Close took %v, want at most the session timeout, 10 s", took)
	}
	for _, a := range all {
		if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrClosed) || a.Valid() {
			t.Fatalf("after Close an acquisition is over: %v, valid: %v, Err = %v; want it over with ErrClosed",
				coordtest.IsClosed(a.Done()), a.Valid(), a.Err())
		}
	}
	if n := nodes(); n != 0 || len(srv.Sessions()) != 0 {
		t.Errorf("after Close %d nodes and %d sessions are left, want none", n, len(srv.Sessions()))
	}
	srv.Close()
	check()
}

// The same with a server that is away: Close is over within the session timeout, and
// the nodes go when the server ends the session.
func TestCloseWithManyWaitingAndManyHeldWhileTheServerIsAway(t *testing.T) {
	const timeout = 10 * time.Second
	waiting, held := eventstest.Amount(300, 1000), eventstest.Amount(30, 100)
	for name, fault := range map[string]func(*zktest.Server){
		"down": func(srv *zktest.Server) { srv.Down(true) },
		"mute": func(srv *zktest.Server) { srv.MuteAll(true) },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout))
				for i := range held {
					coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/%d", i)))
				}
				all := make([]*coordinator.Acquisition, waiting)
				for i := range all {
					all[i] = c.Mutex(fmt.Sprintf("/locks/%d", i%held)).Acquire(t.Context())
				}
				coordtest.Queue(c.Mutex("/locks/0"))
				fault(srv)
				start := time.Now()
				if err := c.Close(); err == nil {
					t.Error("Close = nil, want an error: nodes are left")
				}
				if took := time.Since(start); took > timeout {
					t.Errorf("Close took %v, want at most %v", took, timeout)
				}
				for _, a := range all {
					if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrClosed) {
						t.Fatalf("after Close an acquisition is over: %v, Err = %v; want it over with ErrClosed",
							coordtest.IsClosed(a.Done()), a.Err())
					}
				}
				srv.MuteAll(false)
				srv.Down(false)
				time.Sleep(timeout + 4*time.Second)
				for i := range held {
					if got := srv.Children(fmt.Sprintf("/locks/%d", i)); len(got) != 0 {
						t.Fatalf("when the session is over the nodes %v are left, want none", got)
					}
				}
			})
		})
	}
}

// TestCloseHasWaitedForTheStream: when Close returns, the goroutine of a subscriber that does not read is gone, with the events
// that it had left.
func TestCloseHasWaitedForTheStream(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		<-c.Mutex("no path").Acquire(t.Context()).Done()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if ev, open := <-stream; open {
			t.Errorf("after Close the stream says %+v, want nothing", ev)
		}
	})
}

// flight is how many requests a session has under way at a time.
const flight = 256

// TestCloseRemovesManyNodesTogether: the end of the session removes the nodes that the first flight of requests did not. So Close
// does not send a request for each lock, and a waiter for one of them has it when the end is answered.
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

// TestCloseLeavesAFloor: a holder that has waited leaves a floor for the waiters behind it, at Close as at a release. That spares
// the next holder a listing.
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
			t.Errorf("the handoff after a Close cost the next holder %d requests, want %d as after a release", handoff[1], handoff[0])
		}
	})
}

// TestCloseSaysWhatIsLeft: nothing, if the server has said that the session is over, however late the answers to the deletes are.
// Otherwise it returns the number of nodes without an answer.
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
			}, "zkgrant: closed, and no server has said that the session is over; acquisitions whose nodes may be left until it expires: 76",
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

// TestCloseRemovesRecords: a record is not ephemeral, and does not go with the session. A Grant that was not taken is no crash. Nor
// is a release that was not answered when Close was called.
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
					t.Errorf("of %d locks after Close %d tell of a crash, want all: %t", locks, crashed, c.crashed)
				}
			})
		})
	}
}

// TestRealCloseOfManyLocks holds many locks on a real server, and closes. What Close says is true. Whether the server answers
// within the timeout is only logged.
func TestRealCloseOfManyLocks(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout, hands = 4 * time.Second, 128
	locks := eventstest.Many(2000, 100_000)
	e := largeServer(t)
	c, err := coordinator.Connect(coordtest.RealContext(t), e.Connect(), coordinator.WithSessionTimeout(timeout),
		coordinator.WithNodeBudget(locks*80)) // more than a server bears that has to start again, which this one does not
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
