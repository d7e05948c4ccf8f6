package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A server that answers late costs no lock as long as the lease can be kept. A lease
// counts from a request that was answered well before the newest answered probe was sent.
// So it must cover two delays, two intervals and five eighths of a tick. If it does not,
// the holder is notified before the next one is granted, whatever the servers think of
// its session. Everything recovers once the answers are quick again. The lag is chosen at
// random again and again.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick, timeout = 400 * time.Millisecond, 4 * time.Second
	const answers, requests, both = ensemble.ToClient, ensemble.ToServer, ensemble.BothWays
	kinds := []*kind{
		{name: "not late", mustNot: true, ways: both}, // a loss here is the machine's fault
		{name: "answers 0.05 T late", mustNot: true, ways: answers, least: 0.05, most: 0.05},
		{name: "answers 0.15 T late", mustNot: true, ways: answers, least: 0.15, most: 0.15},
		{name: "requests and answers 0.05 T late", mustNot: true, ways: both, least: 0.05, most: 0.05},
		{name: "answers 0.28 T late", mustNot: true, ways: answers, least: 0.28, most: 0.28},
		{name: "answers up to 0.15 T late, changing", mustNot: true, ways: answers, most: 0.15},
		{name: "requests and answers 0.1 T late", mustNot: true, ways: both, least: 0.1, most: 0.1},
		{name: "answers 0.5 T late", ways: answers, least: 0.5, most: 0.5},
		{name: "answers 0.8 T late", ways: answers, least: 0.8, most: 0.8},
		{name: "answers 1.5 T late", ways: answers, least: 1.5, most: 1.5},
		{name: "requests 1.5 T late", ways: requests, least: 1.5, most: 1.5},
		{name: "requests and answers 0.6 T late", ways: both, least: 0.6, most: 0.6},
		{name: "requests and answers up to 0.9 T late, changing", ways: both, most: 0.9},
	}
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	raw := coordtest.RawClient(t, e.Connect())
	near := connect(t, e.Connect(), 8*time.Second, tick)
	for round := range reliability.Trials(1, 1, 3) {
		var all []*trial
		for n, k := range kinds {
			k.timeouts = [2]time.Duration{timeout, timeout}
			for i := range reliability.Trials(1, 1, 6) {
				tr := k.trial(fmt.Sprintf("/locks/slow/%d-%d-%d", n, round, i), near)
				tr.proxy = ensemble.StartProxy(t, e.Addr(0))
				tr.away = connect(t, tr.proxy.Addr(), timeout, tick)
				all = append(all, tr)
			}
		}
		for _, tr := range all {
			tr.hold(t, raw)
		}
		quick := watchRoundTrips(raw)
		each(all, func(tr *trial) {
			for end := time.Now().Add(timeout * 5 / 2); time.Now().Before(end) && t.Context().Err() == nil; {
				tr.proxy.Lag(tr.kind.ways, tr.chance())
				pause(t.Context(), timeout/20)
			}
			tr.proxy.Heal()
			tr.kept = tr.reconnected(t) && tr.handOver(t)
		})
		slowest := quick()
		t.Logf("round %d: %v at most for a round trip without a lag", round, slowest)
		busy := func(tr *trial) bool { return tr.kind == kinds[0] && !tr.kept }
		if slowest > timeout/50 || slices.ContainsFunc(all, busy) {
			for _, tr := range all {
				tr.disturbed = tr.kind.mustNot
			}
		}
		count(t, all)
	}
	report(t, "slow server", kinds...)
}

// watchRoundTrips sends requests, one after the other, until the returned function is
// called. That function returns how long the slowest request took.
func watchRoundTrips(raw *zk.Conn) (slowest func() time.Duration) {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for at := time.Now(); ; {
			_, _, _ = raw.Exists("/") // only the time matters
			most = max(most, time.Since(at))
			select {
			case at = <-tick.C:
			case <-stop:
				longest <- most
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-longest
	}
}
