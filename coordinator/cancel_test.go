package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// steps is how many requests a free lock takes in a directory that somebody else has
// made, and a waiter in any until it waits: create, list, watch the own node, and claim
// or watch the one ahead. In a directory of ours a free lock takes one.
const steps = 4

// TestContextCancelledAtEachStep ends the context at each request of an acquisition,
// right before the server executes it, and again between its execution and its
// answer; at each request of a waiter that is let in meanwhile as well; and in a
// directory that is known to be ours, and in one of somebody else.
func TestContextCancelledAtEachStep(t *testing.T) {
	for _, ours := range []bool{false, true} {
		for _, queued := range []bool{false, true} {
			for _, late := range []bool{false, true} {
				for nth := 1; nth <= steps+4; nth++ {
					name := fmt.Sprintf("our directory %v, queued %v, answered late %v, request %d", ours, queued, late, nth)
					t.Run(name, func(t *testing.T) {
						coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { cancelAt(t, srv, ours, queued, late, nth) })
					})
				}
			}
		}
	}
}

func cancelAt(t *testing.T, srv *zktest.Server, ours, queued, late bool, nth int) {
	t.Helper()
	c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
	before := steps
	if ours {
		coordtest.Warm(t, c, other)
		if !queued {
			before = 1
		}
	} else if err := srv.Create(lockPath, nil); err != nil {
		t.Fatal(err)
	}
	var holder *coordinator.Acquisition
	if queued {
		holder, _ = coordtest.Hold(t, other.Mutex(lockPath))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count, victim := 0, c.SessionID()
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session != victim || r.Op == zktest.OpPing {
			return zktest.Pass()
		}
		if count++; count != nth {
			return zktest.Pass()
		}
		if !late {
			cancel()
			return zktest.Pass()
		}
		time.AfterFunc(time.Second, cancel)
		return zktest.Delay(2 * time.Second)
	})
	a := c.Mutex(lockPath).Acquire(ctx)
	if queued {
		time.Sleep(5 * time.Second)
		holder.Release()
	}
	patience, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	_, err := a.Wait(patience)
	switch {
	case errors.Is(err, context.Canceled):
		if ctx.Err() == nil {
			t.Error("nobody had cancelled it")
		}
	case err != nil:
		t.Errorf("Err = %v", err)
	case late && nth <= before:
		t.Error("granted, with the context cancelled for a second")
	default:
		cancel() // the wait is over
		synctest.Wait()
		if !a.Valid() {
			t.Error("taken, and then not valid")
		}
		a.Release()
	}
	<-a.Done()
	time.Sleep(3 * time.Second)
	if got := srv.Children(lockPath); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if n := srv.Watches(); n != 0 {
		t.Errorf("%d watches are left", n)
	}
	coordtest.Hold(t, c.Mutex(lockPath))
}

// TestDoWithAContextCancelledAtEachStep is the same for Do: the function runs with a
// cancelled context or not at all.
func TestDoWithAContextCancelledAtEachStep(t *testing.T) {
	for nth := 1; nth <= steps+2; nth++ {
		t.Run(fmt.Sprintf("request %d", nth), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				if err := srv.Create(lockPath, nil); err != nil {
					t.Fatal(err)
				}
				c := coordtest.Connect(t, srv)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				count := 0
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op == zktest.OpPing {
						return zktest.Pass()
					}
					if count++; count == nth {
						cancel()
					}
					return zktest.Pass()
				})
				ran := false
				err := c.Mutex(lockPath).Do(ctx, func(inner context.Context, _ events.Grant) error {
					ran = true
					if nth <= steps {
						<-inner.Done()
					}
					return inner.Err()
				})
				if nth <= steps && !errors.Is(err, context.Canceled) || nth > steps && (err != nil || !ran) {
					t.Errorf("Do = %v, ran %v", err, ran)
				}
				time.Sleep(time.Second)
				if got := srv.Children(lockPath); len(got) != 0 {
					t.Errorf("left behind: %v", got)
				}
			})
		})
	}
}
