package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

const (
	loadSessions = 4
	loadLocks    = 2 // each session has one contender in each queue
	loadHold     = 20 * time.Millisecond
)

// load is a number of sessions that acquire and release the same locks all the time. Each
// lock has a referee.
type load struct {
	sessions [loadSessions]atomic.Pointer[coordinator.Coordinator]

	cycles [loadSessions * loadLocks]atomic.Int64
	lost   atomic.Int64
	end    context.CancelFunc
	ended  sync.WaitGroup
}

// referee knows the holder of one lock.
type referee struct {
	mu     sync.Mutex
	inside *coordinator.Acquisition // nil if it has released
	token  int64                    // the latest grant's token
}

// startLoad starts a load on these servers. The caller stops it.
func startLoad(t *testing.T, servers string, timeout time.Duration) *load {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	l := &load{end: end}
	referees := make([]referee, loadLocks)
	for i := range loadSessions {
		l.sessions[i].Store(connect(t, servers, timeout, killedTick))
		for j := range loadLocks {
			path := fmt.Sprint("/locks/load-", j)
			lock := func() *coordinator.Lock { return l.sessions[i].Load().Mutex(path) }
			l.ended.Go(func() { l.contend(ctx, t, lock, &referees[j], &l.cycles[i*loadLocks+j]) })
		}
	}
	t.Cleanup(func() { l.stop() }) // in case the test fails
	return l
}

// contend is one contender that acquires and releases until ctx ends.
func (l *load) contend(ctx context.Context, t *testing.T, lock func() *coordinator.Lock, r *referee, cycles *atomic.Int64) {
	for ctx.Err() == nil {
		a := lock().Acquire(ctx)
		switch g, err := a.Wait(ctx); {
		case err == nil:
			r.enter(t, a, g)
			pause(ctx, loadHold)
			if !a.Valid() && ctx.Err() == nil {
				l.lost.Add(1)
			}
			r.leave(a)
		case ctx.Err() == nil:
			t.Errorf("under load: %v, want a grant", err)
			return
		}
		a.Release()
		<-a.Done()
		cycles.Add(1)
	}
}

// enter judges a grant: any other holder was notified of its loss, and the token is
// greater than every earlier one.
func (r *referee) enter(t *testing.T, a *coordinator.Acquisition, g events.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside != nil {
		eventstest.Expect(t, !r.inside.Valid(),
			"%s: granted with token %#x beside a holder that is valid: two holders", g.Path, g.Token)
		eventstest.Expect(t, len(r.inside.Lost()) > 0,
			"%s: granted with token %#x, and the last holder was not told of its loss", g.Path, g.Token)
	}
	eventstest.Expect(t, g.Token > r.token, "%s: token %#x after %#x", g.Path, g.Token, r.token)
	r.inside, r.token = a, g.Token
}

func (r *referee) leave(a *coordinator.Acquisition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside == a {
		r.inside = nil
	}
}

// goesOn waits until every contender has held its lock once more.
func (l *load) goesOn(t *testing.T, while string) {
	t.Helper()
	happens(t, "each contender holds its lock once more while "+while, again(l.cycles[:]))
	if t.Failed() {
		t.FailNow()
	}
}

// again returns a function that reports whether each counter has grown by two since the
// call. Two, because the first cycle may have begun before.
func again(counters []atomic.Int64) func() bool {
	from := make([]int64, len(counters))
	for i := range counters {
		from[i] = counters[i].Load()
	}
	return func() bool {
		for i := range counters {
			if counters[i].Load() < from[i]+2 {
				return false
			}
		}
		return true
	}
}

// move moves each session's contenders to other servers, as a program does: new
// acquisitions use a new session there, and the old session is closed when its
// acquisitions have ended.
func (l *load) move(t *testing.T, servers string, timeout time.Duration) {
	t.Helper()
	for i := range l.sessions {
		next := open(t, servers, timeout, killedTick)
		old := l.sessions[i].Swap(next)
		l.goesOn(t, fmt.Sprintf("session %d has moved to %s", i, servers))
		eventstest.Check(t, old.Close()) // it no longer holds or awaits a lock
	}
}

// stop ends the load, and returns how many cycles there were and how many of them lost
// the lock.
func (l *load) stop() (cycles, lost int64) {
	l.end()
	l.ended.Wait()
	for i := range l.cycles {
		cycles += l.cycles[i].Load()
	}
	return cycles, l.lost.Load()
}
