package zktest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ticker is a service as a user might write it: of all its instances the one that holds the lock does the work, here once a
// minute.
type ticker struct {
	locks *coordinator.Coordinator
	work  func()
	note  func(string)
}

// run works whenever it holds the lock, and queues again after a loss, until ctx ends.
func (s *ticker) run(ctx context.Context) error {
	for {
		err := s.term(ctx)
		var lost *coordinator.LostError
		if !errors.As(err, &lost) {
			return err
		}
		s.note("stopped: " + lost.Reason.String())
	}
}

// term is one period of holding the lock.
func (s *ticker) term(ctx context.Context) error {
	lock := s.locks.Mutex("/locks/ticker").Acquire(ctx)
	defer lock.Release()
	if _, err := lock.Wait(ctx); err != nil {
		return err
	}
	s.note("started")
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			s.work()
		case <-lock.Done(): // after a loss it does no more work
			return lock.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestServiceInBubble is an example of a test of such a service. The service and the client library are the real ones, an
// hour passes in virtual time, and the accident is one call.
func TestServiceInBubble(t *testing.T) {
	began := time.Now()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		instance := func() (locks *coordinator.Coordinator, works *int, notes *[]string, stop func()) {
			locks, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
			eventstest.Must(t, err)
			works, notes = new(int), new([]string)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- (&ticker{
					locks: locks,
					work:  func() { *works++ },
					note:  func(s string) { *notes = append(*notes, s) },
				}).run(ctx)
			}()
			synctest.Wait() // it holds the lock, or waits for it
			return locks, works, notes, func() {
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the service ended with %v, want %v", err, context.Canceled)
				}
				eventstest.Check(t, locks.Close())
			}
		}
		locks, works, notes, stop := instance()
		_, otherWorks, otherNotes, stopOther := instance()
		defer stopOther()
		defer stop()

		time.Sleep(time.Hour)
		synctest.Wait()
		if *works != 60 || *otherWorks != 0 {
			t.Errorf("in an hour the holder worked %d times and the other one %d times, want 60 and 0", *works, *otherWorks)
		}

		eventstest.Must(t, srv.Expire(locks.SessionID()))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if *works != 60 || *otherWorks != 10 {
			t.Errorf("ten minutes after the accident they have worked %d and %d times, want 60 and 10", *works, *otherWorks)
		}
		if want := []string{"started", "stopped: session expired"}; !slices.Equal(*notes, want) {
			t.Errorf("the holder noted %q, want %q", *notes, want)
		}
		if want := []string{"started"}; !slices.Equal(*otherNotes, want) {
			t.Errorf("the other one noted %q, want %q", *otherNotes, want)
		}
	})
	t.Logf("an hour of virtual time took %v", time.Since(began))
}
