package scale

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) {
	runServer() // returns unless this process is a server
	goleak.VerifyTestMain(m)
}

const (
	locks = 10_000
	// heapMax is how many bytes of heap a held lock may cost. That includes what the
	// session remembers of a directory that it has created, for at most 16,384 of them.
	heapMax = 2304
)

// held is a lock with all channels that a caller's select needs.
type held struct {
	lock    *coordinator.Acquisition
	granted <-chan events.Grant
	lost    <-chan events.Lost
	done    <-chan struct{}
}

// take acquires locks, each at its own path, and returns once all are granted.
func take(t *testing.T, lock func(path string) *coordinator.Lock) []held {
	t.Helper()
	const hands = 128
	// As callers do: unlike the background, waiting for this context costs something.
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	all := make([]held, locks)
	var wait sync.WaitGroup
	for hand := range hands {
		wait.Go(func() {
			for i := hand; i < locks; i += hands {
				a := lock(fmt.Sprintf("/locks/of-many-%d", i)).Acquire(ctx)
				all[i] = held{a, a.Granted(), a.Lost(), a.Done()}
				select {
				case <-all[i].granted:
				case <-all[i].done:
					t.Errorf("lock %d ended before its Grant with %v, want a Grant", i, a.Err())
				}
			}
		})
	}
	wait.Wait()
	return all
}

// inUse returns how many bytes of heap are in use, and how many goroutines there are.
func inUse() (heap, goroutines int) {
	var stats runtime.MemStats
	// Objects with finalizers, and objects that pools keep for one more run, are freed by
	// the second run.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc), runtime.NumGoroutine()
}

// TestAHeldLockCostsLittle: no goroutine, and a bounded heap for each lock with
// everything that belongs to it, including the ZooKeeper client's part and the caller's
// channels. The test waits until every node is watched, because then a lock has
// everything.
func TestAHeldLockCostsLittle(t *testing.T) {
	for _, kind := range []struct {
		name string
		full bool // only at full length: similar to others, and slow
		lock func(c *coordinator.Coordinator, path string) *coordinator.Lock
	}{
		{"mutex", false, func(c *coordinator.Coordinator, path string) *coordinator.Lock { return c.Mutex(path) }},
		{"as kazoo", false, func(c *coordinator.Coordinator, path string) *coordinator.Lock {
			return c.Mutex(path, coordinator.AsKazoo())
		}},
		{"reader", true, func(c *coordinator.Coordinator, path string) *coordinator.Lock { return c.ReadWrite(path).Read() }},
		{"writer", true, func(c *coordinator.Coordinator, path string) *coordinator.Lock { return c.ReadWrite(path).Write() }},
	} {
		if !kind.full || eventstest.Full() {
			t.Run(kind.name, func(t *testing.T) { costsLittle(t, kind.lock) })
		}
	}
}

func costsLittle(t *testing.T, lock func(*coordinator.Coordinator, string) *coordinator.Lock) {
	srv := startServer(t)
	c := coordtest.ConnectReal(t, string(srv))
	var heap, goroutines int
	eventstest.Eventually(t, "nothing is left of a test before", func() bool {
		heap, goroutines = inUse()
		return heap < locks*heapMax/2
	})
	all := take(t, func(path string) *coordinator.Lock { return lock(c, path) })
	eventstest.Eventually(t, "every node is watched", func() bool { return srv.watches(t) == locks })
	var perLock, now int
	// Goroutines of requests just answered may be about to end, and memory about to be
	// freed.
	eventstest.Eventually(t, fmt.Sprintf("a held lock costs no goroutine, and at most %d bytes of heap", heapMax), func() bool {
		var more int
		more, now = inUse()
		perLock = (more - heap) / locks
		return now <= goroutines && perLock <= heapMax
	}, func() string {
		return fmt.Sprintf("%d bytes, and %d goroutines, want at most %d", perLock, now, goroutines)
	})
	t.Logf("%d bytes of heap for a held lock", perLock)
	runtime.KeepAlive(all)
}
