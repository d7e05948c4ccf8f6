package scale

import (
	"context"
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestIdleSemaphoresLeaveNothing: idle semaphores that had waiters leave no watch on the
// server, and in the session only what it remembers of their directories.
func TestIdleSemaphoresLeaveNothing(t *testing.T) {
	const (
		semaphores = 2000
		atOnce     = 50
		heapMax    = 900 // bytes for each: three directories that are soon to be removed
	)
	srv := startServer(t)
	c := coordtest.ConnectReal(t, string(srv))
	stream := c.Events(t.Context())
	before, _ := inUse()
	watched := 0
	for first := 0; first < semaphores; first += atOnce {
		var all [atOnce]*coordinator.Semaphore
		var holders, waiters [atOnce]*coordinator.Acquisition
		for i := range all {
			all[i] = c.Semaphore(fmt.Sprintf("/of-many-%d", first+i), 1)
			holders[i] = all[i].Acquire(context.Background())
		}
		for i, a := range holders {
			eventstest.Receive(t, a.Granted(), "the first permit")
			waiters[i] = all[i].Acquire(context.Background())
		}
		for waiting := 0; waiting < atOnce; {
			if queued, ok := eventstest.Receive(t, stream, "a waiter is the first").(events.Queued); ok && queued.Ahead == 0 {
				waiting++
			}
		}
		watched = max(watched, srv.watches(t))
		for i, a := range holders {
			a.Release()
			eventstest.Receive(t, waiters[i].Granted(), "the permit that was given back")
			waiters[i].Release()
			eventstest.Receive(t, waiters[i].Done(), "the end")
		}
	}
	left := srv.watches(t)
	after, _ := inUse()
	each := (after - before) / semaphores
	t.Logf("up to %d watches with a waiter at each; when all are idle %d, and %d bytes of heap for each", watched, left, each)
	if watched < atOnce || left > 0 || each > heapMax {
		t.Errorf("%d idle semaphores leave %d watches, of %d, and %d bytes of heap each; want none, and at most %d", semaphores, left, watched, each, heapMax)
	}
}
