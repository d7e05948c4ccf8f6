package schedules_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
)

// enough is after how many failing seeds the rest is not played: they would fail for the same reason.
const enough = 3

// TestSchedules plays one schedule after the other, as many at a time as there are processors.
func TestSchedules(t *testing.T) {
	if replayed() {
		report(t, play(t, number(t, seedVariable, 0)))
		return
	}
	usual := reliability.Trials(schedules, 2*schedules)
	if testing.Short() {
		usual = schedules / 20
	}
	first, total := uint64(1), number(t, numberVariable, uint64(usual))
	if os.Getenv(soakVariable) == "1" {
		first, total = uint64(time.Now().UnixNano())>>10<<10, 1<<62
	}
	sum := &tally{begun: time.Now(), counts: map[string]int{}}
	var next atomic.Uint64
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for {
					n := next.Add(1)
					if n > total || sum.hopeless() || late(t) {
						return
					}
					out := play(t, first+n-1)
					report(t, out)
					sum.add(t, out)
				}
			})
		}
	})
	sum.print(t)
	if total >= 100 && !t.Failed() {
		sum.demand(t)
	}
	if soaking := os.Getenv(soakVariable) == "1"; !soaking && !t.Failed() && uint64(sum.played) < total {
		t.Errorf("only %d of %d schedules were played before the time limit of go test; give it more with -timeout", sum.played, total)
	}
	reliability.Report(t, reliability.RowTwoHolders,
		"%d in %d random schedules with %d grants and %d faults, %v of virtual time",
		sum.counts["two holders"], sum.played, sum.counts["grants"], sum.faults(), sum.lasted.Round(time.Hour))
	reliability.Report(t, reliability.RowWedged,
		"%d in %d random schedules; all had their locks %v after everything healed at the latest",
		sum.counts["wedged"], sum.played, sum.slowest.Round(time.Millisecond))
	reliability.Report(t, reliability.RowSpuriousLost, "%d in %d schedules of outages that a lease outlives, up to 0.4 T",
		sum.counts["lost without need"], sum.mild)
}

// late tells whether the test has to end soon.
func late(t *testing.T) bool {
	t.Helper()
	deadline, limited := t.Deadline()
	return limited && time.Until(deadline) < time.Minute
}

// report fails the test for what went wrong in a schedule, and says how to play it again.
func report(t *testing.T, out outcome) {
	t.Helper()
	if len(out.failures) > 0 {
		t.Errorf("seed %d, %v: %s\n"+
			"to play it again, some times because goroutines do not run in the same order each time:\n"+
			"%s=%d go test -run TestSchedules -count=20 -failfast -v ./coordinator/reliability/schedules\n%s",
			out.seed, out.recipe, strings.Join(out.failures, "\n"), seedVariable, out.seed, out.trace)
	} else if replayed() {
		t.Log(out.trace)
	}
}
