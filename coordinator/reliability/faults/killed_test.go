package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Servers are killed and halted, one by one and all of them, the leader among them, and
// come back. In a rolling restart the leader comes last, and other sessions contend for
// locks all the time. With T = 10 s, an outage of at most T/2 costs no lock. With T = 3
// s, a holder loses its lock while there is no quorum. No other contender is granted it
// meanwhile, and each one is afterwards.
func TestServersAreKilled(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const timeout, brief = 10 * time.Second, 3 * time.Second
	e := ensemble.Start(t, 3, ensemble.Tick(killedTick))
	locks := reliability.Trials(8, 8, 40)
	c := newCrew(t, e, locks, timeout)
	trials := 0
	for _, fault := range []struct {
		name  string
		times int
		do    func(leader int, others []int)
	}{
		{"leader killed", reliability.Trials(0, 1, 5), func(leads int, _ []int) {
			c.kill(leads)
			next, _ := leader(t, e)
			eventstest.Expect(t, next != leads, "server %d is dead and leads", leads)
			c.restart(leads)
		}},
		{"follower killed", reliability.Trials(0, 1, 3), func(_ int, others []int) {
			c.kill(others[0])
			pause(t.Context(), time.Second) // by then its clients use other servers
			c.restart(others[0])
		}},
		{"quorum lost and back", reliability.Trials(0, 1, 3), func(_ int, others []int) {
			c.kill(others...)
			c.restart(others...)
		}},
		{"all killed and restarted", reliability.Trials(0, 1, 3), func(int, []int) {
			c.kill(everyServer(e)...)
			c.restart(everyServer(e)...)
		}},
		{"all halted for 0.4 T", reliability.Trials(1, 1, 3), func(int, []int) { c.halt(timeout * 2 / 5) }},
		{"rolling restart", reliability.Trials(1, 1, 3), func(int, []int) { c.rollingRestart(timeout) }},
	} {
		if fault.times == 0 {
			continue
		}
		lost, beyond := 0, 0
		var longest time.Duration
		for n := range fault.times {
			gone, outage := c.survive(fmt.Sprintf("%s, %d", fault.name, n), func() (none time.Time) {
				fault.do(leader(t, e))
				return none
			})
			longest = max(longest, outage)
			if outage > timeout/2 {
				beyond += gone // the machine started the servers slowly
			} else {
				lost += gone
			}
		}
		eventstest.Expect(t, lost == 0, "%s: %d locks lost", fault.name, lost)
		trials += locks * fault.times
		reliability.Report(t, reliability.RowSpuriousLost,
			"%s: %d in %d, and %d in outages beyond T/2 (at most %.1f s until all servers were back)",
			fault.name, lost, locks*fault.times, beyond, longest.Seconds())
	}

	// The timeout of this crew is short enough to wait for.
	short := newCrew(t, e, reliability.Trials(4, 4, 20), brief)
	rounds, lost := reliability.Trials(1, 1, 3), 0
	for n := range rounds {
		gone, _ := short.survive(fmt.Sprintf("no quorum for longer than T, %d", n), func() (back time.Time) {
			_, others := leader(t, e)
			short.kill(others...)
			for _, tr := range short.trials {
				happens(t, tr.name+" is lost", func() bool { return !tr.held.Valid() })
			}
			pause(t.Context(), brief/2)
			back = time.Now()
			short.restart(others...)
			return back
		})
		lost += gone
	}
	want := rounds * len(short.trials)
	trials += want
	eventstest.Expect(t, lost == want, "%d of %d locks lost without a quorum", lost, want)
	reliability.Report(t, reliability.RowFault,
		"no quorum for longer than T = %v: %d of %d holders notified; no grant before it was back, all afterwards", brief, lost, want)
	for _, row := range []reliability.Row{reliability.RowTwoHolders, reliability.RowWedged} {
		reliability.Report(t, row, "real servers, killed, halted and restarted: 0 in %d trials", trials)
	}
}
