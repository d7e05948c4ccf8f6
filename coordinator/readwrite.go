package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// ReadWrite is a handle for both sides of a read/write lock. It holds nothing, may be used
// any number of times, and from any goroutine.
type ReadWrite struct{ read, write *Lock }

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
// cannot be had, which is [ErrDeadlock]: two readers that want to write would wait for each other. There are two ways to read,
// decide and then write. One writes beside other readers, under the read lock, with [Acquisition.Txn] and a check of the version
// that was read. The other releases the read lock, takes the write lock, and reads again.
func (rw *ReadWrite) Write() *Lock { return rw.write }
