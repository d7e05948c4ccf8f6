package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A server that accepts connections but never answers costs a third of the session
// timeout, whether it comes first when a session is created, or next after a lost
// connection. Then another server is tried, and no lock is lost.
func TestMuteServer(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick, timeout = 500 * time.Millisecond, 6 * time.Second
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	near := connect(t, e.Connect(), timeout, tick)
	k := &kind{name: "mute", timeouts: [2]time.Duration{timeout, timeout}, mustNot: true}
	var first, again spread
	all := make([]*trial, reliability.Trials(8, 8, 40))
	for i := range all {
		tr := k.trial(fmt.Sprintf("/locks/mute/%d", i), near)
		tr.proxy, tr.second = ensemble.StartProxy(t, e.Addr(0)), ensemble.StartProxy(t, e.Addr(0))
		tr.second.Hold(ensemble.BothWays)
		tr.away = open(t, tr.second.Addr()+","+tr.proxy.Addr(), timeout, tick)
		all[i] = tr
	}
	began := time.Now()
	took := make(chan time.Duration, len(all))
	each(all, func(tr *trial) {
		eventstest.Check(t, tr.away.Ready(patiently(t)))
		if tr.second.Accepted() > 0 { // the order of the servers is random
			took <- time.Since(began)
		}
	})
	for close(took); len(took) > 0; {
		first.add(<-took, timeout)
	}
	for _, tr := range all {
		tr.hold(t, nil)
	}
	gaps := make(chan time.Duration, len(all))
	each(all, func(tr *trial) {
		at, tried := resumed(t, tr, time.Now()), tr.second.Accepted()
		tr.proxy.Cut()
		gaps <- <-at
		tr.expect(t, tr.second.Accepted() != tried, "the mute server was not tried")
	})
	for close(gaps); len(gaps) > 0; {
		again.add(<-gaps, timeout)
	}
	settle(t, all)
	reliability.Report(t, reliability.RowMuteServer,
		"%d reconnects, T = %v: %.3f T (median), %.3f T at most; no lock was lost", len(all), timeout, again.at(0.5), again.at(1))
	if len(first) > 0 {
		reliability.Report(t, reliability.RowMuteServer, "%d first connections: %.3f T at most",
			len(first), first.at(1))
	}
}
