package coordinator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestDataIsCopiedIntoTheNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		data := []byte("host-7")
		option := coordinator.Data(data)
		data[0] = 'X'
		_, grant := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath), option)
		got, _ := srv.Data(grant.Node)
		expect(t, string(got) == "host-7", "the node has %q, want %q", got, "host-7")
	})
}

func TestContextsEndWithTheLockAndSayWhy(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a := c.Mutex(lockPath).Acquire(t.Context())
		early := a.Context(t.Context())
		coordtest.Soon(t, a)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		expectError(t, early.Err(), nil, "while the lock is held")
		expectError(t, a.Context(over).Err(), context.Canceled, "below a context that has ended")
		a.Release()
		<-early.Done()
		expectError(t, context.Cause(early), coordinator.ErrReleased, "after the release")
		_, err := a.Wait(t.Context()) // of an acquisition that ends without an error
		expectError(t, err, coordinator.ErrReleased, "Wait after the release")
		<-a.Context(t.Context()).Done()

		b, _ := coordtest.Hold(t, c.Mutex(lockPath))
		ctx := b.Context(t.Context())
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-ctx.Done()
		expectError(t, context.Cause(ctx), coordinator.ErrSessionExpired, "after the loss")
		expect(t, !b.Valid(), "when its context has ended the lock is valid, want it lost")
	})
}

// TestPosition: how many contenders a waiter of each kind of lock has ahead.
func TestPosition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playPosition(t, onTheDouble(t, srv)) })
}

// TestRealPosition is the same on a real server.
func TestRealPosition(t *testing.T) { playPosition(t, onARealServer(t)) }

func playPosition(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	for kind, k := range map[string]struct {
		lock        handle
		first, each int // ahead of the first waiter, and more for each further one
	}{
		"mutex":      {c.Mutex("/position/mutex"), 1, 1},
		"write":      {c.ReadWrite("/position/readwrite").Write(), 1, 1},
		"election":   {c.Election("/position/election"), 1, 1},
		"semaphore":  {c.Semaphore("/position/semaphore", 1), 0, 1}, // the holder is in the queue no more
		"unfair":     {c.Unfair("/position/unfair"), 1, 0},          // there is no queue
		"multi-lock": {c.Multi(c.Mutex("/position/a"), c.Mutex("/position/b")), 2, 2},
	} {
		wants := func(when string, a *coordinator.Acquisition, ahead int) {
			t.Helper()
			said := ""
			eventstest.Eventually(t, fmt.Sprintf("%s: %s has %d ahead", kind, when, ahead), func() bool {
				got, ok := a.Position()
				said = fmt.Sprint("it is ", got, ", ", ok)
				return ok && got == ahead
			}, func() string { return said })
		}
		none := func(when string, a *coordinator.Acquisition) {
			t.Helper()
			got, ok := a.Position()
			expect(t, got == 0 && !ok, "%s: %s: Position = %d, %t; want 0, false", kind, when, got, ok)
		}
		holder := k.lock.Acquire(t.Context())
		coordtest.GrantOf(t, holder)
		none("a holder", holder)
		var waiting [3]*coordinator.Acquisition
		for i := range waiting {
			waiting[i] = k.lock.Acquire(t.Context())
			wants(fmt.Sprint("waiter ", i), waiting[i], k.first+i*k.each)
		}
		first, second, third := waiting[0], waiting[1], waiting[2]
		second.Release()
		wants("waiter 2, when waiter 1 has given up,", third, k.first+k.each)
		none("a waiter that was withdrawn", second)
		holder.Release()
		if kind != "unfair" {
			coordtest.GrantOf(t, first)
			none("waiter 0, now the holder", first)
		}
		first.Release()
		coordtest.GrantOf(t, third)
		none("the last one, now the holder", third)
		coordtest.End(third)
		none("after the end", third)
	}
}
