package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// resource is what a lock protects: it accepts a write unless it was shown a greater fence before.
type resource struct {
	mu    sync.Mutex
	seen  fence
	value int64
}

func (r *resource) write(under fence) (accepted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen.after(under) {
		return false
	}
	r.seen, r.value = under, under.token
	return true
}

// read returns the last write. A smaller fence than the reader's is late from then on.
func (r *resource) read(under fence) (value int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = r.seen.or(under)
	return r.value
}

// worker takes one lock after the other and notes what it sees. It believes only what it is told.
type worker struct {
	number      int
	coordinator *coordinator.Coordinator
	history     *history
	resources   map[string]*resource // by the path of the lock
	paths       []string
	marks       []coordinator.LockOption  // of all its handles
	cache       []coordinator.CacheOption // of the cached ones
	pace        time.Duration             // how long it usually holds a lock at most
	patience    time.Duration             // how long it usually waits for a lock at most
	rest        time.Duration             // how long it goes without a lock at most
	random      *rand.Rand
	round       int32
	more        func() bool
	past        *tenure // a tenure that is over; its owner may not know it, or may have a write under way
}

// upTo returns a random part of the duration.
func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// run works until so many acquisitions are over, or while more returns true.
func (w *worker) run(t *testing.T, more func(done int) bool) {
	w.more = func() bool { return more(int(w.round) - 1) }
	for w.round = 0; more(int(w.round)); {
		w.round++
		w.acquire(t)
		<-time.After(w.upTo(w.rest))
		if w.past != nil && w.random.IntN(3) == 0 {
			w.use(w.past)
		}
	}
}

// acquire runs one acquisition, from the request to Done.
func (w *worker) acquire(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	path := w.paths[w.random.IntN(len(w.paths))]
	tenure := w.history.begin(w.number, w.round, path)
	lock := w.choose(tenure).Acquire(ctx, w.options()...)
	tenure.lock = lock
	a := &attempt{worker: w, tenure: tenure, lock: lock}
	if w.random.IntN(4) == 0 {
		a.giveUp = time.After(w.upTo(w.patience))
	}
	granted := lock.Granted()
	if w.random.IntN(4) == 0 { // a busy worker: the Grant waits for it, or is taken back
		granted, a.look = nil, time.After(w.upTo(w.patience))
	}
	for {
		select {
		case <-a.look:
			granted = lock.Granted()
		case grant := <-granted:
			tenure.granted(grant)
			a.node = grant.Node
			if !tenure.isOf(grant) {
				t.Errorf("worker %d, round %d: granted %v for %v with %v", w.number, w.round, grant, tenure.op, tenure.others)
			}
			a.giveUp, a.work = nil, time.After(0)
			a.left = w.random.IntN(6)
		case lost := <-lock.Lost():
			tenure.lost(lost)
			if lock.Valid() {
				t.Errorf("worker %d, round %d: lost, and still valid", w.number, w.round)
			}
			w.past = tenure
		case <-a.work:
			a.turn()
		case <-a.giveUp:
			a.giveUp = nil
			if w.random.IntN(2) == 0 {
				cancel()
				break
			}
			tenure.release()
			a.late()
		case <-lock.Done():
			tenure.done()
			a.late()
			if lost := (*coordinator.LostError)(nil); tenure.told && !errors.As(lock.Err(), &lost) {
				t.Errorf("worker %d, round %d: told of a loss, and ended with %v", w.number, w.round, lock.Err())
			}
			if lock.Valid() {
				t.Errorf("worker %d, round %d: done, and still valid", w.number, w.round)
			}
			if tenure.op.Token != 0 && w.random.IntN(8) == 0 {
				w.past = tenure
			}
			return
		}
	}
}

// options are those of the next acquisition.
func (w *worker) options() []coordinator.AcquireOption {
	switch w.random.IntN(10) {
	case 0:
		return []coordinator.AcquireOption{coordinator.Try()}
	case 1, 2:
		return []coordinator.AcquireOption{coordinator.WithMaxWait(1 + w.upTo(w.patience))}
	default:
		return nil
	}
}

// attempt is an acquisition under way.
type attempt struct {
	worker *worker
	tenure *tenure
	lock   *coordinator.Acquisition
	node   string

	look   <-chan time.Time // for the Grant
	giveUp <-chan time.Time
	work   <-chan time.Time // for the next turn
	left   int              // turns
}

// turn writes under the lock, or gives it back when its turns are over.
func (a *attempt) turn() {
	a.work = nil
	if a.left == 0 || !a.worker.more() {
		switch op := a.tenure.op; {
		case a.tenure.over || op.With > 0 || kindAt(op.Path) != readWrite:
		case !op.Shares && a.worker.random.IntN(3) == 0:
			a.goOnReading()
		}
		a.tenure.release()
		a.late()
		return
	}
	a.left--
	if a.tenure.valid() || a.worker.random.IntN(4) == 0 {
		a.worker.use(a.tenure)
	}
	pace := a.worker.pace / 6
	if a.worker.random.IntN(20) == 0 {
		pace *= 24 // a worker that takes its time
	}
	a.work = time.After(a.worker.upTo(pace))
}

// use sends a write under the tenure's fence, or reads if the tenure is a reader's.
func (w *worker) use(of *tenure) {
	for _, part := range of.parts() {
		w.useOne(part)
	}
}

// useOne is use for one lock.
func (w *worker) useOne(of *tenure) {
	resource, sent := w.resources[of.op.Path], w.history.now()
	if kindAt(of.op.Path) == semaphore {
		return // one of several holders has nothing to write
	}
	if !of.op.Shares {
		of.wrote(kindWrite, sent, resource.write(of.op.fence()))
		return
	}
	of.read(sent, resource.read(of.op.fence()))
}

// late reads a Grant where there can be none.
func (a *attempt) late() {
	select {
	case grant := <-a.lock.Granted():
		a.tenure.granted(grant)
	default:
	}
}

// crew is all workers of a history.
type crew struct {
	history   *history
	resources map[string]*resource
	paths     []string
	workers   []*worker
	marks     []coordinator.LockOption  // of all handles
	cache     []coordinator.CacheOption // of the cached ones
}

func newCrew(grace time.Duration, paths ...string) *crew {
	c := &crew{history: newHistory(grace), resources: map[string]*resource{}, paths: paths}
	for _, path := range paths {
		c.resources[path] = &resource{}
	}
	return c
}

// hire adds a worker that uses the coordinator, for all locks.
func (c *crew) hire(use *coordinator.Coordinator, random *rand.Rand, pace, patience time.Duration) *worker {
	w := &worker{
		number: len(c.workers), coordinator: use, history: c.history, resources: c.resources, paths: c.paths, marks: c.marks, cache: c.cache,
		pace: pace, patience: patience, rest: pace / 4, random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64())),
	}
	c.workers = append(c.workers, w)
	return w
}

// start sets all workers to work. The channel is closed when they have finished.
func (c *crew) start(t *testing.T, more func(done int) bool) (finished <-chan struct{}) {
	t.Helper()
	return start(c.workers, func(w *worker) { w.run(t, more) })
}

// start runs work for each of them, at the same time. The channel is closed when all have finished.
func start[W any](all []W, work func(W)) (finished <-chan struct{}) {
	done := make(chan struct{})
	var running sync.WaitGroup
	for _, w := range all {
		running.Go(func() { work(w) })
	}
	go func() {
		running.Wait()
		close(done)
	}()
	return done
}
