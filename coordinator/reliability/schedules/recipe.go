package schedules

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// The kind of lock of a schedule, what may be requested of it, and which holders share
// it.

type recipe string

const (
	mutex     recipe = "mutex"
	readWrite recipe = "read/write lock"
	semaphore recipe = "semaphore"
	unfair    recipe = "unfair lock"
	reentrant recipe = "reentrant mutex"
	several   recipe = "multi-lock" // mutexes, one or some of them together
	cached    recipe = "cached mutex"
)

// basic reports whether the lock may have kazoo's names, and report crashes.
func (r recipe) basic() bool { return r == mutex || r == readWrite || r == reentrant }

// recipeOf distributes the seeds. It makes no decision of the plan, so a seed played with
// another recipe has the same schedule of faults.
func recipeOf(seed uint64) recipe {
	if only := onlyRecipe(); only != "" {
		return only
	}
	return [...]recipe{mutex, readWrite, mutex, semaphore, several, reentrant, cached, unfair}[seed%8]
}

type side uint8

const (
	alone  side = iota + 1 // a mutex, or writing
	shared                 // reading
)

func (k *worker) side() side {
	if k.world.recipe == readWrite && k.oneIn(2) {
		return shared
	}
	return alone
}

type handle = coordinator.Handle

func (l *life) lock(path string, s side) handle {
	switch l.client.world.recipe {
	case readWrite:
		rw := l.ReadWrite(path, l.client.options()...)
		if s == shared {
			return rw.Read()
		}
		return rw.Write()
	case semaphore:
		return l.semaphore(path)
	case unfair:
		return l.Unfair(path)
	case several:
		return l.several(path)
	case cached:
		return l.cached(path)
	case mutex, reentrant:
		return l.Mutex(path, l.client.options()...)
	default:
		panic("there is no kind of lock " + string(l.client.world.recipe))
	}
}

// nodes returns the nodes of the holders and waiters of the lock at a path.
func (w *world) nodes(lock string) (paths []string) {
	dirs := []string{lock}
	switch {
	case w.recipe == semaphore:
		dirs = []string{lock + queueOf, lock + leasesOf}
	case w.recipe == unfair && w.srv.Exists(lock):
		return []string{lock}
	}
	for _, dir := range dirs {
		for _, child := range w.srv.Children(dir) {
			paths = append(paths, path.Join(dir, child))
		}
	}
	return paths
}

// holds reports whether the node can be a holder's.
func (w *world) holds(lock, node string) bool {
	switch w.recipe {
	case semaphore:
		return path.Dir(node) == lock+leasesOf
	case unfair:
		return node == lock
	default:
		return path.Dir(node) == lock
	}
}

// nameOf returns the GUID that all nodes of one acquisition in one session have in
// common. The nodes of an unfair lock share one name, so a node deleted by hand may be
// any contender's.
func nameOf(node string) string {
	if id, found := guid(node); found {
		return id
	}
	return node
}

// waitsFor reports whether a contender must wait for another one that arrived earlier.
func (s side) waitsFor(node string) bool {
	name, ok := events.ParseName(path.Base(node))
	return ok && (s == alone || !name.Kind.Reads())
}

// together reports whether both may hold at one instant: readers; holders that share a
// node because they reentered; and a writer beside the reader that took its place. For a
// semaphore, it compares the sum of their permits with the size. The nodes of an unfair
// lock share one name.
func together(a, b *tenure) bool {
	if w := a.world(); w.recipe == semaphore {
		return a.permits+b.permits <= w.size.most
	}
	return a.side == shared && b.side == shared || a.root == b.root && a.world().recipe != unfair
}

// A writer becomes a reader: it acquires the read lock with the context of the write
// lock. It releases the write lock after the Grant, or without waiting for it. A reader
// takes the writer's place if it was granted there.

// again reports whether holders reenter their locks.
func (w *world) again() bool {
	return w.recipe == reentrant || (w.recipe == readWrite || w.recipe == cached) && w.seed/8%2 == 1
}

func (c *client) options() (options []coordinator.LockOption) {
	if c.world.again() {
		options = append(options, coordinator.Reentrant())
	}
	if c.world.detects {
		options = append(options, coordinator.DetectCrash())
	}
	if c.kazoo() {
		options = append(options, coordinator.AsKazoo())
	}
	if c.world.revocable() {
		options = append(options, coordinator.Revocable())
	}
	return options
}

// enter makes a holder reenter the lock, in another goroutine. The inner acquisition may
// hold it longer than the outer one.
func (k *worker) enter(r *record, s script) {
	ctx := r.ctx
	if s.hasty {
		ctx = context.WithoutCancel(ctx)
	}
	s.enters, s.hasty, s.downgrade = s.enters-1, s.enters%2 == 1, false
	inner := k.ask(ctx, r.life, r.path, s)
	inner.writer = r.tenure
	k.world.count("entered again", 1)
	k.world.crew.Go(func() { k.see(inner) })
}

// downgrade requests the read lock in the place of a writer that holds. The channel is
// closed when the outcome is known.
func (k *worker) downgrade(ctx context.Context, writer *tenure, s script) (known <-chan struct{}) {
	s.side, s.downgrade, s.enters = shared, false, 0
	if s.hasty { // the reader outlives the writer
		ctx = context.WithoutCancel(ctx)
	}
	s.hasty, s.asksToWrite = false, s.context
	r := k.ask(ctx, writer.life, writer.path, s)
	told := make(chan struct{}) // from here on, r belongs to the goroutine that calls see
	r.writer, r.known = writer, told
	k.world.count("downgrades", 1)
	k.world.crew.Go(func() { k.see(r) })
	return told
}

// tookPlace reports whether the Grant is for the writer's place.
func (t *tenure) tookPlace(grant events.Grant) bool {
	return grant.Session == t.grant.Session && sequence(grant.Node) == sequence(t.grant.Node) && grant.Turn == t.grant.Turn
}

// askToWrite requests the write lock while reading, which is refused.
func (r *record) askToWrite() {
	a := r.life.lock(r.path, alone).Acquire(r.ctx)
	defer a.Release()
	select {
	case <-a.Done():
	case <-time.After(r.life.client.timeout):
	}
	// A worker that has lost the lock is like any other.
	err := a.Err()
	r.expect(!r.a.Valid() || errors.Is(err, coordinator.ErrDeadlock), "asked to write while it reads: %v", err)
	r.life.client.world.count("asked to write while it reads", 1)
}
