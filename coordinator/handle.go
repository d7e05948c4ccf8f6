package coordinator

import "context"

// Handle is the path of a lock and how to take it: a [*Lock], a [*Semaphore] or an
// [*Election]. Its methods are those of [Lock]. All handles are reusable and safe for
// concurrent use.
type Handle interface {
	Path() string
	Acquire(ctx context.Context, options ...AcquireOption) *Acquisition
	Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error)
	Do(ctx context.Context, f func(context.Context, Grant) error, options ...AcquireOption) error
	Queue(ctx context.Context) ([]Contender, error)
	Watch(ctx context.Context) <-chan []Contender

	acquire(ctx context.Context, cfg acquireConfig) *Acquisition
}

var (
	_ Handle = (*Lock)(nil)
	_ Handle = (*Semaphore)(nil)
	_ Handle = (*Election)(nil)
)

// Hold waits for the lock and returns it with its Grant taken. If ctx ends first, it
// returns the cause at once and withdraws in the background. Its other errors are those
// of [Acquisition.Err]. Only Release, a loss or Close ends the returned lock.
func (l *Lock) Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error) {
	return hold(ctx, l, options)
}

// Hold waits for the permits; see [Lock.Hold].
func (s *Semaphore) Hold(ctx context.Context, options ...AcquireOption) (*Acquisition, error) {
	return hold(ctx, s, options)
}

// Hold waits for leadership; see [Lock.Hold].
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
