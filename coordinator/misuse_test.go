package coordinator_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What callers do wrong harms nobody else.

// Releases one after the other are in testdata/scenes/acquire/release.txt.
func TestReleasesAtOnceAreHarmless(t *testing.T) {
	for name, want := range map[string]error{"held": nil, "waiting": coordinator.ErrNotAcquired} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				a, _ := coordtest.Hold(t, c.Mutex(lockPath))
				if want != nil {
					holder := a
					a = coordtest.Queue(c.Mutex(lockPath))
					go holder.Release() // a Grant may be on its way
				}
				var all sync.WaitGroup
				gate := make(chan struct{})
				for range 100 {
					all.Go(func() {
						<-gate
						a.Release()
						if a.Valid() {
							t.Error("valid after Release, want not")
						}
					})
				}
				close(gate)
				all.Wait()
				if err := coordtest.EndOf(t, a); !errors.Is(err, want) || len(a.Granted()) != 0 {
					t.Errorf("behind 100 releases: %v, with %d Grants to be taken; want %v, and none", err, len(a.Granted()), want)
				}
				time.Sleep(time.Second)
				if got := srv.Children(lockPath); len(got) != 0 {
					t.Errorf("after the releases the nodes %v are left, want none", got)
				}
			})
		})
	}
}

func TestWhateverHappensInsideDoTheNextOneIsGranted(t *testing.T) {
	for name, tt := range map[string]struct {
		inside func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator)
		want   error
		closed bool
	}{
		"panic with an error": {
			inside: func(*testing.T, *zktest.Server, *coordinator.Coordinator) { panic(io.ErrUnexpectedEOF) },
		},
		"Close": {
			inside: func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
				start := time.Now()
				if err := c.Close(); err != nil || time.Since(start) != 5*time.Second { // it waits for itself, and not for ever
					t.Errorf("Close = %v after %v, want nil after 5 s", err, time.Since(start))
				}
			},
			closed: true,
		},
		"Do on the same lock": {
			inside: func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := c.Mutex(lockPath).Do(ctx, func(context.Context, events.Grant) error { return nil })
				if !errors.Is(err, context.DeadlineExceeded) { // without the context nobody can know
					t.Errorf("Do inside Do = %v, want the end of its context", err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				started := make(chan struct{})
				over := make(chan struct{})
				go func() {
					defer close(over)
					defer func() { _ = recover() }()
					err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
						close(started)
						synctest.Wait() // until the other waits
						tt.inside(t, srv, c)
						if tt.closed && !errors.Is(context.Cause(ctx), coordinator.ErrClosed) {
							t.Errorf("behind Close the function's context ends with %v, want ErrClosed", context.Cause(ctx))
						}
						return tt.want
					})
					want := tt.want
					if tt.closed {
						want = coordinator.ErrClosed
					}
					if !errors.Is(err, want) {
						t.Errorf("Do = %v, want %v", err, want)
					}
				}()
				<-started
				next := other.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(time.Hour))
				<-over
				start := time.Now()
				if _, err := next.Wait(t.Context()); err != nil || time.Since(start) > time.Second {
					t.Errorf("the next one: %v after %v, want a grant within a second", err, time.Since(start))
				}
				synctest.Wait() // Do does not wait for its node to go
				if got := srv.Children(lockPath); len(got) != 1 {
					t.Errorf("behind Do the nodes are %v, want that of the next one", got)
				}
				if !tt.closed { // and whoever panicked can go on
					next.Release()
					coordtest.Hold(t, c.Mutex(lockPath))
				}
			})
		})
	}
}
