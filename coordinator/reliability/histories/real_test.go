package histories

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Histories on a real ensemble with servers that are killed, one or two at a time, and clients that are partitioned away: one
// of locks of all kinds, and one of locks that report crashes, for which a coordinator is closed with each disaster.
func TestRealHistories(t *testing.T) {
	const tick = 500 * time.Millisecond
	t.Parallel()
	eventstest.NeedsServers(t)
	operations, grants, faults := reliability.Trials(150, 300, 12_000), reliability.Trials(50, 100, 1_000), reliability.Trials(2, 4, 56)
	seed := uint64(time.Now().UnixNano())
	d := &disaster{
		ensemble: ensemble.Start(t, 3, ensemble.Tick(tick)), random: rand.New(rand.NewPCG(seed, 0)), timeout: timeoutTicks * tick,
	}
	users, witnesses := realCrew(t, d, seed%2 == 1), realWitnesses(t, d)
	var enough atomic.Bool
	more := func(int) bool { return !enough.Load() }
	used, witnessed := users.start(t, more), witnesses.start(more)
	lacks := func() bool {
		return users.history.size() < operations || witnesses.chronicle.grants.Load() < int64(grants)
	}
	for i := 0; i < faults || lacks(); i++ {
		witnesses.renew(t, witnesses.desks[d.random.IntN(len(witnesses.desks))])
		d.strike(t, i)
	}
	d.asking.Wait()
	enough.Store(true)
	eventstest.Receive(t, used, fmt.Sprintf("the workers, now that everything has been mended (seed %d)", seed))
	eventstest.Receive(t, witnessed, fmt.Sprintf("the witnesses, now that everything has been mended (seed %d)", seed))
	witnesses.finish(t)

	name, notes := fmt.Sprint("seed ", seed), users.history.notes
	var total tally
	ops := users.history.operations()
	verdict := check(t, name, ops, notes)
	total.count(ops)
	var crashes crashTally
	told := witnesses.chronicle.operations()
	crashVerdict := check(t, name, told, witnesses.chronicle.notes)
	crashes.count(told)
	if faults > 20 { // fewer may come when there is nothing to lose
		total.want(t)
		if missing := crashes.missing(); len(missing) > 0 {
			t.Errorf("no %v in the whole history", missing)
		}
	}
	reliability.Report(t, reliability.RowHistories, "three real servers: %d operations under %d faults: %s; %v", len(ops), len(notes), verdict, &total)
	reliability.Report(t, reliability.RowHistories, "locks that tell of crashes, three real servers: %d operations under %d faults: %s; %v",
		len(told), len(witnesses.chronicle.notes), crashVerdict, &crashes)
}

// realCrew hires the users of locks of all kinds. Revoke may ask for them if they are revocable.
func realCrew(t *testing.T, d *disaster, revocable bool) *crew {
	t.Helper()
	// A goroutine that was told of a loss runs in less than the least lead.
	crew := newCrew(d.timeout/25, "/locks/a", "/locks/b", "/locks/rw", "/locks/permits", "/tasks/task", "/locks/cached", "/service/leader", slowLock)
	d.history = crew.history
	if revocable {
		crew.marks, d.wanted = append(crew.marks, coordinator.Revocable()), crew.paths
	}
	for i := range d.networks {
		c, err := d.connect(d.dial(t, i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("coordinator %d: Close: %v", i, err)
			}
		})
		d.coordinators = append(d.coordinators, c)
		// Some come and go, and some hold for so long that there is something to lose. Workers of one session hand the cached lock
		// on.
		paths := crew.paths[:6]
		if i == 0 {
			paths = crew.paths[5:6]
		}
		for range crewSize - 1 {
			crew.hire(c, d.random, d.timeout/50, d.timeout).paths = paths
		}
		crew.hire(c, d.random, 6*d.timeout, d.timeout).paths = crew.paths[6:]
	}
	return crew
}

// realWitnesses hires the users of locks that report crashes.
func realWitnesses(t *testing.T, d *disaster) *witnesses {
	t.Helper()
	crew := &witnesses{chronicle: &chronicle{history: newHistory(0)}}
	d.told = crew.chronicle.history
	for i := range d.networks {
		dial := d.dial(t, i)
		crew.open(t, func() (*coordinator.Coordinator, error) { return d.connect(dial) })
		for range crewSize {
			crew.hire(d.random, d.timeout/40, d.timeout)
		}
	}
	return crew
}
