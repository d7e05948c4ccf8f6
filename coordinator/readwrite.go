package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// ReadWrite is a handle for both sides of a read/write lock. It holds nothing, may be used
// any number of times, and from any goroutine.
type ReadWrite struct{ read, write, upgradable *Lock }

// ReadWrite returns a handle for the read/write lock at the path: one writer, or any
// number of readers. It is fair: whoever comes first is granted first, but for readers
// who hold it together, so a writer waits for those before it and for nobody who came later.
// On the wire it is Curator's InterProcessReadWriteLock.
func (c *Coordinator) ReadWrite(path string, options ...LockOption) *ReadWrite {
	cfg := lockConfigOf(options)
	family := familyReadWrite.as(cfg)
	return &ReadWrite{
		read:  &Lock{c: c, path: path, family: family, rule: recipes.Read{Kazoo: cfg.kazoo}, cfg: cfg},
		write: &Lock{c: c, path: path, family: family, rule: recipes.Write{Kazoo: cfg.kazoo}, cfg: cfg},

		upgradable: &Lock{c: c, path: path, family: family, rule: recipes.Upgradable{}, cfg: cfg},
	}
}

// Read returns the side that is held together with other readers. The Token of its Grant is
// no fencing token: readers do not exclude each other. But no writer behind them has a smaller one.
//
// A writer becomes a reader, and lets no other writer in between, by asking for this side with the
// [Acquisition.Context] of the write lock while it holds that, and by releasing the write lock when
// the read lock is granted. That takes four requests and waits for nobody. The read lock's Token is that of
// the write lock. If the write lock is given up or lost before, the read lock need not be granted. What descends from
// the write lock's context is cancelled with the write lock, though: for a function in [Lock.Do] that goes on reading behind
// its release, ask with [context.WithoutCancel] of it.
func (rw *ReadWrite) Read() *Lock { return rw.read }

// Write returns the side that is held alone. With the context of a read lock that is held it
// cannot be had, which is [ErrDeadlock]; with that of an upgradable one it can, see [ReadWrite.Upgradable].
func (rw *ReadWrite) Write() *Lock { return rw.write }

// Upgradable returns the side that is held by one at a time, beside any number of readers, and whose holder may become the
// writer without letting another writer in between. It is for those who read, decide, and then perhaps write what they have decided
// by what they have read. It waits for writers and for other upgradable readers who came before; readers, before or behind it,
// neither keep it waiting nor wait for it.
//
// Its holder becomes the writer by asking for [ReadWrite.Write] with its [Acquisition.Context]. That waits until the readers have
// left who hold beside it, while new ones queue up behind, and then is granted, whoever else waits to write. The two are released
// in any order. Behind the release of the write lock alone it is the upgradable read lock that is held, and readers come
// in again; if that was released before, the lock is free. Nobody writes in between in either case.
// A wait to write may be given up like any other, and nothing is lost by it. With what descends from the upgradable lock's context it
// ends when that is released or lost; with [context.WithoutCancel] of it, it goes on, and is granted all the same, unless
// the upgradable lock was released before the wait began at the server: then it ends with [ErrNotAcquired]. If somebody removes either node, the write
// lock is lost.
//
// With the context of an upgradable lock the Read side is [ErrDeadlock], as is Upgradable itself unless it is [Reentrant]:
// whoever holds it may read. With that of a write lock that was had in this way both sides are, also for a Reentrant handle.
// [AsKazoo] has no upgradable readers: [ErrKind].
//
// The Token of its Grant is no fencing token, like a reader's. That of the write lock is one: greater than, or as great as, that of
// any Grant before, and smaller than those of the writers who wait for longer. Two upgrades of one upgradable lock may have
// the same.
//
// On the wire it is a name that Curator, which has nothing like it, takes for a writer's: its readers and writers wait for an
// upgradable reader.
func (rw *ReadWrite) Upgradable() *Lock { return rw.upgradable }
