package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// One server of three falls silent, without a reset, and the other two are well: no lock is lost. All sessions are on the silent
// server, each in a phase of its own, and nothing else tells them of the silence. Exception: a lock may be lost while a healthy server
// takes 0.23 T or more for a connection, its handshake and a write, as on a busy machine.
func TestASilentServerOfThree(t *testing.T) {
	eventstest.Turn(t, 3)
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick = 500 * time.Millisecond
	e := ensemble.Start(t, 3, ensemble.Tick(tick))
	leader, err := e.Leader(patiently(t))
	if err != nil {
		t.Fatal(err)
	}
	silent := (leader + 1) % e.Size()
	proxies, servers := make([]*ensemble.Proxy, e.Size()), make([]string, e.Size())
	for i := range proxies {
		proxies[i] = ensemble.StartProxy(t, e.Addr(i))
		servers[i] = proxies[i].Addr()
		proxies[i].Refuse(i != silent)
	}
	near := connect(t, e.Addr(leader), 10*time.Second, tick)
	type run struct {
		*trial
		again time.Duration // until the session was connected again
		kept  bool
	}
	var runs []*run
	trials := reliability.Trials(2, 16, 16)
	timeouts := []time.Duration{4 * time.Second, 5 * time.Second, 6 * time.Second}
	for i := range trials {
		for _, timeout := range timeouts {
			for name, told := range map[string]time.Duration{"told": tick, "not told": 0} {
				r := &run{trial: &trial{
					name: fmt.Sprintf("T = %v, tick %s, %d", timeout, name, i), timeout: timeout,
					path: fmt.Sprintf("/locks/silent-of-three/%v-%d-%d", timeout, told, i),
					away: connect(t, strings.Join(servers, ","), timeout, told), near: near,
				}}
				r.hold(t, nil)
				runs = append(runs, r)
			}
		}
	}
	for i, p := range proxies {
		p.Refuse(false)
		if n := p.Accepted(); i != silent && n > 0 {
			t.Fatalf("%d sessions are connected to server %d before the silence, want all with server %d", n, i, silent)
		}
	}
	pause(t.Context(), time.Second) // there are probes on their way
	news := make([]<-chan time.Duration, len(runs))
	begun := time.Now()
	proxies[silent].Hold(ensemble.BothWays)
	for i, r := range runs {
		news[i] = resumed(t, r.trial, begun)
	}
	var ending, connecting sync.WaitGroup
	connecting.Add(len(runs))
	for i, r := range runs {
		ending.Go(func() {
			r.again = <-news[i]
			connecting.Done()
			if r.reconnected(t) {
				r.kept = r.handOver(t)
			}
		})
	}
	slowest := slowestAnswer(t, e.Addr(leader), &connecting)
	ending.Wait()
	kept, excused, again := map[time.Duration]int{}, map[time.Duration]int{}, spread{}
	for _, r := range runs {
		again.addPart(r.again, r.timeout)
		switch {
		case r.kept:
			kept[r.timeout]++
		case slowest >= r.timeout*23/100:
			excused[r.timeout]++
		default:
			t.Errorf("%s: lost, connected again after %v, and a healthy server answers within %v", r.name, r.again, slowest)
		}
	}
	for _, timeout := range timeouts {
		text := fmt.Sprintf("one silent server of three, T = %v: %d of %d kept", timeout, kept[timeout], 2*trials)
		if n := excused[timeout]; n > 0 {
			text += fmt.Sprintf(" (%d say nothing: a healthy server took up to %v; the machine was busy)", n, slowest)
		}
		reliability.Report(t, reliability.RowFault, "%s", text)
	}
	reliability.Report(t, reliability.RowFault, "one silent server of three: connected elsewhere after %.2f T in the middle, %.2f T at most", again.median(), again.max())
}

// resumed returns a channel that gets the time from begun until the session was away and is connected again.
func resumed(t *testing.T, tr *trial, begun time.Time) <-chan time.Duration {
	t.Helper()
	at, news := make(chan time.Duration, 1), tr.away.Events(t.Context())
	go func() {
		for ev := range news { // until the test is over
			switch ev.(type) {
			case events.Resumed, events.SessionExpired:
				at <- time.Since(begun)
				return
			}
		}
		at <- time.Since(begun)
	}()
	return at
}

// slowestAnswer connects to a healthy server with the client library alone, and writes, again and again until all have connected. It returns
// the longest time that one connection, its handshake and the write have taken.
func slowestAnswer(t *testing.T, server string, all *sync.WaitGroup) (slowest time.Duration) {
	t.Helper()
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		all.Wait()
	}()
	for {
		begun := time.Now()
		conn, news, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
		eventstest.Must(t, err)
		_, err = conn.Create("/answer-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		slowest = max(slowest, time.Since(begun))
		eventstest.Check(t, err)
		conn.Close()
		for range news { // until the client's goroutines have ended
		}
		select {
		case <-connected:
			return slowest
		default:
		}
	}
}
