package faults_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// killedTick is the servers' tick.
const killedTick = 500 * time.Millisecond

// crew is a number of locks with a holder and a waiter each, in sessions of their own, while something is done to the
// servers.
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

// survive has every lock held while fault happens, and passed on when it is over. It returns how many were lost, for
// how long not all servers served, and for how long a session had no connection.
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

// crewFault is what may be done to the servers of a crew.
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

// serving waits until all servers do again.
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

// Servers are killed and halted, one by one, all of them, the leader among them, and come back. With T = 10 s nobody
// loses a lock through what is over within T/2; who holds one for T = 3 s loses it while there is no quorum, nobody
// else gets it, and afterwards everybody does.
func TestServersAreKilled(t *testing.T) {
	t.Parallel()
	const timeout, brief = 10 * time.Second, 3 * time.Second
	e := ensemble.Start(t, 3, ensemble.Tick(killedTick))
	locks := reliability.Trials(8, 8, 40)
	c := newCrew(t, e, locks, timeout)
	trials := 0
	for _, fault := range []struct {
		name  string
		times int
		do    func(f *crewFault)
	}{
		{"leader killed", reliability.Trials(1, 1, 5), func(f *crewFault) {
			leader := f.leader()
			f.kill(leader)
			if next := f.leader(); next == leader {
				f.t.Errorf("server %d is dead and leads", leader)
			}
			f.restart(leader)
		}},
		{"follower killed", reliability.Trials(1, 1, 3), func(f *crewFault) {
			follower := f.others(f.leader())[0]
			f.kill(follower)
			pause(f.t.Context(), time.Second) // its clients are with the others by then
			f.restart(follower)
		}},
		{"quorum lost and back", reliability.Trials(1, 1, 3), func(f *crewFault) {
			dead := f.others(f.leader())
			f.kill(dead...)
			f.restart(dead...)
		}},
		{"all killed and restarted", reliability.Trials(1, 1, 3), func(f *crewFault) {
			f.kill(f.all()...)
			f.restart(f.all()...)
		}},
		{"all halted for 0.4 T", reliability.Trials(1, 1, 3), func(f *crewFault) { f.halt(timeout * 2 / 5) }},
		{"rolling restart", reliability.Trials(1, 1, 3), func(f *crewFault) {
			for _, i := range f.all() {
				f.kill(i)
				f.restart(i)
			}
		}},
	} {
		lost, beyond := 0, 0
		var longest, silent time.Duration
		for n := range fault.times {
			gone, outage, gap := c.survive(t, fmt.Sprintf("%s, %d", fault.name, n), fault.do)
			longest, silent = max(longest, outage), max(silent, gap)
			if outage > timeout/2 {
				beyond += gone // the machine was slow to start the servers
			} else {
				lost += gone
			}
		}
		if lost > 0 {
			t.Errorf("%s: %d locks lost", fault.name, lost)
		}
		trials += locks * fault.times
		text := fmt.Sprintf("%s: %d in %d (at most %.1f s until all servers were back, "+
			"and %.1f s for a session without a connection)",
			fault.name, lost, locks*fault.times, longest.Seconds(), silent.Seconds())
		if beyond > 0 {
			text += fmt.Sprintf(", and %d in outages beyond T/2", beyond)
		}
		reliability.Report(t, reliability.RowSpuriousLost, "%s", text)
	}

	// This crew's timeout is short enough to wait for.
	short := newCrew(t, e, reliability.Trials(4, 4, 20), brief)
	rounds, lost := reliability.Trials(1, 1, 3), 0
	for n := range rounds {
		gone, _, _ := short.survive(t, fmt.Sprintf("no quorum for longer than T, %d", n), func(f *crewFault) {
			leader := f.leader()
			f.kill(f.others(leader)...)
			from := time.Now()
			for _, p := range f.pairs {
				happens(f.t, p.name+" is lost", func() bool { return !p.held.Valid() })
			}
			pause(f.t.Context(), brief/2)
			f.dead = append(f.dead, interval{from, time.Now()})
			f.restart(f.others(leader)...)
		})
		lost += gone
	}
	if want := rounds * len(short.pairs); lost != want {
		t.Errorf("%d of %d locks lost without a quorum", lost, want)
	}
	trials += rounds * len(short.pairs)
	reliability.Report(t, reliability.RowFault,
		"no quorum for longer than T = %v: %d of %d holders told; nobody granted before it was back, all afterwards",
		brief, lost, rounds*len(short.pairs))
	for _, row := range []reliability.Row{reliability.RowTwoHolders, reliability.RowWedged} {
		reliability.Report(t, row, "real servers, killed, halted and restarted: 0 in %d trials", trials)
	}
}

// halt stops every server for so long.
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
