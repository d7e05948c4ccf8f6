package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const staleTick = 500 * time.Millisecond

// A follower that has lost its leader does not know it, and keeps answering its clients'
// pings while the leader ends their sessions. Holders must still receive Lost earlier:
// holders for a long time with probes in all phases, and holders that were just granted
// the lock in a session that had been idle.
//
//nolint:tparallel // the rounds cut off the same follower, one after the other
func TestStaleFollower(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	links := ensemble.NewLinks(t)
	// No server closes a connection before half of syncLimit has passed, so the follower
	// stays stale.
	e := ensemble.Start(t, 3, links.Setting(), ensemble.Tick(staleTick), ensemble.Line("syncLimit", "60"))
	var kinds []*kind
	for _, when := range []string{"held for long", "granted after a long idle"} {
		for _, ticks := range []time.Duration{3, 12} {
			kinds = append(kinds, &kind{
				name: fmt.Sprintf("T = %d ticks, %s", ticks, when), timeouts: [2]time.Duration{ticks * staleTick, ticks * staleTick},
				must: true, expires: true, row: reliability.RowStaleFollower,
			})
		}
	}
	late := func(k *kind) bool { return slices.Contains(kinds[2:], k) }
	// On a busy machine, locks with a short T are lost before the fault begins. These do
	// not count as trials, so up to two more rounds are played for such kinds.
	untried := func(k *kind) bool { return k.lost == 0 }
	rounds, more := reliability.Trials(1, 1, 8), func() bool { return slices.ContainsFunc(kinds, untried) && !t.Failed() }
	for round := 0; round < rounds || round < rounds+2 && more(); round++ {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) { staleRound(t, e, links, round, kinds, late) })
	}
	report(t, "stale follower", kinds...)
}

func staleRound(t *testing.T, e *ensemble.Ensemble, links *ensemble.Links, round int, kinds []*kind, late func(*kind) bool) {
	ctx := patiently(t)
	leads, others := leader(t, e)
	raw := coordtest.RawClient(t, e.Addr(leads))
	near := connect(t, e.Addr(leads), 10*time.Second, staleTick)
	var all []*trial
	for i, k := range kinds {
		for n := range 3 {
			tr := k.trial(fmt.Sprintf("/locks/stale/%d-%d-%d", round, i, n), near)
			tr.away = connect(t, e.Addr(others[0]), tr.timeout, staleTick)
			all = append(all, tr)
		}
	}
	hold := func(which bool) {
		for _, tr := range all {
			if late(tr.kind) == which {
				tr.hold(t, raw)
			}
		}
	}
	hold(false)
	pause(ctx, 2*time.Second+rand.N(time.Duration(reliability.Trials(500, 500, 5000))*time.Millisecond))
	hold(true)
	pause(ctx, rand.N(staleTick/2)) // any phase of the leader's question
	for _, tr := range all {
		tr.disturbed = !tr.held.Valid()
	}
	links.Isolate(others[0])
	granted(all)
	links.Heal(others[0])
	up(t, e)
	settle(t, all)
}
