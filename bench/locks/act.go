package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/bench/peers"
)

// act is a contestant's part in a round. After the first error its methods do nothing.
type act struct {
	ctx  context.Context
	d    *director
	at   *place
	c    *contestant
	m    *Measured
	path string // not used before
	err  error
}

func (a *act) ask(verb string, n, also int) []int64 { return a.say(question{verb, a.path, n, also}) }

func (a *act) say(q question) (values []int64) {
	if a.err == nil {
		values, a.err = a.c.ask(a.ctx, q)
	}
	return values
}

// one asks a question whose answer is one number.
func (a *act) one(verb string, n, also int) float64 {
	values := a.ask(verb, n, also)
	if a.err == nil && len(values) != 1 {
		a.err = fmt.Errorf("%s, asked to %s, answers with %d numbers", a.c.Name, verb, len(values))
	}
	if a.err != nil {
		return 0
	}
	return float64(values[0])
}

// open opens n sessions that use the kind of lock.
func (a *act) open(n int, u use) {
	a.ask(askOpen, n, 0)
	if u.kind != "" {
		a.say(question{verb: askUse, path: u.kind, n: u.size})
	}
}

func (a *act) close() { a.ask(askClose, 0, 0) }

func (a *act) note(figure string, value float64) {
	if a.err == nil {
		a.m.Rounds[figure] = append(a.m.Rounds[figure], value)
	}
}

func (a *act) counted() (now counts) {
	if a.err == nil {
		now, a.err = a.at.counted(a.ctx, a.c.library)
	}
	return now
}

// queued waits until the server has that many watches and is idle.
func (a *act) queued(watches float64) {
	if a.err == nil {
		a.err = a.at.queued(a.ctx, a.c.library, watches)
	}
}

func (a *act) rest(d time.Duration) {
	if a.err == nil {
		a.err = peers.Pause(a.ctx, d)
	}
}

// during runs f and returns what the server counted meanwhile, minus the requests for
// counting.
func (a *act) during(f func()) counts {
	first, before := a.counted(), a.counted()
	f()
	after := a.counted()
	return counts{
		requests: after.requests - before.requests - (before.requests - first.requests),
		fired:    after.fired - before.fired,
	}
}

// work records the CPU time of f's cycles and, for clients in Go, their system calls and
// allocations.
func (a *act) work(locks, cycles int, f func()) {
	inGo := a.m.Key != keyCurator && a.m.Key != keyKazoo
	var before, after []int64
	if inGo {
		before = a.ask(askCalls, 0, 0)
	}
	a.compute(figureServer(locks), figureClient(locks), cycles, f)
	if inGo {
		after = a.ask(askCalls, 0, 0)
	}
	if a.err == nil && inGo {
		for i, figure := range []string{figureReads(locks), figureWrites(locks), figureAllocs(locks)} {
			a.note(figure, float64(after[i]-before[i])/float64(cycles))
		}
	}
}

// compute records the CPU time that the server and the contestant use for each of f's
// cycles, if the system reports it.
func (a *act) compute(server, client string, cycles int, f func()) {
	serverBefore, clientBefore, told := a.computed()
	f()
	if !told {
		return
	}
	serverNow, clientNow, _ := a.computed()
	a.note(server, float64((serverNow-serverBefore).Microseconds())/float64(cycles))
	a.note(client, float64((clientNow-clientBefore).Microseconds())/float64(cycles))
}

// computed returns the CPU time so far of the server and the contestant, if the system
// reports it.
func (a *act) computed() (server, client time.Duration, told bool) {
	if a.err != nil {
		return 0, 0, false
	}
	server, err := a.at.of(a.c.Key).ProcessorTime()
	if err == nil {
		client, err = a.c.process.ProcessorTime()
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, 0, false
	}
	a.err = err
	return server, client, err == nil
}

func micros(nanos float64) float64 { return nanos / 1e3 }

// median returns the median in microseconds.
func median(nanos []int64) float64 { return micros(figures.Percentile(nanos, 0.50)) }
