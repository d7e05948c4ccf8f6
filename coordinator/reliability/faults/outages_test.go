package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const (
	electors = 10              // sessions, each with a candidate
	sharers  = 20              // callers of a semaphore, two per session
	shares   = 4               // its permits
	outageOf = 4 * time.Second // the sessions' timeout
)

// commons is an election and a semaphore that the sessions use all the time.
type commons struct {
	t       *testing.T
	leads   referee
	leading atomic.Int32 // the candidates whose term's context has not ended
	turns   [sharers]atomic.Int64

	mu     sync.Mutex
	inside map[*coordinator.Acquisition]bool // with permits
}

// TestRealOutages has ten candidates, and twenty callers that share four permits. While
// all servers are down, no candidate leads and no permit is held. Once two of three are
// back, one candidate leads, and each caller gets its turn. The same holds after all
// servers have lost their data.
func TestRealOutages(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("ZKGRANT_FULL=1 runs it, and make versions; TestServersAreKilled has mutexes")
	}
	e := ensemble.Start(t, 3, ensemble.Tick(killedTick))
	c := &commons{t: t, inside: map[*coordinator.Acquisition]bool{}}
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	for i := range electors {
		session := connect(t, e.Connect(), outageOf, killedTick)
		election, semaphore := session.Election("/service/leader"), session.Semaphore("/limits/shares", shares)
		running.Go(func() { c.campaign(ctx, i, election) })
		for j := i; j < sharers; j += electors {
			running.Go(func() { c.share(ctx, &c.turns[j], semaphore) })
		}
	}
	c.goesOn("all servers serve")

	kill(t, e, everyServer(e)...)
	c.stops()
	restart(t, e, 0, 1)
	c.goesOn("two of three servers serve")
	restart(t, e, 2)
	up(t, e)

	kill(t, e, everyServer(e)...)
	c.stops()
	for i := range e.Size() {
		eventstest.Must(t, os.RemoveAll(filepath.Join(e.DataDir(i), "version-2")))
	}
	c.leads.mu.Lock()
	c.leads.token = 0 // tokens start again
	c.leads.mu.Unlock()
	restart(t, e, everyServer(e)...)
	up(t, e)
	c.goesOn("the servers have lost their data")
}

// campaign is one candidate that leads whenever it is elected, until it loses the lead or
// ctx ends.
func (c *commons) campaign(ctx context.Context, i int, election *coordinator.Election) {
	for term, err := range election.Terms(ctx) {
		if err != nil {
			eventstest.Expect(c.t, ctx.Err() != nil, "candidate %d: %v, want a term", i, err)
			return
		}
		c.leads.enter(c.t, term, term.Grant())
		c.leading.Add(1)
		<-term.Context(ctx).Done()
		c.leading.Add(-1)
		if ctx.Err() != nil {
			c.leads.leave(term) // the end of the test, not a loss
		}
	}
}

// share is one caller that takes a permit for a moment, again and again.
func (c *commons) share(ctx context.Context, turns *atomic.Int64, semaphore *coordinator.Semaphore) {
	for ctx.Err() == nil {
		a := semaphore.Acquire(ctx)
		if _, err := a.Wait(ctx); err == nil {
			c.enter(a)
			pause(ctx, loadHold)
			c.mu.Lock()
			delete(c.inside, a)
			c.mu.Unlock()
			turns.Add(1)
		}
		a.Release()
		<-a.Done()
	}
}

// enter checks that no more permits are held than exist.
func (c *commons) enter(a *coordinator.Acquisition) {
	c.mu.Lock()
	c.inside[a] = true
	c.mu.Unlock()
	_, n := c.state()
	eventstest.Expect(c.t, n <= shares, "%d of %d permits are held", n, shares)
}

// state returns how many candidates lead, and how many permits are held.
func (c *commons) state() (leaders, permits int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range c.inside {
		if a.Valid() {
			permits++
		}
	}
	return int(c.leading.Load()), permits
}

func (c *commons) told() string {
	leaders, permits := c.state()
	return fmt.Sprintf("%d lead, %d permits are held", leaders, permits)
}

func (c *commons) stops() {
	c.t.Helper()
	happens(c.t, "nobody leads, and no permit is held", func() bool {
		leaders, permits := c.state()
		return leaders+permits == 0
	}, c.told)
}

// goesOn waits until one candidate leads, and each caller has had another turn.
func (c *commons) goesOn(when string) {
	c.t.Helper()
	turned := again(c.turns[:])
	happens(c.t, "one leads, and each caller has another turn when "+when, func() bool {
		return turned() && c.leading.Load() == 1
	}, c.told)
}
