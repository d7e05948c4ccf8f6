//go:build unix

package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A process that was halted for longer than its session timeout knows at once that it
// holds nothing: Valid is false for the first goroutine that calls it, and Lost arrives
// within the time that a few goroutines need.
func TestRealHolderIsHaltedAndContinued(t *testing.T) {
	eventstest.NeedsServers(t)
	const tick = 500 * time.Millisecond
	const timeout = 2 * tick // the shortest that the servers and the library allow
	trials, processes := reliability.Trials(12, 12, 300), reliability.Trials(4, 4, 15)
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	next := coordtest.ConnectReal(t, e.Connect(),
		coordinator.WithSessionTimeout(20*tick), coordinator.WithTickTime(tick))
	r := &resumption{next: next, reasons: map[string]int{}}
	var running sync.WaitGroup
	for i := range processes {
		path := fmt.Sprintf("/locks/halted/%d", i)
		c := startChild(t, job{Holds: true, Servers: e.Connect(), Path: path, Timeout: timeout, Tick: tick, Worker: i})
		running.Go(func() {
			for r.count() < trials {
				if err := r.trial(t, c, path); err != nil {
					t.Errorf("child %d: %v", i, err)
					return
				}
			}
			eventstest.Check(t, c.HangUp())
		})
	}
	running.Wait()
	if len(r.told) < trials {
		t.Fatalf("got %d trials, want %d", len(r.told), trials)
	}
	reliability.Report(t, reliability.RowContinued,
		"%d trials in %d processes, T = %v: Lost after %s; the process itself was awake after %s; Valid was wrong in %d; "+
			"the reasons were %s; %d more trials say nothing: the lock was lost before the process was halted",
		len(r.told), processes, timeout, percentiles(r.told), percentiles(r.awake), r.wrong, reliability.Counts(r.reasons), r.early)
}

func percentiles(all []time.Duration) string {
	if len(all) == 0 {
		return "?"
	}
	slices.Sort(all)
	at := func(percent int) time.Duration {
		return all[min(len(all)*percent/100, len(all)-1)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, at most %v", at(50), at(99), at(100))
}

// resumption has the results of all processes.
type resumption struct {
	next   *coordinator.Coordinator
	waking sync.Mutex // held while one process wakes up: otherwise they would compete for the cores

	mu          sync.Mutex
	told, awake []time.Duration // times since the process was continued
	reasons     map[string]int
	wrong       int // the process believed that it held after the next Grant
	early       int // losses before the process was halted: a short timeout on a busy machine
}

func (r *resumption) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.told)
}

// trial lets the child hold the lock, halts it until the next contender holds, and waits
// until the child has noticed.
func (r *resumption) trial(t *testing.T, c *child.Child, path string) error {
	if err := c.Hear(new(message)); err != nil { // the child reports its Grant
		return err
	}
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	wanted := r.next.Mutex(path).Acquire(ctx)
	if err := halt(c); err != nil {
		return err
	}
	_, err := wanted.Wait(ctx)
	granted := machineTime()
	if err != nil {
		return errors.Join(fmt.Errorf("the lock of the halted child is not granted: %w", err), goOn(c))
	}
	r.waking.Lock()
	continued := machineTime()
	err = goOn(c)
	var lost message
	if err == nil {
		err = c.Hear(&lost)
	}
	r.waking.Unlock()
	if err != nil {
		return err
	}
	wanted.Release()
	select {
	case <-wanted.Done():
	case <-ctx.Done():
		return fmt.Errorf("the next holder has released, and is not done: %w", context.Cause(ctx))
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if lost.Believed > granted {
		r.wrong++
		t.Errorf("%v after it had been continued, and %v after the next grant, it was told that it held the lock",
			time.Duration(lost.Believed-continued), time.Duration(lost.Believed-granted))
	}
	if lost.Time < continued { // the loss came before the halt
		r.early++
		return c.Tell(message{Kind: "again"})
	}
	r.told = append(r.told, time.Duration(lost.Time-continued))
	if lost.Awake > continued {
		r.awake = append(r.awake, time.Duration(min(lost.Awake, lost.Time)-continued))
	}
	r.reasons[lost.Reason]++
	return c.Tell(message{Kind: "again"})
}
