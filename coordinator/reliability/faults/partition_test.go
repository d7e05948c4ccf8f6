package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// silentTick is the servers' tick: T = 1 s is two and a half of it.
const silentTick = 400 * time.Millisecond

// silenceKinds returns the kinds of silence. Kinds that are long enough to affect the
// lock have a T of 1 to 2 s, or 6 s for cached locks. Kinds that must not cost the lock
// have a T of 10 s.
func silenceKinds() (all []*kind) {
	short := [2]time.Duration{time.Second, 2 * time.Second}
	long, middle := [2]time.Duration{10 * time.Second, 10 * time.Second}, [2]time.Duration{6 * time.Second, 6 * time.Second}
	for _, s := range []struct {
		kind   kind
		trials map[ensemble.Direction][2]int // quick, full
	}{
		{kind{name: "longer than T, cached", cached: true, timeouts: middle, must: true, least: 1.2, most: 1.5},
			map[ensemble.Direction][2]int{ensemble.BothWays: {5, 50}}},
		{kind{name: "longer than T", timeouts: short, must: true, least: 1.5, most: 2.2},
			map[ensemble.Direction][2]int{ensemble.BothWays: {12, 200}, ensemble.ToServer: {4, 60}, ensemble.ToClient: {4, 60}}},
		{kind{name: "for about T", timeouts: short, least: 0.8, most: 1.2},
			map[ensemble.Direction][2]int{ensemble.BothWays: {8, 100}, ensemble.ToServer: {2, 30}, ensemble.ToClient: {2, 30}}},
		{kind{name: "for less than T/2", timeouts: long, mustNot: true, least: 0.1, most: 0.5},
			map[ensemble.Direction][2]int{ensemble.BothWays: {4, 60}, ensemble.ToServer: {2, 20}, ensemble.ToClient: {2, 20}}},
	} {
		for ways, trials := range s.trials {
			k := s.kind
			k.name, k.ways = fmt.Sprintf("%s, %v", k.name, ways), ways
			k.trials = reliability.Trials(trials[0], trials[1], trials[1])
			switch { // the lead depends on the lease only if the servers do not hear from the holder
			case k.mustNot:
				k.row = reliability.RowSpuriousLost
			case k.must && ways == ensemble.BothWays:
				k.row = reliability.RowPartition
			}
			all = append(all, &k)
		}
	}
	return all
}

// Holders whose connection falls silent, in one direction or both, receive Lost before
// the next contender is granted the lock. If the silence is short, they receive nothing.
// Each has its own session, proxy, T and moment.
//
//nolint:tparallel // the rounds come one after the other, or the machine would be too busy
func TestSilentPartition(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3, ensemble.Tick(silentTick), ensemble.Line("maxSessionTimeout", "40000"))
	leads, _ := leader(t, e)
	var plan []*kind
	kinds := silenceKinds()
	for _, k := range kinds {
		plan = append(plan, slices.Repeat([]*kind{k}, k.trials)...)
	}
	rest := plan[kinds[0].trials:] // the first kind takes longest: its trials are all in the first round
	rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	const together = 50
	for round := 0; len(plan) > 0; round++ {
		n := min(together, len(plan))
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) { silences(t, e, leads, round, plan[:n]) })
		plan = plan[n:]
	}
	report(t, "silent partitions", kinds...)
}

// silences runs one trial of each entry of kinds, all at the same time.
func silences(t *testing.T, e *ensemble.Ensemble, leads, round int, kinds []*kind) {
	raw := coordtest.RawClient(t, e.Addr(leads))
	var next []*coordinator.Coordinator
	for i := range 4 {
		next = append(next, connect(t, e.Addr(i%e.Size()), 10*time.Second, silentTick))
	}
	var all []*trial
	for i, k := range kinds {
		tr := k.trial(fmt.Sprintf("/locks/silent/%d-%d", round, i), next[i%len(next)])
		tr.proxy = ensemble.StartProxy(t, e.Addr(rand.IntN(e.Size())))
		tr.away = connect(t, tr.proxy.Addr(), tr.timeout, silentTick)
		all = append(all, tr)
	}
	for _, tr := range all {
		tr.hold(t, raw)
	}
	each(all, func(tr *trial) {
		pause(t.Context(), rand.N(2*time.Second))
		tr.disturbed = !tr.held.Valid()
		tr.proxy.Hold(tr.kind.ways)
		pause(t.Context(), tr.chance())
		tr.proxy.Heal()
		tr.kept = tr.reconnected(t) && tr.handOver(t)
	})
	count(t, all)
}
