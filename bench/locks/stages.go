package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

type stage struct {
	name string
	who  func(library) bool // nil for all
	run  func(*act)
}

// only selects the libraries with these keys.
func only(keys ...string) func(library) bool {
	return func(l library) bool { return slices.Contains(keys, l.Key) }
}

// crossCrowd is how many contenders wait when the lock is handed on between two sessions.
const crossCrowd = 100

// stages returns the stages of the contest, in order.
func (d *director) stages() []stage {
	all := []stage{{name: "uncontended cycle", run: runCycles}}
	for _, locks := range d.effort.locks {
		all = append(all, stage{name: fmt.Sprintf("%d locks at once", locks), run: runMany(locks)})
	}
	all = append(all,
		stage{name: "to the only waiter, in another session", run: runCross},
		stage{name: "the same after a long wait", who: only(keyOurs), run: runPatient},
		stage{
			name: fmt.Sprintf("to the next of %d, in two sessions", crossCrowd),
			run:  runHandoff(crossCrowd, 2, func(a *act, s handoffs) { a.note(figureCross(crossCrowd), s.took) }),
		})
	for _, queue := range d.effort.queues {
		all = append(all, stage{
			name: fmt.Sprintf("handoff, %d waiting", queue),
			who:  func(l library) bool { return queue <= l.crowd },
			run: runHandoff(queue, 1, func(a *act, s handoffs) {
				a.note(figureHandoff(queue), s.took)
				a.note(figureBytes(queue), s.bytes)
				a.note(figureAsked(queue), s.requests)
				if a.m.Key != keyEtcd { // etcd does not count them
					a.note(figureWakeUps(queue), s.wakeUps)
				}
			}),
		})
	}
	return append(all, stage{name: fmt.Sprintf("%d locks, and the session expires", d.effort.expired), who: only(keyOurs), run: runExpire})
}

// runCycles also runs the cycles with awaited releases, in the same round: they are
// compared with the cycles of all libraries, and the machine's speed varies over time.
func runCycles(a *act) {
	runCycle(a)
	if a.m.Key != keyOurs {
		return
	}
	a.path = a.d.path(a.m.Key)
	a.open(1, use{})
	a.ask(askAwaited, 20, 0)
	took := a.ask(askAwaited, a.d.effort.cycles, 0)
	a.note(figureAwaited, median(took))
	a.note(figureAwaitTail, micros(figures.Percentile(took, 0.99)))
	a.close()
}

func runCycle(a *act) {
	n := a.d.effort.cycles
	a.open(1, use{})
	a.ask(askCycle, 20, 0) // the first cycles create the directory
	var took []int64
	counted := a.during(func() { a.work(1, n, func() { took = a.ask(askCycle, n, 0) }) })
	a.note(figureCycle, median(took))
	a.note(figureCycleTail, micros(figures.Percentile(took, 0.99)))
	a.note(figureRequests, counted.requests/float64(n))
	a.close()
}

func runMany(locks int) func(*act) {
	return func(a *act) {
		a.open(1, use{})
		a.many(locks)
		if a.m.Key == keyOurs {
			var rate float64
			a.compute(figureAwaitedServer(locks), figureAwaitedClient(locks), locks*(a.each(locks)+1),
				func() { rate = a.rate(askManyAwaited, locks) })
			a.note(figureManyAwaited(locks), rate)
		}
		a.close()
	}
}

// many records how many cycles per second a session does with that many locks at once.
func (a *act) many(locks int) {
	var rate float64
	a.work(locks, locks*(a.each(locks)+1), func() { rate = a.rate(askMany, locks) })
	a.note(figureRate(locks), rate)
}

// each returns how many cycles each of that many locks does.
func (a *act) each(locks int) int { return max(a.d.effort.many/locks, 1) }

// rate asks for cycles with many locks at once, and returns the cycles per second.
func (a *act) rate(verb string, locks int) float64 {
	return float64(locks*a.each(locks)) / (a.one(verb, locks, a.each(locks)) / 1e9)
}

// pendulum hands a lock back and forth between two sessions.
type pendulum struct {
	*act
	idle counts
	add  int // how many contenders queue up next
}

func (a *act) pendulum() *pendulum { return &pendulum{a, a.counted(), 2} } // the first time with a holder

// swing hands the lock on n times. Before each handoff, a waiter queues up in the next
// session. Then swing calls far, and after the handoff near.
func (p *pendulum) swing(n int, far, near func()) (took []int64) {
	for range n {
		p.ask(askFill, p.add, 0)
		p.add = 1
		p.queued(p.idle.watches + 1)
		far()
		took = append(took, p.ask(askDrain, 1, 0)...)
		near()
	}
	return took
}

func runCross(a *act) {
	a.open(2, use{})
	a.note(figureCross(1), median(a.pendulum().swing(a.d.effort.cross, func() {}, func() {})))
	a.close()
}

// runPatient is runCross with a waiter that has waited for more than three probe
// intervals. For the other libraries the length of the wait makes no difference, so their
// figures are those of runCross.
func runPatient(a *act) {
	a.open(2, use{})
	a.note(figurePatient, median(a.pendulum().swing(a.d.effort.patient, func() { a.rest(a.d.effort.patience) }, func() {})))
	a.close()
}

// handoffs are the figures of a round's handoffs.
type handoffs struct {
	took     float64 // median, in microseconds
	bytes    float64 // per handoff
	requests float64 // per handoff
	wakeUps  float64 // per handoff
}

const (
	// atOnce is how many contenders queue up at the same time. Each of them may list all
	// the others, and the server keeps an answer in memory until the client has read it.
	atOnce = 250
	// firstHandoffs is how many handoffs do not count, because an idle queue has to get
	// going.
	firstHandoffs = 5
)

// runHandoff builds a queue, waits until every waiter is idle, and hands the lock on
// repeatedly.
func runHandoff(queue, sessions int, note func(*act, handoffs)) func(*act) {
	return func(a *act) {
		n := min(queue-firstHandoffs, a.d.effort.handoffs)
		a.open(sessions, use{})
		idle := a.counted()
		for there := 0; there < queue+1 && a.err == nil; { // a holder and the waiters
			more := min(atOnce, queue+1-there)
			a.ask(askFill, more, 0)
			there += more
			a.queued(idle.watches + float64(there-1))
		}
		a.ask(askDrain, firstHandoffs, 0)
		var took []int64
		var sent float64
		counted := a.during(func() {
			before := a.one(askBytes, 0, 0)
			took = a.ask(askDrain, n, 0)
			sent = a.one(askBytes, 0, 0) - before
		})
		each := math.Max(float64(n), 1)
		note(a, handoffs{took: median(took), bytes: sent / each, requests: counted.requests / each, wakeUps: counted.fired / each})
		a.close()
	}
}

func runExpire(a *act) {
	a.open(1, use{})
	a.note(figureExpire, a.one(askExpire, a.d.effort.expired, 0)/1e6)
	a.close()
}
