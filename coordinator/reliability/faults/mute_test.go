package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A server that accepts connections and says nothing costs a third of the session timeout, whether it comes first
// when a session is made, or next after a lost connection. Then another server is tried, and no lock is lost.
func TestMuteServer(t *testing.T) {
	eventstest.Turn(t, 3)
	t.Parallel()
	eventstest.NeedsServers(t)
	const tick, timeout = 500 * time.Millisecond, 6 * time.Second
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	near := connect(t, e.Connect(), timeout, tick)
	raw := stock(t, []string{e.Addr(0)}, timeout, nil)
	type run struct {
		*trial
		good, mute *ensemble.Proxy
		first      time.Duration // until it was connected
		again      time.Duration // from the cut until it was connected again
	}
	runs := make([]*run, reliability.Trials(8, 8, 40))
	var running sync.WaitGroup
	for i := range runs {
		r := &run{good: ensemble.StartProxy(t, e.Addr(0)), mute: ensemble.StartProxy(t, e.Addr(0))}
		r.mute.Hold(ensemble.BothWays)
		runs[i] = r
		running.Go(func() {
			begun := time.Now()
			away, err := coordinator.Connect(patiently(t), r.mute.Addr()+","+r.good.Addr(),
				coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
			if err != nil {
				t.Error(err)
				return
			}
			r.first = time.Since(begun)
			r.trial = &trial{
				name: fmt.Sprintf("mute server, %d", i), path: fmt.Sprintf("/locks/mute/%d", i), timeout: timeout,
				away: away, near: near,
			}
		})
	}
	running.Wait()
	t.Cleanup(func() {
		for _, r := range runs {
			if r.trial != nil {
				if err := r.away.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	var first, again spread
	for _, r := range runs {
		if r.mute.Accepted() > 0 { // the order of the servers is drawn by lot
			first.addPart(r.first, timeout)
		}
		r.hold(t, raw)
	}
	for _, r := range runs {
		running.Go(func() {
			news := r.away.Events(t.Context())
			tried := r.mute.Accepted()
			cut := time.Now()
			r.good.Cut()
			for r.again == 0 {
				switch (<-news).(type) {
				case events.Resumed, events.SessionExpired, nil: // nil: the test is over
					r.again = time.Since(cut)
				}
			}
			if r.mute.Accepted() == tried {
				t.Errorf("%s: the mute server was not tried", r.name)
			}
			if !r.handOver(t) {
				t.Errorf("%s: lost: %v", r.name, r.loss.Reason)
			}
		})
	}
	running.Wait()
	for _, r := range runs {
		again.addPart(r.again, timeout)
	}
	reliability.Report(t, reliability.RowMuteServer,
		"%d reconnects past it, T = %v: %.3f T in the middle, %.3f T at most; no lock was lost",
		len(runs), timeout, again.median(), again.max())
	if first.any() {
		reliability.Report(t, reliability.RowMuteServer,
			"%d first connects past it: %.3f T at most", len(first.all), first.max())
	}
}
