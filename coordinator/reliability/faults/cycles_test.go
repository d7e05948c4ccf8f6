package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const cyclesTimeout = 2 * time.Second

// contended is a lock that many contend for, and its latest holder.
type contended struct {
	path string

	mu     sync.Mutex
	holder *coordinator.Acquisition // nil also after its session was ended by hand, of which it is not told in time
	token  int64
}

// granted takes note of a grant that was read.
func (l *contended) granted(t *testing.T, a *coordinator.Acquisition, grant events.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != nil && l.holder.Valid() {
		t.Errorf("two holders of %s", l.path)
	}
	if grant.Token <= l.token {
		t.Errorf("token %#x after %#x at %s", grant.Token, l.token, l.path)
	}
	l.holder, l.token = a, grant.Token
}

// outlawed says that a session is about to be ended by hand.
func (l *contended) outlawed(a *coordinator.Acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == a {
		l.holder = nil
	}
}

// worker goes through cycles in a session of its own.
type worker struct {
	c     *coordinator.Coordinator
	gate  *turnstile
	addr  string
	locks []*contended

	released, cancelled, expired int
}

// Acquired and released, cancelled at any moment, and ended with their sessions: ten thousand acquisitions leave no
// goroutine, no descriptor, no node and no watch, and the server has no more watches than there are nodes to watch.
//
// It counts what the process has, so no other test may run beside it.
func TestCyclesLeaveNothing(t *testing.T) {
	eventstest.Turn(t, 3)
	const workers, paths, stages = 8, 3, 10
	const tick = 500 * time.Millisecond
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	locks := make([]*contended, paths)
	for i := range locks {
		locks[i] = &contended{path: fmt.Sprintf("/locks/cycles/%d", i)}
	}
	all := make([]*worker, workers)
	for i := range all {
		gate := &turnstile{}
		all[i] = &worker{
			c:    connect(t, e.Connect(), cyclesTimeout, tick, coordinator.WithDialer(gate.dial)),
			gate: gate, addr: e.Addr(0), locks: locks,
		}
		all[i].cycle(t, 0) // the client starts its last goroutines a moment after it has told of the session
	}
	goroutines, files := quietly(t, e, "before")
	cycles, most := reliability.Trials(500, 1000, 10000), watching{}
	for range stages {
		most = most.or(stage(t, e, all, cycles/stages/workers))
		quietly(t, e, "between stages")
		if t.Failed() {
			return // what follows would wait in vain
		}
		most = most.or(queueOfAll(t, e, all))
	}
	var goroutinesNow, filesNow int
	happens(t, "goroutines and descriptors are as many as before", func() bool {
		goroutinesNow, filesNow = runtime.NumGoroutine(), descriptors()
		return goroutinesNow <= goroutines && filesNow <= files
	})
	var released, cancelled, expired int
	for _, w := range all {
		released, cancelled, expired = released+w.released, cancelled+w.cancelled, expired+w.expired
	}
	reliability.Report(t, reliability.RowLeaks,
		"%d released, %d cancelled, %d ended with their session (%d sessions at a time): "+
			"%+d goroutines, %+d descriptors, 0 nodes and 0 watches left; "+
			"%d watches in a standing queue of %d, each contender's for the node ahead and for its own node; "+
			"%d at most amid the turmoil",
		released, cancelled, expired, workers, goroutinesNow-goroutines, filesNow-files,
		most.standing, most.nodes, most.turmoil)
	reliability.Report(t, reliability.RowTwoHolders,
		"real server, acquired, cancelled and expired: 0 in %d grants", released+expired)
}

// watching is how many watches the server has.
type watching struct{ standing, nodes, turmoil int }

func (w watching) or(other watching) watching {
	return watching{max(w.standing, other.standing), max(w.nodes, other.nodes), max(w.turmoil, other.turmoil)}
}

// counted returns how many ephemeral nodes and watches the server has.
func counted(t *testing.T, e *ensemble.Ensemble) (nodes, watches int) {
	t.Helper()
	var counters map[string]float64
	happens(t, "the server says what it has", func() bool { // it may be too busy to say it in time
		var err error
		counters, err = e.Counters(t.Context(), 0)
		return err == nil
	})
	return int(counters["zk_ephemerals_count"]), int(counters["zk_watch_count"])
}

// descriptors counts the open descriptors of the process, if the system can tell.
func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// quietly checks that there are no nodes and no watches when there is no acquisition, and returns what the process
// has open.
func quietly(t *testing.T, e *ensemble.Ensemble, when string) (goroutines, files int) {
	t.Helper()
	var nodes, watches int
	happens(t, when+" there are no nodes and no watches", func() bool {
		nodes, watches = counted(t, e)
		return nodes == 0 && watches == 0
	})
	return runtime.NumGoroutine(), descriptors()
}

// stage has every worker go through some cycles.
func stage(t *testing.T, e *ensemble.Ensemble, all []*worker, cycles int) watching {
	t.Helper()
	var working sync.WaitGroup
	var done atomic.Bool
	for _, w := range all {
		working.Go(func() {
			for n := 1; n <= cycles && !t.Failed(); n++ {
				w.cycle(t, n)
			}
		})
	}
	var most watching
	var looking sync.WaitGroup
	looking.Go(func() {
		for !done.Load() {
			_, watches := counted(t, e)
			most.turmoil = max(most.turmoil, watches)
			pause(t.Context(), 20*time.Millisecond)
		}
	})
	working.Wait()
	done.Store(true)
	looking.Wait()
	return most
}

// queueOfAll has all workers stand in one queue, each with two contenders, and checks that the server has no more
// watches than it needs: for each contender its own node, which another client may delete, and the node ahead. A node
// that a session watches for two contenders counts once.
func queueOfAll(t *testing.T, e *ensemble.Ensemble, all []*worker) watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var queue []*coordinator.Acquisition
	for _, w := range append(all[:len(all):len(all)], all...) {
		queue = append(queue, w.c.Mutex("/locks/cycles/queue").Acquire(ctx))
	}
	var nodes, watches int
	happens(t, "all stand in the queue and watch", func() bool {
		nodes, watches = counted(t, e)
		return nodes == len(queue) && watches >= nodes-1
	})
	if watches > 2*nodes-1 {
		t.Errorf("%d watches for a queue of %d", watches, nodes)
	}
	cancel()
	for _, a := range queue {
		eventstest.Receive(t, a.Done(), "the end of a cancelled acquisition")
	}
	return watching{standing: watches, nodes: nodes}
}

// settled is the age from which a session does not count as short-lived for the back-off: a tenth of its timeout.
const settled = cyclesTimeout/10 + 20*time.Millisecond

// cycle is one acquisition from its beginning to its end, of one kind or another. The first is released.
func (w *worker) cycle(t *testing.T, n int) {
	lock := w.locks[rand.IntN(len(w.locks))]
	ctx, cancel := patient()
	defer cancel()
	switch {
	// A session that ends early costs its coordinator a back-off.
	case n > 0 && w.gate.age() > settled && rand.IntN(4) == 0:
		w.expire(t, ctx, lock)
	case n > 0 && rand.IntN(2) == 0:
		w.cancel(t, ctx, lock)
	default:
		w.release(t, ctx, lock)
	}
}

func (w *worker) release(t *testing.T, ctx context.Context, lock *contended) {
	a := w.c.Mutex(lock.path).Acquire(ctx)
	grant, err := a.Wait(ctx)
	if err != nil {
		t.Errorf("wedged at %s: %v", lock.path, err)
		return
	}
	lock.granted(t, a, grant)
	a.Release()
	ended(t, ctx, a, nil)
	w.released++
}

// cancel ends the wait at any moment: before the create, while the answer is on its way, in the queue, or with the
// Grant in its channel.
func (w *worker) cancel(t *testing.T, ctx context.Context, lock *contended) {
	wait, stop := context.WithCancel(ctx)
	a := w.c.Mutex(lock.path).Acquire(wait)
	if d := rand.N(6 * time.Millisecond); d > time.Millisecond {
		pause(ctx, d)
	}
	stop()
	ended(t, ctx, a, context.Canceled)
	w.cancelled++
}

// expire ends the session of a holder, of a waiter, or of an acquisition that is about to queue. A holder loses the
// lock, and a waiter queues again.
func (w *worker) expire(t *testing.T, ctx context.Context, lock *contended) {
	a := w.c.Mutex(lock.path).Acquire(ctx)
	if rand.IntN(2) == 0 {
		grant, err := a.Wait(ctx)
		if err != nil {
			t.Errorf("wedged at %s: %v", lock.path, err)
			return
		}
		lock.granted(t, a, grant)
		lock.outlawed(a)
		w.gate.expire(t, w.addr)
		select {
		case <-a.Lost():
		case <-ctx.Done():
			t.Errorf("the holder of %s hears no loss after the end of its session: valid %v; want Lost", lock.path, a.Valid())
		}
		ended(t, ctx, a, coordinator.ErrSessionExpired)
	} else {
		pause(ctx, rand.N(3*time.Millisecond))
		session := w.gate.expire(t, w.addr)
		grant, err := a.Wait(ctx)
		switch {
		case err == nil:
			if grant.Session != session { // else it is read too late: others may have been granted since
				lock.granted(t, a, grant)
			}
			a.Release()
			<-a.Done()
		case errors.Is(err, coordinator.ErrSessionExpired): // granted, and taken back before it was read
		default:
			t.Errorf("wedged at %s: %v", lock.path, err)
			return
		}
	}
	w.expired++
}

func ended(t *testing.T, ctx context.Context, a *coordinator.Acquisition, want error) {
	select {
	case <-a.Done():
		if err := a.Err(); !errors.Is(err, want) {
			t.Errorf("ended with %v; want %v", err, want)
		}
	case <-ctx.Done():
		t.Errorf("the acquisition does not end: valid %v; want it to end with %v", a.Valid(), want)
	}
}
