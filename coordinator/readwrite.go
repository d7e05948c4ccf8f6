package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// ReadWrite is a handle for both sides of a read/write lock.
type ReadWrite struct{ read, write *Lock }

// ReadWrite returns a handle for the read/write lock at the path: one writer, or any
// number of readers, in the order of arrival.
func (c *Coordinator) ReadWrite(path string, options ...LockOption) *ReadWrite {
	cfg := lockConfigOf(options)
	return &ReadWrite{
		read:  c.handle(path, kindReadWrite, recipes.Read{Kazoo: cfg.kazoo}, cfg),
		write: c.handle(path, kindReadWrite, recipes.Write{Kazoo: cfg.kazoo}, cfg),
	}
}

// Read returns the side that readers hold together. Its Token is not a fencing token.
//
// A writer becomes a reader, with no other writer in between: it acquires this side with
// the [Acquisition.Context] of the write lock, and then releases the write lock.
func (rw *ReadWrite) Read() *Lock { return rw.read }

// Write returns the side that one writer holds alone. With the context of a held read
// lock, Acquire is [ErrDeadlock]; docs/kinds.md has two ways out.
func (rw *ReadWrite) Write() *Lock { return rw.write }
