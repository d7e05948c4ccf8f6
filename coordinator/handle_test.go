package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// handlesOf returns a handle of each kind, each at its own path.
func handlesOf(c *coordinator.Coordinator) map[string]handle {
	return map[string]handle{
		"mutex":      c.Mutex("/handles/mutex"),
		"cached":     c.Mutex("/handles/cached", coordinator.Cached()),
		"read":       c.ReadWrite("/handles/read").Read(),
		"write":      c.ReadWrite("/handles/write").Write(),
		"semaphore":  c.Semaphore("/handles/semaphore", 1),
		"election":   c.Election("/handles/election"),
		"unfair":     c.Unfair("/handles/unfair"),
		"multi-lock": c.Multi(c.Mutex("/handles/a"), c.ReadWrite("/handles/b").Write()),
	}
}

// against returns a handle that waits for a holder of the given kind.
func against(kind string, c *coordinator.Coordinator) handle {
	if kind == "read" {
		return c.ReadWrite("/handles/read").Write()
	}
	return handlesOf(c)[kind]
}

// TestEveryHandleHolds: Hold returns a taken lock, or the error.
func TestEveryHandleHolds(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playHold(t, onTheDouble(t, srv)) })
}

func TestRealEveryHandleHolds(t *testing.T) { playHold(t, onARealServer(t)) }

func playHold(t *testing.T, s *site) {
	t.Helper()
	c, other := s.connect(), s.connect()
	gone := errors.New("no more")
	for kind, h := range handlesOf(c) {
		a, err := h.Hold(t.Context())
		eventstest.Must(t, err)
		expect(t, a.Valid() && len(a.Granted()) == 0 && a.Grant().Path == h.Path(),
			"%s: Hold returns %+v, valid %v; want it held, and its Grant taken", kind, a.Grant(), a.Valid())

		waiter := against(kind, other)
		_, err = waiter.Hold(t.Context(), coordinator.Try())
		expectError(t, err, coordinator.ErrNotAcquired, kind+": a Try")
		_, err = waiter.Hold(t.Context(), coordinator.MaxWait(-1))
		expectError(t, err, coordinator.ErrTimeout, kind+": a time that has run out")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
		none, err := waiter.Hold(ctx)
		cancel()
		expect(t, none == nil && errors.Is(err, gone), "%s: Hold = %v, %v; want nothing, and the cause", kind, none, err)

		eventstest.Eventually(t, kind+": the waiter has withdrawn", func() bool {
			queue, err := h.Queue(t.Context())
			return err == nil && len(queue) == max(1, len(a.Grant().Members))
		})
		coordtest.End(a)
		eventstest.Check(t, waiter.Do(t.Context(), func(ctx context.Context, grant events.Grant) error {
			within, _ := coordinator.FromContext(ctx)
			expect(t, within.Valid() && within.Grant().Token == grant.Token, "%s: Do runs without %+v", kind, grant)
			return nil
		}))
	}
}

// TestEveryHoldersDataCanBeSet, and Queue shows the new data. The next holder has its
// own.
func TestEveryHoldersDataCanBeSet(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playSetData(t, onTheDouble(t, srv)) })
}

func TestRealEveryHoldersDataCanBeSet(t *testing.T) { playSetData(t, onARealServer(t)) }

func playSetData(t *testing.T, s *site) {
	t.Helper()
	c, other := s.connect(), s.connect()
	gone := errors.New("no more")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	handles := handlesOf(c)
	handles["permits"] = c.Semaphore("/handles/permits", 2)
	handles["revocable"] = c.Mutex("/handles/revocable", coordinator.Revocable())
	for kind, h := range handles {
		permits := map[string]coordinator.AcquireOption{"permits": coordinator.Permits(2)}[kind]
		shows := func(when, data string) {
			t.Helper()
			queue, err := h.Queue(t.Context())
			eventstest.Must(t, err)
			for _, contender := range queue {
				expect(t, contender.Holding && string(contender.Data) == data,
					"%s: %s the queue shows %+v with %q, want holders with %q", kind, when, contender, contender.Data, data)
			}
			expect(t, len(queue) > 0, "%s: %s the queue is empty", kind, when)
		}
		for range 3 { // a cached node is kept from the second release on
			a, err := h.Hold(t.Context(), permits, named("old"))
			eventstest.Must(t, err)
			shows("at first", "old")
			eventstest.Must(t, a.SetData(t.Context(), []byte("new")))
			shows("then", "new")
			expectError(t, a.SetData(t.Context(), make([]byte, 1<<20)), coordinator.ErrTooLarge, kind+": too much")
			expectError(t, a.SetData(over, nil), gone, kind+": a context that has ended")
			shows("after calls that are refused", "new")
			coordtest.End(a)
			expectError(t, a.SetData(t.Context(), nil), coordinator.ErrReleased, kind+": after the release")
		}
		if kind == "permits" || kind == "revocable" {
			continue
		}
		a, err := h.Hold(t.Context())
		eventstest.Must(t, err)
		shows("without data", "")
		waiter := against(kind, other).Acquire(t.Context())
		expectError(t, waiter.SetData(t.Context(), nil), coordinator.ErrNotAcquired, kind+": a waiter")
		coordtest.End(waiter)
		coordtest.End(a)
	}
}

// TestHoldReturnsWithItsContext, even while no server answers, and leaves no node.
func TestHoldReturnsWithItsContext(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for kind, h := range handlesOf(c) {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := h.Hold(ended)
			expectError(t, err, context.Canceled, kind+": with a context that has ended")

			srv.Mute(c.SessionID(), true)
			began := time.Now()
			_, err = h.Hold(within(t, time.Second))
			expectError(t, err, context.DeadlineExceeded, kind+": on a mute server")
			expectEqual(t, time.Since(began), time.Second, "%s: until Hold returns", kind)
			srv.Mute(c.SessionID(), false)
			after := against(kind, other).Acquire(t.Context())
			coordtest.Soon(t, after)
			coordtest.End(after)
		}
	})
}
