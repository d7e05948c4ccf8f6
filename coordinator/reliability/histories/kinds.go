package histories

import (
	"context"
	"path"

	"github.com/zkgrant/zkgrant/coordinator"
)

// lockKind is a kind of lock. Which one is at a path its last component says.
type lockKind uint8

const (
	mutex lockKind = iota + 1
	readWrite
	semaphore
	unfair
	election
)

// kindAt returns the kind of the lock at the path.
func kindAt(lock string) lockKind {
	switch path.Base(lock) {
	case "rw":
		return readWrite
	case "permits":
		return semaphore
	case "task":
		return unfair
	case "leader":
		return election
	default:
		return mutex
	}
}

// acquirer is a handle of any kind.
type acquirer interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
}

// handle returns the one for what the operation asks for, and chooses that.
func (w *worker) handle(op *operation) acquirer {
	switch kindAt(op.Path) {
	case readWrite:
		if op.Shares = w.random.IntN(2) == 0; op.Shares {
			return w.coordinator.ReadWrite(op.Path, w.marks...).Read()
		}
		return w.coordinator.ReadWrite(op.Path, w.marks...).Write()
	case semaphore:
		op.Permits = 1 + w.random.IntN(mostPermits)
		return bulk{w.coordinator.Semaphore(op.Path, mostPermits, w.marks...), op.Permits}
	case unfair:
		return w.coordinator.Unfair(op.Path)
	case election:
		return campaign{w.coordinator.Election(op.Path, w.marks...)}
	default:
		return w.coordinator.Mutex(op.Path, w.marks...)
	}
}

// campaign has candidates acquire.
type campaign struct{ *coordinator.Election }

func (c campaign) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return c.Campaign(ctx, options...)
}

// mostPermits is how many the semaphore has.
const mostPermits = 3

// bulk asks for several permits.
type bulk struct {
	*coordinator.Semaphore
	permits int
}

func (b bulk) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return b.Semaphore.Acquire(ctx, append(options, coordinator.WithPermits(b.permits))...)
}
