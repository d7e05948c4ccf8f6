package histories

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// seedVariable repeats the history of one seed.
const seedVariable = "ZKGRANT_SEED"

// eachSeed plays a history of so many rounds for each seed, in virtual time, and returns how many there were. All choices follow
// from the seed. The order in which goroutines run does not, so a failure may need some runs to show again.
func eachSeed(t *testing.T, play func(t *testing.T, seed uint64, rounds int)) (count uint64) {
	t.Helper()
	first, count := uint64(1), uint64(reliability.Trials(5, 5, 100))
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		first, count = seed, 1
	}
	test := t.Name()
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) { play(t, seed, reliability.Trials(80, 80, 300)) })
			if t.Failed() {
				measure := "" // which decides how many rounds there are
				if os.Getenv(reliability.MeasureVariable) == "1" {
					measure = reliability.MeasureVariable + "=1 "
				}
				t.Logf("to repeat it, perhaps several times: %s%s=%d go test -count=1 -run '%s$' ./coordinator/reliability/histories",
					measure, seedVariable, seed, test)
			}
		})
	}
	return count
}

// Histories in virtual time, under faults that come all the time.
func TestHistoriesInVirtualTime(t *testing.T) {
	var total tally
	operations, longest, faults := 0, 0, 0
	verdicts := map[string]int{}
	count := eachSeed(t, func(t *testing.T, seed uint64, rounds int) {
		history := virtualHistory(t, seed, rounds)
		ops := history.operations()
		verdicts[check(t, fmt.Sprint("seed ", seed), ops, history.notes)]++
		total.count(ops)
		operations, longest, faults = operations+len(ops), max(longest, len(ops)), faults+len(history.notes)
	})
	if count > 1 { // no history alone has all kinds of locks
		if total.want(t); total.asked == 0 {
			t.Error("Revoke was never called")
		}
	}
	reliability.Report(t, reliability.RowHistories,
		"virtual time: %d histories of up to %d operations, %d in all, under %d faults: %d legal; %v",
		count, longest, operations, faults, verdicts["legal"], &total)
}

// Histories of locks that report crashes, in virtual time: sessions expire, are cut, muted and stranded, functions panic, and
// coordinators are closed while their workers hold.
func TestHistoriesOfCrashes(t *testing.T) {
	var total crashTally
	operations, faults := 0, 0
	verdicts := map[string]int{}
	count := eachSeed(t, func(t *testing.T, seed uint64, rounds int) {
		c := virtualCrashes(t, seed, rounds)
		ops := c.operations()
		verdicts[check(t, fmt.Sprint("seed ", seed), ops, c.notes)]++
		total.count(ops)
		operations, faults = operations+len(ops), faults+len(c.notes)
	})
	if missing := total.missing(); len(missing) > 0 {
		t.Errorf("no %v in all histories", missing)
	}
	reliability.Report(t, reliability.RowHistories, "locks that tell of crashes, virtual time: %d histories, %d operations under %d faults: %d legal; %v",
		count, operations, faults, verdicts["legal"], &total)
}

// virtualHistory has a crew work while things break, and returns what it has seen.
func virtualHistory(t *testing.T, seed uint64, rounds int) *history {
	t.Helper()
	crew := newCrew(0, "/locks/a", "/locks/b", "/locks/rw", "/locks/permits", "/tasks/task", "/service/leader")
	cache := seed%5 > 2
	if cache { // one for each coordinator but the last
		crew = newCrew(0, "/locks/0/cached", "/locks/1/cached", "/locks/2/cached")
	}
	if seed%2 == 1 {
		crew.marks = append(crew.marks, coordinator.Revocable())
	}
	b := newBreakage(t, seed, crew.history)
	crew.cache = []coordinator.CacheOption{coordinator.CacheHandoffs(b.random.IntN(8)), coordinator.CacheFor(b.upTo(2 * b.timeout))}
	var coordinators []*coordinator.Coordinator
	for i := range 4 {
		c, err := b.connect()()
		if err != nil {
			t.Fatal(err)
		}
		coordinators = append(coordinators, c)
		t.Cleanup(func() { _ = c.Close() }) // if not before
		for range 3 {
			w := crew.hire(c, b.random, b.timeout/2, 2*b.timeout)
			if !cache {
				continue
			}
			// The later the coordinator, the longer do its workers rest. Those of the last one use all locks.
			if w.rest <<= 2 * i; i < len(crew.paths) {
				w.paths = crew.paths[i : i+1]
			}
		}
	}
	finished := crew.start(t, func(int) bool { return crew.history.size() < 100*rounds })
	var revoking sync.WaitGroup
	b.until(finished, b.timeout/2, func() {
		someone := coordinators[b.random.IntN(len(coordinators))]
		if crew.marks == nil || b.random.IntN(3) != 0 {
			b.something(someone.SessionID())
			return
		}
		path, grace := pickRevocable(b.random, crew.paths), b.upTo(b.timeout/2)
		crew.history.note("Revoke asks for %s within %v", path, grace)
		revoking.Go(func() { crew.history.revoke(t, someone, path, grace, 4*b.timeout) })
	})
	revoking.Wait()
	<-time.After(2 * b.timeout) // until everything is as it was
	for _, c := range coordinators {
		if err := c.Close(); err != nil {
			t.Errorf("seed %d: Close: %v", seed, err)
		}
	}
	return crew.history
}

// virtualCrashes has witnesses work while things break, and returns what they have seen.
func virtualCrashes(t *testing.T, seed uint64, rounds int) *chronicle {
	t.Helper()
	c := &chronicle{history: newHistory(0)}
	crew := &witnesses{chronicle: c}
	b := newBreakage(t, seed, c.history)
	for range 3 {
		crew.open(t, b.connect())
		for range 3 {
			crew.hire(b.random, b.timeout/2, 2*b.timeout)
		}
	}
	finished := crew.start(func(done int) bool { return done < rounds })
	b.until(finished, b.timeout, func() {
		desk := crew.desks[b.random.IntN(len(crew.desks))]
		if b.random.IntN(6) == 0 {
			crew.renew(t, desk)
			return
		}
		b.something(desk.current().SessionID())
	})
	<-time.After(2 * b.timeout) // until everything is as it was
	crew.finish(t)
	return c
}
