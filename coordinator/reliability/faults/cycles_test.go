package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

const cyclesTimeout = 2 * time.Second

// worker runs cycles in its own session.
type worker struct {
	t       *testing.T
	c       *coordinator.Coordinator
	network *faultnet.Network
	locks   []referee // the referees of the locks, which are named by number

	released, cancelled, expired int
}

// Ten thousand acquisitions, released, cancelled at any moment, or ended with their
// sessions, leave no goroutine, descriptor, node or watch, and the server has no more
// watches than there are nodes to watch.
//
// The test counts the process's resources, so no other test may run beside it.
func TestCyclesLeaveNothing(t *testing.T) {
	const workers, paths, stages = 8, 3, 4
	const tick = 500 * time.Millisecond
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(tick))
	locks, all := make([]referee, paths), make([]*worker, workers)
	for i := range all {
		network := faultnet.New((&net.Dialer{}).DialContext, nil)
		t.Cleanup(network.Close)
		c := connect(t, e.Connect(), cyclesTimeout, tick, coordinator.WithDialer(network.Dial))
		all[i] = &worker{t: t, c: c, network: network, locks: locks}
		all[i].cycle(0) // the client starts its last goroutines a moment after it has reported the session
	}
	goroutines, files := quietly(t, e, "before")
	cycles, standing, nodes := reliability.Trials(500, 1000, 10000), 0, 0
	for range stages {
		each(all, func(w *worker) {
			for n := 1; n <= cycles/stages/workers && !t.Failed(); n++ {
				w.cycle(n)
			}
		})
		quietly(t, e, "between stages")
		if t.Failed() {
			return // the rest would wait in vain
		}
		standing, nodes = queueOfAll(t, e, all)
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
			"%d watches in a standing queue of %d, each contender's for the node ahead and for its own node",
		released, cancelled, expired, workers, goroutinesNow-goroutines, filesNow-files, standing, nodes)
	reliability.Report(t, reliability.RowTwoHolders,
		"real server, acquired, cancelled and expired: 0 in %d grants", released+expired)
}

// counted returns how many ephemeral nodes and watches the server has.
func counted(t *testing.T, e *ensemble.Ensemble) (nodes, watches int) {
	t.Helper()
	var counters map[string]float64
	happens(t, "the server says what it has", func() bool { // it may be too busy to answer in time
		var err error
		counters, err = e.Counters(t.Context(), 0)
		return err == nil
	})
	return int(counters["zk_ephemerals_count"]), int(counters["zk_watch_count"])
}

// descriptors returns the number of open descriptors of the process, or 0 if the system
// does not say.
func descriptors() int {
	open, _ := os.ReadDir("/proc/self/fd") // empty on other systems
	return len(open)
}

// quietly checks that there are no nodes and no watches while there is no acquisition. It
// returns what the process has open.
func quietly(t *testing.T, e *ensemble.Ensemble, when string) (goroutines, files int) {
	t.Helper()
	happens(t, when+" there are no nodes and no watches", func() bool {
		nodes, watches := counted(t, e)
		return nodes == 0 && watches == 0
	})
	return runtime.NumGoroutine(), descriptors()
}

// queueOfAll puts all workers into one queue, each with two contenders, and checks that
// the server has no more watches than it needs: for each contender, one for its own node,
// which another client may delete, and one for the node ahead. A node that a session
// watches for two contenders counts once.
func queueOfAll(t *testing.T, e *ensemble.Ensemble, all []*worker) (watches, nodes int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var queue []*coordinator.Acquisition
	for _, w := range append(all[:len(all):len(all)], all...) {
		queue = append(queue, w.c.Mutex("/locks/cycles/queue").Acquire(ctx))
	}
	happens(t, "all stand in the queue and watch", func() bool {
		nodes, watches = counted(t, e)
		return nodes == len(queue) && watches >= nodes-1
	})
	eventstest.Expect(t, watches <= 2*nodes-1, "%d watches for a queue of %d", watches, nodes)
	cancel()
	for _, a := range queue {
		eventstest.Receive(t, a.Done(), "the end of a cancelled acquisition")
	}
	return watches, nodes
}

// cycle is one acquisition from beginning to end, of a random kind. The first one is
// released.
func (w *worker) cycle(n int) {
	ctx, cancel := eventstest.Patient(patience)
	defer cancel()
	at := rand.IntN(len(w.locks))
	lock, judge := w.c.Mutex(fmt.Sprintf("/locks/cycles/%d", at)), &w.locks[at]
	switch {
	case n > 0 && rand.IntN(16) == 0:
		w.expire(ctx, lock, judge)
	case n > 0 && rand.IntN(2) == 0:
		w.cancel(ctx, lock)
	default:
		if a := w.granted(ctx, lock, judge); a != nil {
			a.Release()
			ended(w.t, ctx, a, nil)
			w.released++
		}
	}
}

// granted returns an acquisition that holds. For the referee, it has already left.
func (w *worker) granted(ctx context.Context, lock *coordinator.Lock, judge *referee) *coordinator.Acquisition {
	a := lock.Acquire(ctx)
	grant, err := a.Wait(ctx)
	if err != nil {
		w.t.Errorf("wedged: %v", err)
		return nil
	}
	judge.enter(w.t, a, grant)
	judge.leave(a)
	return a
}

// cancel ends the wait at any moment: before the create, while the answer is under way,
// in the queue, or with the Grant in its channel.
func (w *worker) cancel(ctx context.Context, lock *coordinator.Lock) {
	wait, stop := context.WithCancel(ctx)
	a := lock.Acquire(wait)
	if d := rand.N(6 * time.Millisecond); d > time.Millisecond {
		pause(ctx, d)
	}
	stop()
	ended(w.t, ctx, a, context.Canceled)
	w.cancelled++
}

// expire cuts off the client of a holder, of a waiter, or of an acquisition that is about
// to queue, until its session has ended. A holder loses the lock, and a waiter queues up
// again.
func (w *worker) expire(ctx context.Context, lock *coordinator.Lock, judge *referee) {
	a, session := lock.Acquire(ctx), w.c.SessionID()
	holds := rand.IntN(2) == 0
	if holds {
		grant, err := a.Wait(ctx)
		if err != nil {
			w.t.Errorf("wedged: %v", err)
			return
		}
		judge.enter(w.t, a, grant)
	} else {
		pause(ctx, rand.N(3*time.Millisecond))
	}
	w.network.Partition()
	pause(ctx, cyclesTimeout)
	happens(w.t, "the lease ends", func() bool { return !a.Valid() })
	pause(ctx, cyclesTimeout/2) // the server ends the session at one of its ticks
	w.network.Heal()
	happens(w.t, "there is another session", func() bool { id := w.c.SessionID(); return id != 0 && id != session })
	if holds {
		ended(w.t, ctx, a, coordinator.ErrLeaseRanOut)
	} else if grant, err := a.Wait(ctx); err == nil {
		judge.enter(w.t, a, grant)
		judge.leave(a)
		a.Release()
		<-a.Done()
	} else if !errors.Is(err, coordinator.ErrLeaseRanOut) { // granted, but taken back before it was read
		w.t.Errorf("wedged: %v", err)
		return
	}
	w.expired++
}

func ended(t *testing.T, ctx context.Context, a *coordinator.Acquisition, want error) {
	select {
	case <-a.Done():
		eventstest.ErrorIs(t, a.Err(), want, "the end")
	case <-ctx.Done():
		t.Errorf("the acquisition does not end: valid %v; want it to end with %v", a.Valid(), want)
	}
}
