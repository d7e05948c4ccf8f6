//go:build unix

package histories

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A process that was halted for longer than its session timeout knows at once that it holds nothing: Valid is
// false for the first goroutine that asks, and Lost is there in the time that a few goroutines take.
func TestRealHolderIsHaltedAndContinued(t *testing.T) {
	eventstest.NeedsServers(t)
	const tick = 500 * time.Millisecond
	const timeout = 2 * tick // the shortest that servers and we allow
	trials, processes := reliability.Trials(12, 12, 300), reliability.Trials(4, 4, 15)
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	next, err := coordinator.Connect(t.Context(), e.Connect(),
		coordinator.WithSessionTimeout(20*tick), coordinator.WithTickTime(tick))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &resumption{next: next}
	var running sync.WaitGroup
	for i := range processes {
		path := fmt.Sprintf("/locks/halted/%d", i)
		c := startChild(t, job{Name: "hold", Servers: e.Connect(), Path: path, Timeout: timeout, Tick: tick, Worker: i})
		running.Go(func() {
			for r.count() < trials {
				if err := r.trial(t, c, path); err != nil {
					t.Errorf("child %d: %v", i, err)
					return
				}
			}
			if err := c.HangUp(); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if len(r.pauses) < trials {
		t.Fatalf("got %d trials, want %d", len(r.pauses), trials)
	}

	var told, awake []time.Duration
	reasons := map[string]int{}
	wrong := 0
	for _, p := range r.pauses {
		told = append(told, p.lost-p.continued)
		if p.awake > p.continued {
			awake = append(awake, min(p.awake, p.lost)-p.continued)
		}
		reasons[p.reason]++
		if p.believed > p.granted {
			wrong++
			t.Errorf("%v after it had been continued, and %v after the next grant, it was told that it held the lock",
				p.believed-p.continued, p.believed-p.granted)
		}
	}
	var why []string
	for reason, n := range reasons {
		why = append(why, fmt.Sprintf("%s: %d", reason, n))
	}
	slices.Sort(why)
	reliability.Report(t, reliability.RowContinued,
		"%d trials in %d processes, T = %v: Lost after %s (%s); Valid wrong: %d; the process itself was awake after %s; "+
			"%d more trials came to nothing, as the lock was lost before the process was halted",
		len(told), processes, timeout, percentiles(told), strings.Join(why, ", "), wrong, percentiles(awake), r.early)
}
