package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// lockKind is a kind of lock, given by the last component of the path.
type lockKind uint8

const (
	mutex lockKind = iota
	readWrite
	semaphore
	unfair
	election
	cached
)

// kindAt returns the kind of the lock at the path.
func kindAt(lock string) lockKind {
	return map[string]lockKind{
		"rw": readWrite, "permits": semaphore, "task": unfair, "leader": election, "cached": cached,
	}[path.Base(lock)]
}

const (
	mostPermits = 3 // the size of the semaphore
	mostMembers = 3 // most members of a multi-lock
)

// resource is what a lock protects: it accepts a write unless it has seen a greater
// fence.
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
	r.seen, r.value = under, under.Token
	return true
}

// read returns the last write. From then on, a smaller fence than the reader's is late.
func (r *resource) read(under fence) (value int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = r.seen.or(under)
	return r.value
}

// worker acquires one lock after the other and records what it sees. It believes only
// what the library reports.
type worker struct {
	number      int
	coordinator *coordinator.Coordinator
	history     *history
	resources   map[string]*resource // by the path of the lock
	paths       []string
	marks       []coordinator.LockOption // options of all its handles
	pace        time.Duration            // how long it usually holds a lock at most
	patience    time.Duration            // how long it usually waits for a lock at most
	rest        time.Duration            // how long it rests without a lock at most
	random      *rand.Rand
	round       int32
	more        func() bool
	past        *tenure // a tenure that is over: its owner may not know that, or may have a write under way
}

func (w *worker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

// oneIn returns true with probability 1/n.
func (w *worker) oneIn(n int) bool { return w.random.IntN(n) == 0 }

// run works while more returns true.
func (w *worker) run(t *testing.T) {
	for w.more() {
		w.round++
		w.acquire(t)
		<-time.After(w.upTo(w.rest))
		if w.past != nil && w.oneIn(3) {
			w.use(w.past)
		}
	}
}

// acquirer is the Acquire method of a handle of any kind, with its options.
type acquirer func(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition

// handle returns a handle for the operation, and chooses what the operation requests.
func (w *worker) handle(op *operation) acquirer {
	switch kindAt(op.Path) {
	case semaphore:
		op.Permits = 1 + w.random.IntN(mostPermits)
		lock := w.coordinator.Semaphore(op.Path, mostPermits, w.marks...)
		return func(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
			return lock.Acquire(ctx, append(options, coordinator.Permits(op.Permits))...)
		}
	case unfair:
		return w.coordinator.Unfair(op.Path).Acquire
	case election:
		return w.coordinator.Election(op.Path, w.marks...).Acquire
	case cached: // or a contender of the same session with its own node
		if !w.oneIn(8) {
			return w.coordinator.Mutex(op.Path, append(slices.Clip(w.marks), coordinator.Cached())...).Acquire
		}
	default:
	}
	return w.member(op).Acquire
}

// member returns a lock that may be a member of a multi-lock. A cached lock may be one
// without its cache.
func (w *worker) member(op *operation) *coordinator.Lock {
	if kindAt(op.Path) != readWrite {
		return w.coordinator.Mutex(op.Path, w.marks...)
	}
	if op.Shares = w.oneIn(2); op.Shares {
		return w.coordinator.ReadWrite(op.Path, w.marks...).Read()
	}
	return w.coordinator.ReadWrite(op.Path, w.marks...).Write()
}

// joins reports whether the lock at the path may be in a multi-lock.
func joins(lock string) bool {
	return slices.Contains([]lockKind{mutex, readWrite, cached}, kindAt(lock))
}

// choose returns a handle for the lock of the tenure: alone, or in a multi-lock.
func (w *worker) choose(t *tenure) acquirer {
	if !joins(t.op.Path) || !w.oneIn(4) {
		return w.handle(&t.op)
	}
	locks := []*coordinator.Lock{w.member(&t.op)}
	for _, i := range w.random.Perm(len(w.paths)) {
		op := operation{Path: w.paths[i]}
		if op.Path == t.op.Path || !joins(op.Path) || len(locks) == mostMembers {
			continue
		}
		locks = append(locks, w.member(&op))
		t.others = append(t.others, op)
	}
	if t.op.With = len(t.others); t.op.With == 0 {
		return w.handle(&t.op)
	}
	return w.coordinator.Multi(locks...).Acquire
}

// isOf reports whether the Grant is for exactly the tenure's members.
func (t *tenure) isOf(grant events.Grant) bool {
	if len(t.others) == 0 {
		return grant.Path == t.op.Path && grant.Members == nil
	}
	return slices.EqualFunc(grant.Members, t.parts(), func(m events.Member, part *tenure) bool { return m.Path == part.op.Path })
}

// acquire runs one acquisition, from the request to Done.
func (w *worker) acquire(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tenure := w.history.begin(w.number, w.round, w.paths[w.random.IntN(len(w.paths))])
	lock := w.choose(tenure)(ctx, w.options()...)
	tenure.lock = lock
	a := &attempt{worker: w, tenure: tenure, lock: lock}
	if w.oneIn(4) {
		a.giveUp = time.After(w.upTo(w.patience))
	}
	granted := lock.Granted()
	if w.oneIn(4) { // a busy worker, for which the Grant waits, or is taken back
		granted, a.look = nil, time.After(w.upTo(w.patience))
	}
	for {
		select {
		case <-a.look:
			granted = lock.Granted()
		case grant := <-granted:
			tenure.granted(grant)
			a.node = grant.Node
			eventstest.Expect(t, tenure.isOf(grant), "worker %d, round %d: granted %v for %v with %v",
				w.number, w.round, grant, tenure.op, tenure.others)
			a.giveUp, a.work = nil, time.After(0)
			a.left = w.random.IntN(6)
		case lost := <-lock.Lost():
			tenure.lost(lost)
			eventstest.Expect(t, !lock.Valid(), "worker %d, round %d: lost, and valid", w.number, w.round)
			w.past = tenure
		case <-a.work:
			a.turn()
		case <-a.giveUp:
			a.giveUp = nil
			if w.oneIn(2) {
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
			eventstest.Expect(t, !lock.Valid(), "worker %d, round %d: done, and valid", w.number, w.round)
			if tenure.op.Token != 0 && w.oneIn(8) {
				w.past = tenure
			}
			return
		}
	}
}

func (w *worker) options() []coordinator.AcquireOption {
	switch w.random.IntN(10) {
	case 0:
		return []coordinator.AcquireOption{coordinator.Try()}
	case 1, 2:
		return []coordinator.AcquireOption{coordinator.MaxWait(1 + w.upTo(w.patience))}
	default:
		return nil
	}
}

type attempt struct {
	worker *worker
	tenure *tenure
	lock   *coordinator.Acquisition
	node   string

	look   <-chan time.Time // when to read the Grant
	giveUp <-chan time.Time
	work   <-chan time.Time // when the next turn is due
	left   int              // remaining turns
}

// turn writes under the lock, or releases it after the last turn.
func (a *attempt) turn() {
	a.work = nil
	w, op := a.worker, a.tenure.op
	if a.left == 0 || !w.more() {
		if !a.tenure.over && op.With == 0 && kindAt(op.Path) == readWrite && !op.Shares && w.oneIn(3) {
			a.goOnReading()
		}
		a.tenure.release()
		a.late()
		return
	}
	a.left--
	if a.tenure.valid() || w.oneIn(4) {
		w.use(a.tenure)
	}
	pace := w.pace / 6
	if w.oneIn(20) {
		pace *= 24 // a slow worker
	}
	a.work = time.After(w.upTo(pace))
}

// use sends a write under the tenure's fence, or reads if the tenure is a reader's. A
// semaphore's holder writes nothing, because it may be one of several.
func (w *worker) use(of *tenure) {
	for _, part := range of.parts() {
		resource, sent := w.resources[part.op.Path], w.history.now()
		switch {
		case kindAt(part.op.Path) == semaphore:
		case !part.op.Shares:
			part.wrote(kindWrite, sent, resource.write(part.op.fence))
		default:
			value := resource.read(part.op.fence)
			part.add(kindRead, sent, func(op *operation) { op.Value = value })
		}
	}
}

// late reads a Grant at a point where there must be none.
func (a *attempt) late() {
	select {
	case grant := <-a.lock.Granted():
		a.tenure.granted(grant)
	default:
	}
}

// goOnReading lets a writer become a reader. The write lock is released once the reader
// holds, or cannot.
func (a *attempt) goOnReading() {
	w := a.worker
	w.round++
	reader := w.history.begin(w.number, w.round, a.tenure.op.Path)
	reader.op.Shares, reader.op.From = true, a.tenure.op.Round
	// The reader's wait does not end with the write lock.
	writer := context.WithoutCancel(a.lock.Context(context.Background()))
	reader.lock = w.coordinator.ReadWrite(reader.op.Path, w.marks...).Read().Acquire(writer)
	giveUp := time.After(w.patience)
	var over <-chan time.Time
	for {
		select {
		case grant := <-reader.lock.Granted():
			if sameNumber(grant.Node, a.node) {
				reader.op.Writer = a.tenure.op.Token
			}
			reader.granted(grant)
			a.tenure.release()
			giveUp, over = nil, time.After(w.upTo(w.pace))
			if reader.valid() {
				w.use(reader)
			}
		case <-over:
			if reader.valid() {
				w.use(reader)
			}
			reader.release()
		case <-giveUp: // the writer may have lost the lock
			a.tenure.release()
			reader.release()
		case lost := <-a.lock.Lost():
			a.tenure.lost(lost)
		case lost := <-reader.lock.Lost():
			reader.lost(lost)
		case <-reader.lock.Done():
			reader.done()
			a.tenure.release()
			return
		}
	}
}

// sameNumber reports whether two nodes of one directory have the same sequence number.
func sameNumber(a, b string) bool {
	x, ok := events.ParseName(path.Base(a))
	y, too := events.ParseName(path.Base(b))
	return ok && too && x.Seq == y.Seq
}

// revoke revokes a lock whose handles are all revocable, and waits at most patience.
func (h *history) revoke(t *testing.T, c *coordinator.Coordinator, path string, grace, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var held []operation
	h.mu.Lock()
	for _, tenure := range h.tenures[path] {
		for _, part := range tenure.parts() {
			if part.op.Path == path {
				held = append(held, part.op)
			}
		}
	}
	h.mu.Unlock()
	ask := operation{Path: path, Kind: kindAsk, Call: h.now()}
	err := c.Revoke(ctx, path, grace)
	h.add(ask)
	switch {
	case err == nil:
		for _, op := range held {
			op.Kind, op.Call = kindGone, h.now()
			h.add(op)
		}
	case errors.Is(err, coordinator.ErrNotHeld), errors.Is(err, coordinator.ErrClosed), ctx.Err() != nil:
	default:
		t.Errorf("Revoke of %s: %v", path, err)
	}
}

// start runs work for each element, concurrently. The channel is closed when all calls
// have returned.
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
