package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const killedTick = 500 * time.Millisecond

// crew is a number of locks with a holder and a waiter each, in their own sessions, while
// a fault strikes the servers.
type crew struct {
	t      *testing.T
	e      *ensemble.Ensemble
	trials []*trial // of the latest fault, one for each lock

	down   time.Time     // when the first of the servers that are down went down
	outage time.Duration // the longest time from then until all serve
}

func newCrew(t *testing.T, e *ensemble.Ensemble, n int, timeout time.Duration) *crew {
	t.Helper()
	c := &crew{t: t, e: e}
	for i := range n {
		k := &kind{timeouts: [2]time.Duration{timeout, timeout}}
		away, near := connect(t, e.Connect(), timeout, killedTick), connect(t, e.Connect(), timeout, killedTick)
		tr := k.trial(fmt.Sprintf("/locks/killed/%v-%d", timeout, i), near)
		tr.away = away
		c.trials = append(c.trials, tr)
	}
	return c
}

func (tr *trial) ids() [2]int64 { return [2]int64{tr.away.SessionID(), tr.near.SessionID()} }

// survive has every lock held during fault and passed on after it. It returns how many
// locks were lost, and for how long not all servers served. No lock may be granted before
// from.
func (c *crew) survive(name string, fault func() (from time.Time)) (lost int, outage time.Duration) {
	for i, before := range c.trials {
		tr := before.kind.trial(before.path, before.near)
		tr.name, tr.away = fmt.Sprintf("%s, T = %v, lock %d", name, tr.timeout, i), before.away
		c.trials[i] = tr
		tr.hold(c.t, nil)
		tr.sessions = tr.ids()
	}
	c.outage = 0
	from := fault()
	each(c.trials, func(tr *trial) {
		tr.kept = tr.reconnected(c.t) && tr.handOver(c.t)
		ids := tr.ids()
		tr.expect(c.t, !tr.kept || ids == tr.sessions,
			"held throughout, and the sessions %#x are %#x", tr.sessions, ids)
	})
	for _, tr := range c.trials {
		if !tr.kept {
			lost++
		}
		tr.expect(c.t, !tr.granted.Before(from) || tr.granted.IsZero(), "granted while there was no quorum")
	}
	return lost, c.outage
}

func (c *crew) kill(servers ...int) {
	c.down = time.Now()
	kill(c.t, c.e, servers...)
}

func (c *crew) restart(servers ...int) {
	restart(c.t, c.e, servers...)
	c.serving()
}

func (c *crew) serving() {
	up(c.t, c.e)
	c.outage = max(c.outage, time.Since(c.down))
}

// halt stops every server for the duration.
func (c *crew) halt(d time.Duration) {
	c.down = time.Now()
	for _, i := range everyServer(c.e) {
		if err := c.e.Stop(i); errors.Is(err, errors.ErrUnsupported) {
			c.t.Log("this system cannot stop a process: nothing was halted")
			return
		} else {
			eventstest.Must(c.t, err)
		}
	}
	pause(c.t.Context(), d)
	for _, i := range everyServer(c.e) {
		eventstest.Must(c.t, c.e.Cont(i))
	}
	c.serving()
}

// rollingRestart kills and restarts each server in turn, the leader last, under load. The
// contending sessions continue while a server is away. In an outage shorter than half of
// their timeout, they lose nothing.
func (c *crew) rollingRestart(timeout time.Duration) {
	l := startLoad(c.t, c.e.Connect(), timeout)
	leads, others := leader(c.t, c.e)
	for _, i := range append(others, leads) {
		c.kill(i)
		l.goesOn(c.t, fmt.Sprintf("server %d is away", i))
		c.restart(i)
		l.goesOn(c.t, "all servers serve")
	}
	cycles, lost := l.stop()
	c.t.Logf("rolling restart: %d cycles of the load, %d lost", cycles, lost)
	eventstest.Expect(c.t, lost == 0 || c.outage > timeout/2,
		"rolling restart: %d of %d cycles of the load lost their lock", lost, cycles)
}
