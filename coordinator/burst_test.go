package coordinator_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Many requests of one session at once: what a lock that is held waits for is made before those of who comes anew.

// inTheBurst is where the locks of a burst are.
const inTheBurst = "/burst/"

// burst asks for n locks that nobody else wants.
func burst(c *coordinator.Coordinator, n int, options ...coordinator.AcquireOption) (all []*coordinator.Acquisition) {
	for i := range n {
		all = append(all, c.Mutex(fmt.Sprint(inTheBurst, i)).Acquire(context.Background(), options...))
	}
	return all
}

// granted waits until each of them is.
func granted(t *testing.T, all []*coordinator.Acquisition) {
	t.Helper()
	for i, a := range all {
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatalf("acquisition %d of %d ends with %v, want a grant", i, len(all), err)
		}
	}
}

// handoffs are ways in which a lock goes from one session to a waiter, by the requests that are made for it.
func handoffs() map[string]func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
	return map[string]func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock){
		"by a claim": func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
			return c.Mutex(lockPath), c.Mutex(lockPath)
		},
		"by a listing": func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
			return c.ReadWrite(lockPath).Write(), c.ReadWrite(lockPath).Write()
		},
		"of several": func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
			return c.Multi(c.Mutex(lockPath), c.Mutex(accountA)), c.Multi(c.Mutex(lockPath), c.Mutex(accountA))
		},
	}
}

// TestAHandoffDoesNotWaitForABurst: a session asks for a thousand locks, gives another one back, and has that granted to a waiter of its own. Each
// request of that is made before those of the burst that have not been sent yet.
func TestAHandoffDoesNotWaitForABurst(t *testing.T) {
	const (
		locks = 1000
		rtt   = 50 * time.Millisecond
	)
	for name, handoff := range handoffs() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				holds, waits := handoff(c)
				holder, _ := coordtest.Hold(t, holds)
				waiter := coordtest.Queue(waits)
				var inBurst atomic.Int32
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op != zktest.OpCreateContainer && strings.HasPrefix(r.Path, inTheBurst) {
						inBurst.Add(1)
					}
					return zktest.Delay(rtt)
				})
				all := burst(c, locks)
				synctest.Wait()
				before := int(inBurst.Load())
				holder.Release()
				grant, err := waiter.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				// What was sent before is answered before; meanwhile others of the burst take its place.
				if got, most := int(inBurst.Load())-before, locks/2; got > most {
					t.Errorf("%d requests of the burst are made before the waiter is granted the lock behind %v, want at most %d", got, grant.Waited, most)
				}
				granted(t, all)
			})
		})
	}
}

// TestLoopsLeaveRoomForOthers: more callers than there is room for have a lock each, release it and ask for it again, in a loop. One who comes
// anew is granted another lock all the same.
func TestLoopsLeaveRoomForOthers(t *testing.T) {
	const (
		callers = 600
		rtt     = 50 * time.Millisecond
	)
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		for range 2 { // the one that makes a directory learns by the next listing that it is ours
			for _, a := range burst(c, callers) {
				if _, err := a.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				coordtest.End(a)
			}
		}
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(rtt) })
		ctx, stop := context.WithCancel(t.Context())
		for i := range callers {
			go func() {
				l := c.Mutex(fmt.Sprint(inTheBurst, i))
				for a := l.Acquire(ctx); ; {
					if _, err := a.Wait(ctx); err != nil {
						return
					}
					a.Release()
					a = l.Acquire(ctx)
				}
			}()
		}
		time.Sleep(10 * rtt)
		start := time.Now()
		a, _ := coordtest.Hold(t, c.Mutex("/locks/anew"))
		if took, most := time.Since(start), 20*rtt; took > most {
			t.Errorf("a lock is granted after %v beside the loops, want at most %v", took, most)
		}
		a.Release()
		stop()
	})
}

// TestRealHandoffBehindABurst is the same on a real server: a waiter in another session is granted the lock long before the burst is.
func TestRealHandoffBehindABurst(t *testing.T) {
	eventstest.NeedsServers(t)
	locks := eventstest.Many(5_000, 20_000)
	e := largeServer(t)
	c, other := coordtest.ConnectReal(t, e.Addr(0)), coordtest.ConnectReal(t, e.Addr(0))
	holder := c.Mutex("/real/burst/lock").Acquire(context.Background())
	coordtest.GrantOf(t, holder)
	waiter := other.Mutex("/real/burst/lock").Acquire(context.Background())
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), "/real/burst/lock", 2)

	all := burst(c, locks)
	start := time.Now()
	holder.Release()
	coordtest.GrantOf(t, waiter)
	took := time.Since(start)
	for _, a := range all {
		coordtest.GrantOf(t, a)
	}
	whole := time.Since(start)
	t.Logf("the next holder %v behind the release; the last of %d others after %v", took, locks, whole)
	if took > whole/8 {
		t.Errorf("the next holder has the lock %v behind its release, want it within an eighth of the %v that the burst takes", took, whole)
	}
	for _, a := range all {
		a.Release()
	}
	waiter.Release()
	for _, a := range all {
		eventstest.Receive(t, a.Done(), "the end of a lock of the burst")
	}
}
