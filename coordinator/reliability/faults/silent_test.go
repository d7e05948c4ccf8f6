package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// One server of three falls silent, without a reset, and the other two are well: no lock
// is lost. All sessions are on the silent server, each in its own phase, and have no
// other sign of the silence. Exception: a lock may be lost if a healthy server takes 0.23
// T or more for a connection, its handshake and a write, as on a busy machine.
func TestASilentServerOfThree(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick = 500 * time.Millisecond
	e := ensemble.Start(t, 3, ensemble.Tick(tick))
	leads, others := leader(t, e)
	silent := others[0]
	proxies, servers := behind(t, e)
	for i, p := range proxies {
		p.Refuse(i != silent)
	}
	near := connect(t, e.Addr(leads), 10*time.Second, tick)
	var all []*trial
	var kinds []*kind
	for _, timeout := range []time.Duration{4 * time.Second, 5 * time.Second, 6 * time.Second} {
		k := &kind{name: fmt.Sprintf("T = %v", timeout), timeouts: [2]time.Duration{timeout, timeout}, mustNot: true}
		kinds = append(kinds, k)
		for i := range reliability.Trials(4, 32, 32) {
			tr := k.trial(fmt.Sprintf("/locks/silent-of-three/%v-%d", timeout, i), near)
			tr.away = connect(t, servers, timeout, time.Duration(i%2)*tick) // every second one does not know the tick
			tr.hold(t, nil)
			all = append(all, tr)
		}
	}
	for i, p := range proxies {
		p.Refuse(false)
		if n := p.Accepted(); i != silent && n > 0 {
			t.Fatalf("%d sessions are connected to server %d before the silence, want all with server %d", n, i, silent)
		}
	}
	pause(t.Context(), time.Second) // probes are under way
	begun, connected := time.Now(), make(chan struct{})
	gaps := make(chan time.Duration, len(all))
	var news []<-chan time.Duration
	for _, tr := range all {
		news = append(news, resumed(t, tr, begun))
	}
	proxies[silent].Hold(ensemble.BothWays)
	go func() {
		defer close(connected)
		for _, at := range news {
			gaps <- <-at
		}
	}()
	slowest := slowestAnswer(t, e.Addr(leads), connected)
	var again spread
	for _, tr := range all {
		again.add(<-gaps, tr.timeout)
		tr.disturbed = !tr.held.Valid() && slowest >= tr.timeout*23/100
	}
	settle(t, all)
	report(t, "one silent server of three", kinds...)
	reliability.Report(t, reliability.RowFault, "one silent server of three: connected elsewhere after %.2f T (median), %.2f T at most",
		again.at(0.5), again.at(1))
}

// resumed returns a channel that receives the time from begun until the session was
// suspended and is connected again, or has expired.
func resumed(t *testing.T, tr *trial, begun time.Time) <-chan time.Duration {
	t.Helper()
	at, news := make(chan time.Duration, 1), tr.away.Events(t.Context())
	go func() {
		defer func() { at <- time.Since(begun) }()
		for ev := range news { // until the test ends
			switch ev.(type) {
			case events.Resumed, events.SessionExpired:
				return
			}
		}
	}()
	return at
}

// slowestAnswer connects to a healthy server with the client library alone, and writes,
// again and again until connected is closed. It returns the longest time that one
// connection, its handshake and the write took. There are several such clients, because
// on a busy machine some of the sessions wait for much longer than others.
func slowestAnswer(t *testing.T, server string, connected <-chan struct{}) time.Duration {
	t.Helper()
	const clients = 8
	var all sync.WaitGroup
	var slowest [clients]time.Duration
	for i := range clients {
		all.Go(func() {
			for {
				begun := time.Now()
				conn, news, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
				if err != nil {
					t.Error(err) // not Fatal: this is not the test's goroutine
					return
				}
				_, err = conn.Create("/answer-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				slowest[i] = max(slowest[i], time.Since(begun))
				eventstest.Check(t, err)
				conn.Close()
				for range news { // until the client's goroutines have ended
				}
				if coordtest.IsClosed(connected) {
					return
				}
			}
		})
	}
	all.Wait()
	return slices.Max(slowest[:])
}

// behind returns a proxy for each server, and their connect string.
func behind(t *testing.T, e *ensemble.Ensemble) (proxies []*ensemble.Proxy, servers string) {
	t.Helper()
	var addrs []string
	for i := range e.Size() {
		p := ensemble.StartProxy(t, e.Addr(i))
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	return proxies, strings.Join(addrs, ",")
}

// Two of three servers refuse, and the third halts for 2.6 s at T = 10 s: no session
// reconnects, and no lock is lost.
func TestAHaltOfTheOnlyServerThatAnswersIsSatOut(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const timeout, halt = 10 * time.Second, 2600 * time.Millisecond
	e := ensemble.Start(t, 3, ensemble.Tick(500*time.Millisecond))
	proxies, servers := behind(t, e)
	for _, p := range proxies[1:] {
		p.Refuse(true)
	}
	k := &kind{name: fmt.Sprintf("halts for %v", halt), timeouts: [2]time.Duration{timeout, timeout}, mustNot: true}
	near := connect(t, e.Connect(), timeout, 0)
	var all []*trial
	for i := range reliability.Trials(6, 60, 60) {
		tr := k.trial(fmt.Sprintf("/locks/halted/%d", i), near)
		tr.away = connect(t, servers, timeout, 0)
		tr.hold(t, nil)
		all = append(all, tr)
	}
	pause(t.Context(), 2*time.Second) // probes are under way
	before := proxies[0].Accepted()
	proxies[0].Hold(ensemble.BothWays)
	pause(t.Context(), halt)
	proxies[0].Heal()
	pause(t.Context(), timeout/2)
	again := proxies[0].Accepted() - before
	eventstest.Expect(t, again == 0, "after a halt of %v %d connections were made, want none", halt, again)
	settle(t, all)
	report(t, "the only server of three that answers", k)
}
