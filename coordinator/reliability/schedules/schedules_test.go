package schedules

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSchedules plays the schedules, as many at a time as there are processors. `make
// test` plays one in three for each commit.
func TestSchedules(t *testing.T) {
	if replayed() {
		report(t, playSeed(t, number(t, seedVariable, 0)))
		return
	}
	quick, full := 500, 10_000
	if eventstest.Raced { // the race detector makes them slow
		quick, full = 100, 300
	}
	first, total := uint64(1), number(t, numberVariable, uint64(reliability.Trials(quick, full, 2*full)))
	if os.Getenv(soakVariable) == "1" {
		first, total = uint64(time.Now().UnixNano())>>10<<10, 1<<62
	}
	sum := &tally{begun: time.Now(), counts: map[string]int{}}
	var others atomic.Uint64 // schedules whose turn it is not
	sideBySide(t, func(t *testing.T, i int) bool {
		if uint64(i) >= total || sum.hopeless() || late(t) {
			return false
		}
		seed := first + uint64(i)
		if !eventstest.Raced && !eventstest.InTurn(fmt.Sprint("seed ", seed)) {
			others.Add(1)
			return true
		}
		out := playSeed(t, seed)
		report(t, out)
		sum.add(t, out)
		return true
	})
	sum.print(t)
	total -= others.Load()
	if sum.played >= telling && !t.Failed() && onlyRecipe() == "" {
		sum.demand(t)
	}
	if soaking := os.Getenv(soakVariable) == "1"; !soaking && uint64(sum.played) < total {
		t.Logf("%d of %d schedules were played: after %d failures, or in the last minute of the time limit of go test, the rest is left out",
			sum.played, total, enough)
	}
	if want := min(least, total); uint64(sum.played) < want && !t.Failed() {
		t.Errorf("only %d schedules were played before the last minute of the time limit of go test, want %d at least", sum.played, want)
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

// late reports whether the test must end soon.
func late(t *testing.T) bool {
	t.Helper()
	deadline, limited := t.Deadline()
	return limited && time.Until(deadline) < time.Minute
}

// report fails the test if the schedule has failures, and says how to play it again.
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

// sideBySide calls play with 0, 1, 2 and so on, concurrently on as many goroutines as
// there are processors, until it returns false.
func sideBySide(t *testing.T, play func(t *testing.T, i int) (more bool)) {
	t.Helper()
	var next atomic.Int64
	t.Run("all", func(t *testing.T) {
		for player := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(player), func(t *testing.T) {
				t.Parallel()
				for play(t, int(next.Add(1)-1)) {
				}
			})
		}
	})
}
