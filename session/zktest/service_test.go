package zktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// serve is a service as a user might write it: of all its instances, the leader works,
// here once per minute.
func serve(ctx context.Context, c *coordinator.Coordinator, work func()) error {
	for term, err := range c.Election("/services/ticker").Terms(ctx) {
		if err != nil {
			return err
		}
		leads := term.Context(ctx) // ends with a loss
		every := time.NewTicker(time.Minute)
		for leads.Err() == nil {
			select {
			case <-every.C:
				work()
			case <-leads.Done():
			}
		}
		every.Stop()
	}
	return nil
}

// TestServiceInBubble is an example of a test for such a service. The service and the
// client library are real, an hour passes in virtual time, and the failure is one call.
func TestServiceInBubble(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		instance := func() (c *coordinator.Coordinator, works *int) {
			c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option())
			eventstest.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			works, done := new(int), make(chan error, 1)
			go func() { done <- serve(ctx, c, func() { *works++ }) }()
			t.Cleanup(func() {
				cancel()
				eventstest.ErrorIs(t, <-done, context.Canceled, "the service ended with")
				eventstest.Check(t, c.Close())
			})
			synctest.Wait() // it leads, or waits to lead
			return c, works
		}
		first, works := instance()
		_, others := instance()

		time.Sleep(time.Hour)
		synctest.Wait()
		if *works != 60 || *others != 0 {
			t.Errorf("in an hour the leader worked %d times and the other one %d times, want 60 and 0", *works, *others)
		}
		eventstest.Must(t, srv.Expire(first.SessionID()))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if *works != 60 || *others != 10 {
			t.Errorf("ten minutes after the accident they have worked %d and %d times, want 60 and 10", *works, *others)
		}
	})
}
