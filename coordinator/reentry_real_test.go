package coordinator_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealReentry enters a lock again on a real server: of a thousand acquisitions it hears of
// one, another session is in behind the last release, and each hears of the loss.
func TestRealReentry(t *testing.T) {
	t.Parallel()
	const many, hands, stray = 1000, 8, 10 // stray: pings, probes, and the watch for who holds for long
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	c, other := coordtest.ConnectReal(t, e.Connect()), coordtest.ConnectReal(t, e.Connect())
	lock := c.Mutex("/locks/again", coordinator.Reentrant())
	outer := lock.Acquire(t.Context())
	grant := coordtest.GrantOf(t, outer)
	next := other.Mutex("/locks/again").Acquire(t.Context())
	coordtest.Queued(t, raw, "/locks/again", 2)

	ctx := outer.Context(t.Context())
	var all [hands][]*coordinator.Acquisition
	cost := coordtest.RealToll(t, e, func() {
		var wait sync.WaitGroup
		for hand := range all {
			wait.Go(func() {
				for range many / hands {
					a := lock.Acquire(ctx)
					select {
					case again := <-a.Granted():
						if again.Node != grant.Node || again.Token != grant.Token {
							t.Errorf("%+v inside %+v", again, grant)
						}
					case <-a.Done():
						t.Error(a.Err())
					}
					all[hand] = append(all[hand], a)
				}
			})
		}
		wait.Wait()
		outer.Release()
		if err := coordtest.EndOf(t, outer); err != nil {
			t.Error(err)
		}
		for _, acquired := range all {
			for _, a := range acquired[1:] {
				a.Release()
				if err := coordtest.EndOf(t, a); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if cost.Packets > stray || cost.Woken != 0 {
		t.Errorf("entered %d times: %+v", many, cost)
	}
	for i, acquired := range all {
		if names := coordtest.QueueOf(t, raw, "/locks/again"); len(names) != 2 || !acquired[0].Valid() || next.Valid() {
			t.Fatalf("with %d left: nodes %v, it holds %v, the next one %v", hands-i, names, acquired[0].Valid(), next.Valid())
		}
		acquired[0].Release()
	}
	last := coordtest.GrantOf(t, next)
	if last.Token <= grant.Token {
		t.Errorf("%+v behind %+v", last, grant)
	}
	next.Release()

	outer = lock.Acquire(t.Context())
	grant = coordtest.GrantOf(t, outer)
	inner := lock.Acquire(outer.Context(t.Context()))
	coordtest.GrantOf(t, inner)
	next = other.Mutex("/locks/again").Acquire(t.Context())
	coordtest.Queued(t, raw, "/locks/again", 2)
	if err := raw.Delete(grant.Node, -1); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*coordinator.Acquisition{outer, inner} {
		lost, end := coordtest.LossOf(t, a), coordtest.EndOf(t, a)
		if lost.Reason != events.ReasonNodeRemoved || lost.ID != a.ID() || !errors.Is(end, coordinator.ErrNodeRemoved) {
			t.Errorf("%+v, %v", lost, end)
		}
	}
	coordtest.GrantOf(t, next)
	next.Release()
	coordtest.Queued(t, raw, "/locks/again", 0)
}
