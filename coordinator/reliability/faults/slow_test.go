package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// slowness is how late the messages between the servers and a holder are, in parts of T.
// The lag is chosen at random again and again.
type slowness struct {
	*kind
	ways        ensemble.Direction
	least, most float64
}

// A server that answers late costs no lock as long as the lease can be kept. A lease
// counts from a request that was answered well before the newest answered probe was sent.
// So it must cover two delays, two intervals and five eighths of a tick. If it does not,
// the holder is notified before the next one is granted, whatever the servers think of
// its session. Everything recovers once the answers are quick again.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick, timeout = 400 * time.Millisecond, 4 * time.Second
	kinds := []slowness{
		{&kind{name: "not late", mustNot: true}, ensemble.BothWays, 0, 0}, // a loss here is the machine's fault
		{&kind{name: "answers 0.05 T late", mustNot: true}, ensemble.ToClient, 0.05, 0.05},
		{&kind{name: "answers 0.15 T late", mustNot: true}, ensemble.ToClient, 0.15, 0.15},
		{&kind{name: "requests and answers 0.05 T late", mustNot: true}, ensemble.BothWays, 0.05, 0.05},
		{&kind{name: "answers 0.28 T late", mustNot: true}, ensemble.ToClient, 0.28, 0.28},
		{&kind{name: "answers up to 0.15 T late, changing", mustNot: true}, ensemble.ToClient, 0, 0.15},
		{&kind{name: "requests and answers 0.1 T late", mustNot: true}, ensemble.BothWays, 0.1, 0.1},
		{&kind{name: "answers 0.5 T late"}, ensemble.ToClient, 0.5, 0.5},
		{&kind{name: "answers 0.8 T late"}, ensemble.ToClient, 0.8, 0.8},
		{&kind{name: "answers 1.5 T late"}, ensemble.ToClient, 1.5, 1.5},
		{&kind{name: "requests 1.5 T late"}, ensemble.ToServer, 1.5, 1.5},
		{&kind{name: "requests and answers 0.6 T late"}, ensemble.BothWays, 0.6, 0.6},
		{&kind{name: "requests and answers up to 0.9 T late, changing"}, ensemble.BothWays, 0, 0.9},
	}
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	raw := stock(t, []string{e.Addr(0)}, 8*time.Second)
	near := connect(t, e.Connect(), 8*time.Second, tick)
	for round := range reliability.Trials(1, 1, 3) {
		var all []*trial
		of := map[*trial]slowness{}
		for k, s := range kinds {
			s.timeouts = [2]time.Duration{timeout, timeout}
			for i := range reliability.Trials(1, 1, 6) {
				tr := s.trial(fmt.Sprintf("/locks/slow/%d-%d-%d", k, round, i), near)
				tr.proxy = ensemble.StartProxy(t, e.Addr(0))
				tr.away = connect(t, tr.proxy.Addr(), timeout, tick)
				all, of[tr] = append(all, tr), s
			}
		}
		for _, tr := range all {
			tr.hold(t, raw)
		}
		quick := watchRoundTrips(raw)
		each(all, func(tr *trial) {
			s := of[tr]
			for end := time.Now().Add(timeout * 5 / 2); time.Now().Before(end) && t.Context().Err() == nil; {
				tr.proxy.Lag(s.ways, time.Duration((s.least+rand.Float64()*(s.most-s.least))*float64(timeout)))
				pause(t.Context(), timeout/20)
			}
			tr.proxy.Heal()
			tr.kept = tr.reconnected(t) && tr.handOver(t)
		})
		slowest := quick()
		t.Logf("round %d: %v at most for a round trip without a lag", round, slowest)
		if slowest > timeout/50 || slices.ContainsFunc(all, func(tr *trial) bool { return tr.kind == kinds[0].kind && !tr.kept }) {
			for _, tr := range all {
				tr.disturbed = tr.kind.mustNot
			}
		}
		count(t, all)
	}
	var every []*kind
	for _, s := range kinds {
		every = append(every, s.kind)
	}
	report(t, "slow server", every...)
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
