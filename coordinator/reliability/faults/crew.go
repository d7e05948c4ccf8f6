package faults

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// killedTick is the servers' tick.
const killedTick = 500 * time.Millisecond

// crew is a number of locks with a holder and a waiter each, in sessions of their own, while a fault strikes the servers.
type crew struct {
	e     *ensemble.Ensemble
	pairs []*pair
}

// pair is a trial that is repeated, and how long its holder's session has been without a connection.
type pair struct {
	*trial
	sessions [2]int64 // before the fault

	mu        sync.Mutex
	suspended time.Time
	longest   time.Duration
}

func newCrew(t *testing.T, e *ensemble.Ensemble, n int, timeout time.Duration) *crew {
	t.Helper()
	c := &crew{e: e}
	for i := range n {
		p := &pair{trial: &trial{
			path: fmt.Sprintf("/locks/killed/%v-%d", timeout, i), timeout: timeout,
			away: connect(t, e.Connect(), timeout, killedTick), near: connect(t, e.Connect(), timeout, killedTick),
		}}
		news := p.away.Events(t.Context())
		go func() { // ends with the coordinator
			for ev := range news {
				p.note(ev)
			}
		}()
		c.pairs = append(c.pairs, p)
	}
	return c
}

func (p *pair) ids() [2]int64 { return [2]int64{p.away.SessionID(), p.near.SessionID()} }

func (p *pair) note(ev events.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev.(type) {
	case events.Suspended:
		p.suspended = time.Now()
	case events.Resumed, events.Connected:
		if !p.suspended.IsZero() {
			p.longest = max(p.longest, time.Since(p.suspended))
			p.suspended = time.Time{}
		}
	}
}

// gap returns the longest time without a connection since the last call.
func (p *pair) gap() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := p.longest
	p.longest = 0
	return longest
}

// survive has every lock held during fault, and passed on after it. It returns how many locks were lost, for how long not all
// servers served, and for how long a session had no connection.
func (c *crew) survive(t *testing.T, name string, fault func(f *crewFault)) (lost int, outage, gap time.Duration) {
	t.Helper()
	for i, p := range c.pairs {
		p.name = fmt.Sprintf("%s, T = %v, lock %d", name, p.timeout, i)
		p.released.Store(false)
		p.next, p.loss = events.Grant{}, events.Lost{}
		p.flipped, p.lost, p.expired, p.granted = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		p.hold(t, nil)
		p.sessions = p.ids()
		p.gap()
	}
	f := &crewFault{t: t, crew: c}
	fault(f)
	kept := make([]bool, len(c.pairs))
	var passing sync.WaitGroup
	for i, p := range c.pairs {
		passing.Go(func() {
			if p.reconnected(t) {
				kept[i] = p.handOver(t)
			}
			if ids := p.ids(); kept[i] && ids != p.sessions {
				t.Errorf("%s: held throughout, and the sessions %#x are %#x", p.name, p.sessions, ids)
			}
		})
	}
	passing.Wait()
	for i, p := range c.pairs {
		if !kept[i] {
			lost++
		}
		gap = max(gap, p.gap())
		for _, dead := range f.dead {
			if p.granted.After(dead.from) && p.granted.Before(dead.to) {
				t.Errorf("%s: granted while there was no quorum", p.name)
			}
		}
	}
	return lost, f.outage, gap
}

// crewFault breaks the servers of a crew.
type crewFault struct {
	*crew
	t      *testing.T
	dead   []interval    // without a quorum
	down   time.Time     // when the first of the servers that are down went down
	outage time.Duration // the longest time from there until all serve
}

type interval struct{ from, to time.Time }

func (f *crewFault) leader() int {
	leader, err := f.e.Leader(patiently(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	return leader
}

// kill ends servers as a power cut would.
func (f *crewFault) kill(servers ...int) {
	f.down = time.Now()
	for _, i := range servers {
		if err := f.e.Kill(i); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *crewFault) restart(servers ...int) {
	for _, i := range servers {
		if err := f.e.Restart(i); err != nil {
			f.t.Fatal(err)
		}
	}
	f.serving()
}

// serving waits until all servers serve again.
func (f *crewFault) serving() {
	if err := f.e.Wait(patiently(f.t)); err != nil {
		f.t.Fatal(err)
	}
	f.outage = max(f.outage, time.Since(f.down))
}

func (f *crewFault) all() []int {
	var all []int
	for i := range f.e.Size() {
		all = append(all, i)
	}
	return all
}

// others are all servers but one.
func (f *crewFault) others(i int) []int {
	return slices.DeleteFunc(f.all(), func(j int) bool { return j == i })
}

// halt stops every server for the duration.
func (f *crewFault) halt(d time.Duration) {
	f.down = time.Now()
	for _, i := range f.all() {
		if err := f.e.Stop(i); errors.Is(err, errors.ErrUnsupported) {
			f.t.Log("this system cannot stop a process: nothing was halted")
			return
		} else if err != nil {
			f.t.Fatal(err)
		}
	}
	pause(f.t.Context(), d)
	for _, i := range f.all() {
		if err := f.e.Cont(i); err != nil {
			f.t.Fatal(err)
		}
	}
	f.serving()
}

// rollingRestart kills and restarts each server in turn, the leader last, under load. The contending sessions go on while a server
// is away. In an outage shorter than half of their timeout they lose nothing.
func (f *crewFault) rollingRestart(timeout time.Duration) {
	l := startLoad(f.t, f.e.Connect(), timeout)
	leader := f.leader()
	for _, i := range append(f.others(leader), leader) {
		f.kill(i)
		l.goesOn(f.t, fmt.Sprintf("server %d is away", i))
		f.restart(i)
		l.goesOn(f.t, "all servers serve")
	}
	cycles, lost := l.stop()
	f.t.Logf("rolling restart: %d cycles of the load, %d lost", cycles, lost)
	if lost > 0 && f.outage <= timeout/2 {
		f.t.Errorf("rolling restart: %d of %d cycles of the load lost their lock", lost, cycles)
	}
}
