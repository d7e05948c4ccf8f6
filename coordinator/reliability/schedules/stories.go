package schedules

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// grip makes a handle.
type grip func(c *coordinator.Coordinator, path string) handle

// use is one use of a lock from beginning to end.
type use struct {
	name string
	path string
	lock grip // how it is asked for
	// first is what others hold, and next what they ask for afterwards, to hold it alone.
	first, next grip
	// nodes is how many one contender may have at one time; 0 is one.
	nodes int
	// dirs are where nodes are, below the path; nil: right at the path.
	dirs []string
	// itself: the node is at the path.
	itself bool
	// ours: the directory exists, and is known to be ours.
	ours bool
	// others hold the lock before the story begins, and release it after a second.
	others bool
	// play uses the lock, whatever happens to it, and returns when the acquisition is over.
	play func(s *scene, a *coordinator.Acquisition)
}

// size is how many permits the semaphores of the stories have.
const size = 2

// bulk asks for several permits.
type bulk struct {
	*coordinator.Semaphore
	permits int
}

// Acquire asks for as many permits as the bulk says.
func (b bulk) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return b.Semaphore.Acquire(ctx, append(options, coordinator.WithPermits(b.permits))...)
}

func asMutex(c *coordinator.Coordinator, path string) handle { return c.Mutex(path) }
func asCached(c *coordinator.Coordinator, path string) handle {
	return c.Mutex(path, coordinator.Cached())
}
func asUnfair(c *coordinator.Coordinator, path string) handle  { return c.Unfair(path) }
func toRead(c *coordinator.Coordinator, path string) handle    { return c.ReadWrite(path).Read() }
func toWrite(c *coordinator.Coordinator, path string) handle   { return c.ReadWrite(path).Write() }
func onePermit(c *coordinator.Coordinator, path string) handle { return c.Semaphore(path, size) }

func allPermits(c *coordinator.Coordinator, path string) handle {
	return bulk{c.Semaphore(path, size), size}
}

func asBoth(c *coordinator.Coordinator, path string) handle {
	return c.Multi(c.Mutex(path+"/x"), c.ReadWrite(path+"/y").Write())
}

func asOneOfBoth(c *coordinator.Coordinator, path string) handle { return c.Mutex(path + "/x") }

func tellsOfCrashes(c *coordinator.Coordinator, path string) handle {
	return c.Mutex(path, coordinator.DetectCrash())
}

func waitsBehindACrash(c *coordinator.Coordinator, path string) handle {
	return c.Mutex(path, coordinator.LockDelay(500*time.Millisecond))
}

// uses returns all stories. The stories of each kind of lock begin with what they share.
func uses() []use {
	const old, ours, deep, task = "/locks/a", "/locks/ours", "/new/and/deep", "/tasks/a"
	return slices.Concat(
		of(use{lock: asMutex, first: asMutex, next: asMutex},
			use{name: "alone", path: old, play: hold},
			use{name: "alone, in our directory", path: ours, ours: true, play: hold},
			use{name: "new directory", path: deep, play: hold},
			use{name: "after another", path: old, others: true, play: hold},
			use{name: "after another, in our directory", path: ours, ours: true, others: true, play: hold},
			use{name: "waits and leaves", path: old, others: true, play: giveUp},
			use{name: "leaves at once", path: old, others: true, play: giveUpAtOnce},
			use{name: "leaves at once, alone", path: "/new/one", play: giveUpAtOnce},
			use{name: "leaves at once, alone in our directory", path: ours, ours: true, play: giveUpAtOnce},
		),
		of(use{first: toWrite, next: toWrite},
			use{name: "reads", path: deep, lock: toRead, play: hold},
			use{name: "reads, in our directory", path: ours, ours: true, lock: toRead, play: hold},
			use{name: "reads beside another", path: ours, ours: true, others: true, lock: toRead, first: toRead, play: hold},
			use{name: "reads after a writer", path: old, others: true, lock: toRead, play: hold},
			use{name: "writes after a reader", path: ours, ours: true, others: true, lock: toWrite, first: toRead, play: hold},
			use{name: "waits to read, and leaves", path: ours, ours: true, others: true, lock: toRead, play: giveUp},
			use{name: "reads, and leaves at once", path: ours, ours: true, others: true, lock: toRead, play: giveUpAtOnce},
			use{name: "becomes a reader", path: old, lock: toWrite, nodes: 2, play: goOnReading},
			use{name: "waits, and becomes a reader", path: ours, ours: true, others: true, lock: toWrite, nodes: 2, play: goOnReading},
			use{name: "becomes a reader in haste", path: ours, ours: true, lock: toWrite, nodes: 2, play: goOnReadingInHaste},
		),
		of(use{first: allPermits, next: allPermits, nodes: size, dirs: []string{queueOf, leasesOf}},
			use{name: "takes a permit", path: deep, lock: onePermit, play: hold},
			use{name: "takes all permits", path: ours, ours: true, lock: allPermits, play: hold},
			use{name: "takes the last permit", path: ours, ours: true, others: true, lock: onePermit, first: onePermit, play: hold},
			use{name: "waits for all permits", path: old, others: true, lock: allPermits, first: onePermit, play: hold},
			use{name: "waits for a permit, and leaves", path: ours, ours: true, others: true, lock: onePermit, play: giveUp},
			use{name: "takes permits, and leaves at once", path: ours, ours: true, lock: allPermits, play: giveUpAtOnce},
		),
		of(use{lock: asUnfair, first: asUnfair, next: asUnfair, itself: true},
			use{name: "claims", path: deep, play: hold},
			use{name: "claims again", path: task, ours: true, play: hold},
			use{name: "claims after another", path: task, others: true, play: hold},
			use{name: "waits for a claim, and leaves", path: task, others: true, play: giveUp},
			use{name: "claims, and leaves at once", path: task, ours: true, play: giveUpAtOnce},
			use{name: "asks for a claim, and leaves at once", path: task, others: true, play: giveUpAtOnce},
		),
		of(use{lock: asBoth, first: asOneOfBoth, next: asBoth, nodes: 2, dirs: []string{"/x", "/y"}},
			use{name: "both", path: deep, play: hold},
			use{name: "both, in our directories", path: ours, ours: true, play: hold},
			use{name: "both, after another that has both", path: ours, ours: true, others: true, first: asBoth, play: hold},
			use{name: "both, after another that has one", path: deep, others: true, play: hold},
			use{name: "waits for one of both, and leaves", path: ours, ours: true, others: true, play: giveUp},
			use{name: "asks for both, and leaves at once", path: deep, play: giveUpAtOnce},
		),
		// A node that is not kept goes after Done, when the next one may be there.
		of(use{lock: asCached, first: asMutex, next: asMutex, nodes: 2},
			use{name: "keeps its node", path: ours, ours: true, play: holdAgain},
			use{name: "keeps its node, after another", path: old, others: true, play: holdAgain},
			use{name: "keeps its node, and others wait for it", path: ours, ours: true, play: holdInTurns},
			use{name: "asks for a kept node, waits, and leaves", path: ours, ours: true, others: true, play: giveUp},
		),
		// The record of a crash counts as a node: the next holder that releases removes the latest one.
		of(use{lock: tellsOfCrashes, first: tellsOfCrashes, next: tellsOfCrashes},
			use{name: "tells of crashes", path: deep, play: hold},
			use{name: "tells of crashes, after another, in our directory", path: ours, ours: true, others: true, play: hold},
			use{name: "tells of crashes, waits, and leaves", path: ours, ours: true, others: true, play: giveUp},
			use{name: "tells of crashes, and leaves at once", path: ours, ours: true, play: giveUpAtOnce},
			use{name: "crashes", path: ours, ours: true, nodes: 2, play: crash},
		),
		of(use{lock: waitsBehindACrash, first: waitsBehindACrash, next: waitsBehindACrash},
			use{name: "waits behind a crash", path: ours, ours: true, nodes: 2, play: crashAndWait},
		),
	)
}

// of fills in what the stories of a kind of lock share.
func of(common use, stories ...use) []use {
	for i := range stories {
		u := &stories[i]
		for _, g := range []struct{ to, from *grip }{{&u.lock, &common.lock}, {&u.first, &common.first}, {&u.next, &common.next}} {
			if *g.to == nil {
				*g.to = *g.from
			}
		}
		u.nodes, u.dirs, u.itself = max(u.nodes, common.nodes), common.dirs, common.itself
	}
	return stories
}

// often is how many distances of a second loss are tried, unless it is measured.
func (u use) often() int {
	if u.nodes > 0 {
		return 2 // the new part of the story is long enough
	}
	return 3
}

// hold waits for the lock, holds it, and releases it.
func hold(s *scene, a *coordinator.Acquisition) {
	select {
	case <-a.Granted():
		s.holding(a)
		a.Release()
	case <-a.Done():
		s.Errorf("ended with %v before it was granted", a.Err())
	case <-time.After(10 * stageTimeout):
		s.Fatalf("not granted after %v; nodes %v", 10*stageTimeout, s.srv.Children(s.path))
	}
}

// holdAgain holds the lock again and again. A node is kept from the second time on.
func holdAgain(s *scene, a *coordinator.Acquisition) {
	hold(s, a)
	for range 3 {
		again := s.lock(s.victim, s.path).Acquire(context.Background())
		hold(s, again)
		_ = await(s, "it is over", again.Done())
	}
}

// holdInTurns has two more acquisitions wait for the lock meanwhile.
func holdInTurns(s *scene, a *coordinator.Acquisition) {
	lock := s.lock(s.victim, s.path)
	first, second := lock.Acquire(context.Background()), lock.Acquire(context.Background())
	for _, each := range []*coordinator.Acquisition{a, first, second} {
		hold(s, each)
	}
	holdAgain(s, lock.Acquire(context.Background()))
	for _, each := range []*coordinator.Acquisition{first, second} {
		_ = await(s, "it is over", each.Done())
	}
}

// giveUp releases the lock before it can be granted.
func giveUp(_ *scene, a *coordinator.Acquisition) {
	time.Sleep(time.Second / 2)
	a.Release()
}

func giveUpAtOnce(_ *scene, a *coordinator.Acquisition) { a.Release() }

// goOnReading becomes a reader when it may write.
func goOnReading(s *scene, write *coordinator.Acquisition) {
	_ = await(s, "the write lock is granted", write.Granted())
	read := toRead(s.victim, s.path).Acquire(write.Context(context.Background()))
	select {
	case <-read.Granted():
		write.Release()
		s.holding(read)
	case <-write.Lost(): // the wait ends, or has nothing to wait for any more
		if !s.expires {
			s.Error("lost the write lock")
		}
	}
	read.Release()
	_ = await(s, "it has read", read.Done())
	write.Release()
}

// goOnReadingInHaste gives the write lock back before it knows whether it may read.
func goOnReadingInHaste(s *scene, write *coordinator.Acquisition) {
	_ = await(s, "the write lock is granted", write.Granted())
	read := toRead(s.victim, s.path).Acquire(context.WithoutCancel(write.Context(context.Background())))
	write.Release()
	select {
	case <-read.Granted():
		s.holding(read)
		read.Release()
	case <-read.Done():
		if err := read.Err(); !errors.Is(err, coordinator.ErrNotAcquired) {
			s.Errorf("ended with %v", err)
		}
	}
	_ = await(s, "it has read", read.Done())
}

// crash takes the lock once more, in Do, and panics there.
func crash(s *scene, a *coordinator.Acquisition) { crashOf(s, a, tellsOfCrashes) }

// crashAndWait does the same, and then holds the lock after its delay.
func crashAndWait(s *scene, a *coordinator.Acquisition) {
	crashOf(s, a, waitsBehindACrash)
	again := waitsBehindACrash(s.victim, s.path).Acquire(context.Background())
	hold(s, again)
}

func crashOf(s *scene, a *coordinator.Acquisition, lock grip) {
	hold(s, a)
	err := recovered(context.Background(), lock(s.victim, s.path), func(context.Context, events.Grant) error { panic(errPanic) })
	if !errors.Is(err, errPanic) {
		s.Errorf("ended with %v", err)
	}
}
