package faults

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestAServerIsReplaced: a fourth server joins three, the processes change to a list
// without the first one, and the first one leaves. The lists are static: each server
// reads its own when it restarts. Other sessions contend all the time. A holder with the
// old list keeps its lock, and waiters get it in their turn, whichever list they have.
func TestAServerIsReplaced(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const timeout, lock = 10 * time.Second, "/locks/moved"
	e := ensemble.Start(t, 4, ensemble.Tick(killedTick), ensemble.Members(0, 1, 2))
	before, after := addresses(e, 0, 1, 2), addresses(e, 1, 2, 3)
	l := startLoad(t, before, timeout)
	old := connect(t, before, timeout, killedTick)
	held, first := coordtest.HoldReal(t, old.Mutex(lock))
	raw := coordtest.RawClient(t, addresses(e, 1, 2)) // these servers stay

	r := replacement{t, e, l, 0}
	eventstest.Must(t, e.List(0, 1, 2, 3))
	eventstest.Must(t, e.Restart(3))
	r.serving("the new server has joined")
	r.restart(0, 1, 2)

	waiter := old.Mutex(lock).Acquire(t.Context())
	coordtest.Queued(t, raw, lock, 2)
	l.move(t, after, timeout)
	next := open(t, after, timeout, killedTick)
	moved := next.Mutex(lock).Acquire(t.Context())
	coordtest.Queued(t, raw, lock, 3)
	left := old.Mutex(lock).Acquire(t.Context())
	coordtest.Queued(t, raw, lock, 4)

	r.follows(0)
	eventstest.Must(t, e.List(1, 2, 3))
	r.restart(1, 2, 3)
	eventstest.Must(t, e.Kill(0))
	r.serving("the old server is gone")
	cycles, lost := l.stop()
	t.Logf("%d cycles of the load, %d lost; a server was away for %v at most", cycles, lost, r.longest)
	if r.longest <= timeout/2 && (lost > 0 || !held.Valid()) {
		t.Errorf("%d of %d cycles lost their lock, and the holder is valid: %t; want none lost", lost, cycles, held.Valid())
	}

	token := first.Token
	for _, step := range []struct {
		name    string
		ends, a *coordinator.Acquisition
	}{{"the waiter with the old list", held, waiter}, {"the waiter with the new list", waiter, moved}} {
		step.ends.Release()
		g, err := step.a.Wait(patiently(t))
		if err != nil || g.Token <= token {
			t.Fatalf("%s: granted %+v, %v; want a token greater than %#x", step.name, g, err, token)
		}
		token = g.Token
	}
	eventstest.Check(t, old.Close())
	if g, err := left.Wait(patiently(t)); !errors.Is(err, coordinator.ErrClosed) {
		t.Errorf("what was still waiting when the old coordinator was closed: %+v, %v; want %v", g, err, coordinator.ErrClosed)
	}
	queue, err := next.Mutex(lock).Queue(patiently(t))
	alone := err == nil && len(queue) == 1 && queue[0].Token == token
	eventstest.Expect(t, alone, "the queue is %v, %v; want the holder of %#x alone", queue, err, token)
}

// addresses returns a connect string.
func addresses(e *ensemble.Ensemble, servers ...int) string {
	var all []string
	for _, i := range servers {
		all = append(all, e.Addr(i))
	}
	return strings.Join(all, ",")
}

// replacement replaces a server.
type replacement struct {
	t       *testing.T
	e       *ensemble.Ensemble
	load    *load
	longest time.Duration // the longest time that a server was away
}

// serving waits until every server serves, and every contender has held its lock once
// more.
func (r *replacement) serving(when string) {
	r.t.Helper()
	up(r.t, r.e)
	r.load.goesOn(r.t, when)
}

// follows makes sure that a server does not lead: a server that reads a list without the
// leader would not find it.
func (r *replacement) follows(server int) {
	r.t.Helper()
	for {
		if leads, _ := leader(r.t, r.e); leads != server {
			return
		}
		r.restart(server)
	}
}

// restart restarts servers so that they read their new lists, one at a time, the leader
// last.
func (r *replacement) restart(servers ...int) {
	r.t.Helper()
	leads, others := leader(r.t, r.e)
	for _, i := range append(others, leads) {
		if !slices.Contains(servers, i) {
			continue
		}
		from := time.Now()
		kill(r.t, r.e, i)
		restart(r.t, r.e, i)
		r.serving("a server has its new list")
		r.longest = max(r.longest, time.Since(from))
	}
}
