package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func on(screen *stagetest.Screen) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(screen, format+"\n", args...) }
}

// The order to stop comes in the middle of an item, and there is somebody who waits.
func TestToldToStop(t *testing.T) {
	for _, test := range []struct {
		name                string
		drain               time.Duration
		finished, abandoned int
		free                time.Duration // after the order
	}{
		{"in time", 10 * time.Second, 3, 0, 5 * time.Second},
		{"too slow", 2 * time.Second, 2, 1, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				server := zktest.Start(t)
				zk := program.Within(server, 6*time.Second)
				ctx, stop := context.WithCancel(t.Context())
				screen := &stagetest.Screen{}
				s := &service{each: 10 * time.Second, drain: test.drain, say: on(screen)}
				stopped := make(chan error, 1)
				go func() { stopped <- run(ctx, s, zk) }()
				time.Sleep(time.Second)
				synctest.Wait()

				c, err := coordinator.Connect(t.Context(), zk.Servers, zk.Options()...)
				if err != nil {
					t.Fatal(err)
				}
				next := c.Mutex(serviceLock).Acquire(t.Context())
				time.Sleep(24 * time.Second) // 25 s since the lock was had
				stop()
				ordered := time.Now()
				if _, err := next.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(ordered); waited != test.free {
					t.Errorf("the next one had the lock after %v, want %v", waited, test.free)
				}
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if s.finished != test.finished || s.abandoned != test.abandoned {
					t.Errorf("%d finished, %d abandoned, want %d and %d\n%s", s.finished, s.abandoned, test.finished, test.abandoned, screen)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if left := server.Sessions(); len(left) > 0 {
					t.Errorf("sessions left: %v", left)
				}
			})
		})
	}
}

// A loss ends the item at hand at once, and the service waits for the lock again.
func TestLoss(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		ctx, stop := context.WithTimeout(t.Context(), 32*time.Second)
		defer stop()
		screen := &stagetest.Screen{}
		s := &service{each: 10 * time.Second, drain: time.Minute, say: on(screen)}
		screen.When("an item is finished", 1, func() { go func() { _ = server.Expire(server.Sessions()[0]) }() })
		if err := run(ctx, s, program.Within(server, 6*time.Second)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if s.abandoned != 1 || s.finished < 3 || screen.Count("LOST the lock: session expired") != 1 || screen.Count("has the lock") != 2 {
			t.Errorf("%d finished, %d abandoned\n%s", s.finished, s.abandoned, screen)
		}
	})
}

// The order may come before the lock does.
func TestToldToStopWhileWaiting(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		zk := program.Within(server, 6*time.Second)
		c, err := coordinator.Connect(t.Context(), zk.Servers, zk.Options()...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Mutex(serviceLock).Acquire(t.Context()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		screen := &stagetest.Screen{}
		if err := run(ctx, &service{each: time.Second, drain: time.Second, say: on(screen)}, zk); err != nil {
			t.Error(err)
		}
		screen.Must(t, "finished 0, abandoned 0")
		if nodes := server.Children(serviceLock); len(nodes) != 1 {
			t.Errorf("nodes %v, want the other one's", nodes)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
