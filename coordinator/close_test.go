package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
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
							t.Error("behind Close an acquisition waits, want it over")
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

// However early the context of Connect ends, the server is not left with a session
// that nobody owns.
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

// descriptors counts the open descriptors of the process, where the system tells.
func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// noLeak fails the test if there are more goroutines or descriptors, once they had
// time to end, than when it was called.
func noLeak(t *testing.T) (check func()) {
	t.Helper()
	// The first socket of a process makes the runtime open a few for itself, and a
	// client starts its last goroutines after it has told of the session: a round
	// trip later all of them are there to be counted.
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
	c.Events(t.Context()) // which nobody reads
	dir := func(i int) string { return fmt.Sprintf("/locks/%d", i) }
	all := make([]*coordinator.Acquisition, 0, held+waiting)
	for i := range held {
		a, _ := coordtest.Hold(t, c.Mutex(dir(i)))
		all = append(all, a)
	}
	// Half of the waiters stand in one queue.
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
			t.Fatalf("behind Close an acquisition is over: %v, valid: %v, Err = %v; want it over with ErrClosed",
				coordtest.IsClosed(a.Done()), a.Valid(), a.Err())
		}
	}
	if n := nodes(); n != 0 || len(srv.Sessions()) != 0 {
		t.Errorf("behind Close %d nodes and %d sessions are left, want none", n, len(srv.Sessions()))
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
						t.Fatalf("behind Close an acquisition is over: %v, Err = %v; want it over with ErrClosed",
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

// TestCloseHasWaitedForTheStream: the goroutine of a subscriber that does not read is
// gone when Close returns, and with it what it had to offer.
func TestCloseHasWaitedForTheStream(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		<-c.Mutex("no path").Acquire(t.Context()).Done()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if ev, open := <-stream; open {
			t.Errorf("behind Close the stream says %+v, want nothing", ev)
		}
	})
}
