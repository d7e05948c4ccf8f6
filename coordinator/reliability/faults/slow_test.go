package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// slowness is how late the messages between the servers and a holder are.
type slowness struct {
	name string
	ways ensemble.Direction
	lag  func() float64 // drawn anew again and again, as a part of T
	keep bool           // the lease tolerates it

	kept, lost int
	lead       spread
}

// A server that answers late costs no lock as long as the lease can be kept up. A lease counts from what was answered well before the newest
// answered probe was sent. So it has to reach over two delays, two intervals and five eighths of a tick. If it does not, the holder is told before the next one is granted, whatever the servers think of its session. All is
// well once the answers are quick again.
func TestSlowServer(t *testing.T) {
	eventstest.Turn(t, 3)
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick, timeout = 400 * time.Millisecond, 4 * time.Second
	steady := func(part float64) func() float64 { return func() float64 { return part } }
	between := func(least, most float64) func() float64 {
		return func() float64 { return least + rand.Float64()*(most-least) }
	}
	kinds := []*slowness{
		{name: "not late", ways: ensemble.BothWays, lag: steady(0), keep: true}, // a loss here is the machine's fault
		{name: "answers 0.05 T late", ways: ensemble.ToClient, lag: steady(0.05), keep: true},
		{name: "answers 0.15 T late", ways: ensemble.ToClient, lag: steady(0.15), keep: true},
		{name: "requests and answers 0.05 T late", ways: ensemble.BothWays, lag: steady(0.05), keep: true},
		{name: "answers 0.28 T late", ways: ensemble.ToClient, lag: steady(0.28), keep: true},
		{name: "answers up to 0.15 T late, changing", ways: ensemble.ToClient, lag: between(0, 0.15), keep: true},
		{name: "requests and answers 0.1 T late", ways: ensemble.BothWays, lag: steady(0.1), keep: true},
		{name: "answers 0.5 T late", ways: ensemble.ToClient, lag: steady(0.5)},
		{name: "answers 0.8 T late", ways: ensemble.ToClient, lag: steady(0.8)},
		{name: "answers 1.5 T late", ways: ensemble.ToClient, lag: steady(1.5)},
		{name: "requests 1.5 T late", ways: ensemble.ToServer, lag: steady(1.5)},
		{name: "requests and answers 0.6 T late", ways: ensemble.BothWays, lag: steady(0.6)},
		{name: "requests and answers up to 0.9 T late, changing", ways: ensemble.BothWays, lag: between(0, 0.9)},
	}
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	raw := stock(t, []string{e.Addr(0)}, 8*time.Second, nil)
	near := connect(t, e.Connect(), 8*time.Second, tick)
	rounds, each, trials, disturbed := reliability.Trials(1, 1, 3), reliability.Trials(1, 1, 6), 0, 0
	type run struct {
		*trial
		kind  *slowness
		proxy *ensemble.Proxy
		kept  bool
	}
	for round := range rounds {
		var runs []*run
		for k, kind := range kinds {
			for i := range each {
				r := &run{kind: kind, proxy: ensemble.StartProxy(t, e.Addr(0))}
				r.trial = &trial{
					name: fmt.Sprintf("%s, %d-%d", kind.name, round, i),
					path: fmt.Sprintf("/locks/slow/%d-%d-%d", k, round, i), timeout: timeout,
					away: connect(t, r.proxy.Addr(), timeout, tick), near: near,
				}
				runs = append(runs, r)
			}
		}
		for _, r := range runs {
			r.hold(t, raw)
		}
		quick := watchRoundTrips(raw)
		var running sync.WaitGroup
		for _, r := range runs {
			running.Go(func() { r.kept = r.kind.try(t, r.trial, r.proxy) })
		}
		running.Wait()
		slowest := quick()
		trials += len(runs)
		busy := slowest > timeout/50 || slices.ContainsFunc(runs, func(r *run) bool { return r.kind == kinds[0] && !r.kept })
		t.Logf("round %d: %v at most for a round trip without a lag", round, slowest)
		for _, r := range runs {
			if busy && r.kind.keep {
				disturbed++
				continue
			}
			r.kind.count(t, r.trial, r.kept)
		}
	}
	for _, s := range kinds {
		if s.kept+s.lost == 0 {
			t.Logf("slow server, %s: not tried; without a lag it was slow as well: the machine was busy", s.name)
			continue
		}
		text := fmt.Sprintf("slow server, %s: %d of %d lost", s.name, s.lost, s.kept+s.lost)
		if s.lost > 0 {
			text += fmt.Sprintf(", each before the next grant (by %.3f T at least)", s.lead.min())
		}
		if s.keep && disturbed > 0 {
			text += fmt.Sprintf(" (of all that must keep theirs %d say nothing: without a lag it was slow as well; the machine was busy)", disturbed)
		}
		reliability.Report(t, reliability.RowFault, "%s", text)
	}
	reliability.Report(t, reliability.RowTwoHolders, "real servers, slow: 0 in %d trials", trials)
	reliability.Report(t, reliability.RowWedged, "real servers, slow: 0 in %d trials", trials)
}

// watchRoundTrips makes requests, one after the other, until the returned function is called. That returns how long the slowest
// request took.
func watchRoundTrips(raw *zk.Conn) (slowest func() time.Duration) {
	var longest time.Duration
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for at := time.Now(); ; {
			_, _, _ = raw.Exists("/") // the time is the answer
			longest = max(longest, time.Since(at))
			select {
			case at = <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		<-stopped
		return longest
	}
}

// try lets the server be slow for two and a half times T, and reports whether the lock was held until the end.
func (s *slowness) try(t *testing.T, tr *trial, p *ensemble.Proxy) (kept bool) {
	for end := time.Now().Add(tr.timeout * 5 / 2); time.Now().Before(end) && t.Context().Err() == nil; {
		p.Lag(s.ways, time.Duration(s.lag()*float64(tr.timeout)))
		pause(t.Context(), tr.timeout/20)
	}
	p.Heal()
	return tr.reconnected(t) && tr.handOver(t)
}

// count counts the outcome of a trial.
func (s *slowness) count(t *testing.T, tr *trial, kept bool) {
	if kept {
		s.kept++
		return
	}
	s.lost++
	if s.keep {
		t.Errorf("%s: lost: %v", tr.name, tr.loss.Reason)
	}
	if !tr.lost.IsZero() && !tr.granted.IsZero() {
		s.lead.addPart(tr.granted.Sub(tr.lost), tr.timeout)
	}
}
