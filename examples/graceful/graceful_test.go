package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
			stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
				ctx, stop := context.WithCancel(t.Context())
				s := &service{each: 10 * time.Second, drain: test.drain, say: p.Say}
				stopped := make(chan error, 1)
				go func() { stopped <- run(ctx, s, p.ZK) }()
				time.Sleep(time.Second)
				synctest.Wait()

				next := p.Connect(t).Mutex(serviceLock).Acquire(t.Context())
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
					t.Errorf("%d finished, %d abandoned, want %d and %d\n%s", s.finished, s.abandoned, test.finished, test.abandoned, p)
				}
			})
		})
	}
}

// A loss ends the item at hand at once, and the service waits for the lock again.
func TestALossEndsTheItemAtHand(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		ctx, stop := context.WithTimeout(t.Context(), 32*time.Second)
		defer stop()
		s := &service{each: 10 * time.Second, drain: time.Minute, say: p.Say}
		p.When("an item is finished", 1, func() { go func() { _ = p.Server.Expire(p.Server.Sessions()[0]) }() })
		if err := run(ctx, s, p.ZK); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if s.abandoned != 1 || s.finished < 3 || p.Count("LOST the lock: session expired") != 1 || p.Count("has the lock") != 2 {
			t.Errorf("%d finished, %d abandoned, want at least 3 and 1, one loss, and the lock twice in\n%s", s.finished, s.abandoned, p)
		}
	})
}

// The order may come before the lock does.
func TestToldToStopWhileWaiting(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		if _, err := p.Connect(t).Mutex(serviceLock).Acquire(t.Context()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := run(ctx, &service{each: time.Second, drain: time.Second, say: p.Say}, p.ZK); err != nil {
			t.Error(err)
		}
		p.Must(t, "finished 0, abandoned 0")
		if nodes := p.Server.Children(serviceLock); len(nodes) != 1 {
			t.Errorf("nodes %v, want the other one's", nodes)
		}
	})
}
