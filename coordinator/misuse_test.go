package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What callers do wrong harms nobody else.

// Releases one after the other are in testdata/acquire/release.txt.
func TestReleaseIsHarmlessInEveryState(t *testing.T) {
	type act func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition
	for name, tt := range map[string]struct {
		act  act
		want error // nil: it was held and released
	}{
		"before anything was sent": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			return c.Mutex(lockPath).Acquire(t.Context())
		}, coordinator.ErrNotAcquired},
		"from inside Do, of another": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			a, _ := coordtest.Hold(t, c.Mutex(lockPath))
			err := c.Mutex("/locks/other").Do(a.Context(t.Context()), func(ctx context.Context, _ events.Grant) error {
				coordtest.End(a)
				return context.Cause(ctx) // of which a's is the parent
			})
			if !errors.Is(err, coordinator.ErrReleased) {
				t.Errorf("Do = %v, want ErrReleased", err)
			}
			return a
		}, nil},
		"from 100 goroutines, held": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			a, _ := coordtest.Hold(t, c.Mutex(lockPath))
			releaseTogether(a)
			return a
		}, nil},
		"from 100 goroutines, waiting": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			holder, _ := coordtest.Hold(t, c.Mutex(lockPath))
			a := coordtest.Queue(c.Mutex(lockPath))
			go holder.Release() // a Grant may be on its way
			releaseTogether(a)
			return a
		}, coordinator.ErrNotAcquired},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				a := tt.act(t, srv, c)
				start := time.Now()
				a.Release()
				if took := time.Since(start); took != 0 {
					t.Errorf("Release took %v, want no time", took)
				}
				if a.Valid() {
					t.Error("valid after Release, want not")
				}
				<-a.Done()
				select {
				case grant := <-a.Granted():
					t.Errorf("after Release %+v can be taken, want no Grant", grant)
				default:
				}
				if err := a.Err(); !errors.Is(err, tt.want) {
					t.Errorf("Err = %v, want %v", err, tt.want)
				}
				a.Release()
				time.Sleep(time.Second)
				if got := srv.Children(lockPath); len(got) != 0 {
					t.Errorf("after the release the nodes %v are left, want none", got)
				}
				next, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
				a.Release() // nor is it anything to others
				synctest.Wait()
				if !next.Valid() {
					t.Error("the next holder lost the lock to another Release of the last one, want it held")
				}
			})
		})
	}
}

// releaseTogether calls Release from 100 goroutines at once.
func releaseTogether(a *coordinator.Acquisition) {
	var all sync.WaitGroup
	gate := make(chan struct{})
	for range 100 {
		all.Go(func() {
			<-gate
			a.Release()
		})
	}
	close(gate)
	all.Wait()
}

// A caller that reads none of its channels holds up nobody: not the other locks of
// its coordinator, not those who read the same stream, not who waits behind it any
// longer than it asked for.
func TestACallerThatNeverReadsDelaysNobody(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const others, wait = 100, time.Minute
		c := coordtest.Connect(t, srv)
		deaf := c.Events(t.Context())
		stream := c.Events(t.Context())
		deafOne := coordtest.Connect(t, srv)
		start := time.Now()
		_ = deafOne.Events(t.Context()) // a Grant that a subscriber has seen would count as taken
		unread := coordtest.Queue(deafOne.Mutex("/locks/unread"), coordinator.WithMaxWait(wait))
		behind := coordtest.Queue(c.Mutex("/locks/unread"))
		unreadLoss := c.Mutex("/locks/loss").Acquire(t.Context())
		if _, err := unreadLoss.Wait(t.Context()); err != nil { // the Lost will be what nobody reads
			t.Fatal(err)
		}
		finals := make(chan int)
		go func() {
			n := 0
			for ev := range stream {
				switch ev.(type) {
				case events.Ended, events.Lost:
					n++
				}
				if n == others {
					break
				}
			}
			finals <- n
		}()
		for i := range others {
			a, _ := coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/%d", i%10)))
			coordtest.End(a)
		}
		if n := <-finals; n != others || time.Since(start) != 0 {
			t.Errorf("%d ends after %v, want %d at once", n, time.Since(start), others)
		}

		if _, err := behind.Wait(t.Context()); err != nil || time.Since(start) != wait {
			t.Errorf("the one behind is granted after %v: %v; want after %v", time.Since(start), err, wait)
		}
		<-unread.Done() // the successor's grant can overtake the answer to the delete
		if !errors.Is(unread.Err(), coordinator.ErrTimeout) {
			t.Errorf("the one that was not read ends with %v, want ErrTimeout", unread.Err())
		}

		start = time.Now()
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-behind.Lost()
		<-unreadLoss.Done()
		if took := time.Since(start); took > time.Second {
			t.Errorf("told of the loss after %v, want within a second", took)
		}
		if _, ok := (<-deaf).(events.Grant); !ok {
			t.Error("the first that the deaf subscriber finds is no Grant, want one")
		}
	})
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
