package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestPosition says how many stand ahead of a waiter of each kind of lock: of a semaphore's first, nobody.
func TestPosition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playPosition(t, onTheDouble(t, srv)) })
}

// TestRealPosition is the same on a real server.
func TestRealPosition(t *testing.T) { playPosition(t, onARealServer(t)) }

func playPosition(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	wants := func(when string, a *coordinator.Acquisition, ahead int) {
		t.Helper()
		eventstest.Eventually(t, fmt.Sprintf("%s: Position = %d, true", when, ahead), func() bool {
			got, ok := a.Position()
			return ok && got == ahead
		}, func() string {
			got, ok := a.Position()
			return fmt.Sprintf("it is %d, %t", got, ok)
		})
	}
	none := func(when string, a *coordinator.Acquisition) {
		t.Helper()
		if got, ok := a.Position(); got != 0 || ok {
			t.Errorf("%s: Position = %d, %t; want 0, false", when, got, ok)
		}
	}
	for kind, k := range map[string]struct {
		lock        acquirer
		first, each int // ahead of the first who waits, and for each waiter more
	}{
		"mutex":      {c.Mutex("/position/mutex"), 1, 1},
		"write":      {c.ReadWrite("/position/readwrite").Write(), 1, 1},
		"election":   {campaigner{c.Election("/position/election")}, 1, 1},
		"multi-lock": {c.Multi(c.Mutex("/position/a"), c.Mutex("/position/b")), 2, 2}, // at both paths
		"semaphore":  {c.Semaphore("/position/semaphore", 1), 0, 1},                   // the holder is in the queue no more
		"unfair":     {c.Unfair("/position/unfair"), 1, 0},                            // there is no queue
	} {
		holder := k.lock.Acquire(t.Context())
		coordtest.GrantOf(t, holder)
		none(kind+": a holder", holder)
		first := k.lock.Acquire(t.Context())
		wants(kind+": the first waiter", first, k.first)
		second := k.lock.Acquire(t.Context())
		wants(kind+": the second waiter", second, k.first+k.each)
		third := k.lock.Acquire(t.Context())
		wants(kind+": the third waiter", third, k.first+2*k.each)
		second.Release()
		wants(kind+": the third waiter, when the second has given up", third, k.first+k.each)
		none(kind+": one that was withdrawn", second)
		holder.Release()
		if kind == "unfair" {
			first.Release()
		} else {
			coordtest.GrantOf(t, first)
			none(kind+": the first waiter, now the holder", first)
			first.Release()
		}
		coordtest.GrantOf(t, third)
		none(kind+": the last one, now the holder", third)
		third.Release()
		_ = coordtest.EndOf(t, third)
		none(kind+": behind the end", third)
	}
}
