package coordinator

import (
	"context"

	"github.com/zkgrant/zkgrant/events"
)

// Handle is the path of a lock and how to take it. It is a [*Lock], a [*Semaphore] or an
// [*Election]. All handles are reusable, and safe for concurrent use.
type Handle interface {
	// Path returns the handle's path; of a multi-lock, that of its first member.
	Path() string
	// Acquire asks for the lock and returns at once; see [Lock.Acquire].
	Acquire(ctx context.Context, options ...AcquireOption) *Acquisition
	// Hold waits for the lock and returns it taken; see [Lock.Hold].
	Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error)
	// Do runs f while holding the lock; see [Lock.Do].
	Do(ctx context.Context, f func(context.Context, events.Grant) error, options ...AcquireOption) error
	// Queue returns the holders and waiters in order; see [Lock.Queue].
	Queue(ctx context.Context) ([]events.Contender, error)

	acquire(ctx context.Context, cfg acquireConfig) *Acquisition
}

var (
	_ Handle = (*Lock)(nil)
	_ Handle = (*Semaphore)(nil)
	_ Handle = (*Election)(nil)
)

// Hold acquires the lock and returns it with its Grant taken. When ctx ends, it returns the cause
// at once, and the withdrawal goes on by itself. Its other errors are those of
// [Acquisition.Err] without a Grant. Only Release, a loss or Close ends the lock it returns.
func (l *Lock) Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error) {
	return hold(ctx, l, options)
}

// Hold acquires the permits and returns them with their Grant taken; see [Lock.Hold].
func (s *Semaphore) Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error) {
	return hold(ctx, s, options)
}

// Hold campaigns and returns the term with its Grant taken; see [Lock.Hold].
func (e *Election) Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error) {
	return hold(ctx, e, options)
}

func hold(ctx context.Context, h Handle, options []AcquireOption) (*Acquisition, error) {
	a := h.acquire(ctx, configOf(options))
	if _, err := a.granting(); err != nil {
		return nil, err
	}
	return a, nil
}
