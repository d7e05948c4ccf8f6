package schedules_test

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// What kind of lock a schedule is about, what may be asked of it, and who may hold it together.

type recipe uint8

const (
	mutex recipe = iota + 1
	readWrite
)

func (r recipe) String() string {
	return map[recipe]string{mutex: "mutex", readWrite: "read/write"}[r]
}

// recipeOf shares the seeds out. It takes no decision from the plan, so that a seed that is played for another
// recipe is the same schedule of faults.
func recipeOf(seed uint64) recipe {
	if seed%2 == 0 {
		return mutex
	}
	return readWrite
}

// side is what an acquisition asks for.
type side uint8

const (
	alone  side = iota + 1 // a mutex, or to write
	shared                 // to read
)

// side picks one.
func (k *worker) side() side {
	if k.world.recipe == readWrite && k.oneIn(2) {
		return shared
	}
	return alone
}

// lock returns the handle.
func (l *life) lock(path string, s side) *coordinator.Lock {
	switch l.client.world.recipe {
	case readWrite:
		rw := l.ReadWrite(path)
		if s == shared {
			return rw.Read()
		}
		return rw.Write()
	default:
		return l.Mutex(path)
	}
}

// waitsFor tells whether a contender has to wait for another one that was there before.
func (s side) waitsFor(node string) bool {
	name, ok := events.ParseName(path.Base(node))
	return ok && (s == alone || !name.Kind.Reads())
}

// together tells whether both may hold at one instant: readers, and a writer beside the reader that took its place.
func together(a, b *tenure) bool {
	return a.side == shared && b.side == shared || a.place == b.place
}

// A writer becomes a reader: it asks for the read side with the context of the write side, and releases that when
// it has been granted, or does not wait for that. A reader takes the writer's place if it was granted there.

// downgrade asks to read in the place of a writer who holds. The channel is closed when it is known what became of it.
func (k *worker) downgrade(ctx context.Context, writer *tenure, s script) (known <-chan struct{}) {
	s.side, s.downgrade = shared, false
	if s.hasty { // it outlives the writer
		ctx = context.WithoutCancel(ctx)
	}
	s.hasty, s.upgrade = false, s.context
	r := k.ask(ctx, writer.life, writer.path, s)
	r.writer, r.known = writer, make(chan struct{})
	k.world.count("downgrades", 1)
	k.world.crew.Go(func() {
		k.see(r)
	})
	return r.known
}

// tookPlace tells whether the Grant is for a place that the writer has had.
func (t *tenure) tookPlace(grant events.Grant) bool {
	return grant.Session == t.grant.Session && sequence(grant.Node) == sequence(t.grant.Node)
}

// upgrade asks to write while it reads, which is refused.
func (r *record) upgrade() {
	a := r.life.lock(r.path, alone).Acquire(r.ctx)
	defer a.Release()
	select {
	case <-a.Done():
	case <-time.After(r.life.client.timeout):
	}
	// Whoever has lost the lock asks like anybody else.
	if err := a.Err(); r.a.Valid() && !errors.Is(err, coordinator.ErrDeadlock) {
		r.failf("asked to write while it reads: %v", err)
	}
	r.life.client.world.count("upgrades refused", 1)
}
