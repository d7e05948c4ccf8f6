package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

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
// of [Acquisition.Err]. Only Release, Abandon, a loss or Close ends it.
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

// Do acquires the lock, runs f, and releases the lock. f's context is a child of ctx that
// ends with a loss. ctx bounds both waits; if it ended before f returned, the release
// gets one probe interval. Do returns f's error, or why there was no Grant, joined with a
// *LostError, ErrClosed after Close, a refusal of the release, or [ErrReleasePending].
//
// The node stays until f returns, even after a loss, so f must not wait for the same lock
// then. If f panics, Do abandons the lock, and the panic continues.
func (l *Lock) Do(ctx context.Context, f func(context.Context, events.Grant) error,
	options ...AcquireOption) error {
	return do(ctx, l, f, options)
}

// do runs f under the lock of the handle.
func do(
	ctx context.Context, h Handle, f func(context.Context, events.Grant) error, options []AcquireOption,
) error {
	if f == nil {
		return fmt.Errorf("%w: Do without a function: %s", ErrInvalid, h.Path())
	}
	cfg := configOf(options)
	cfg.keep = true
	a := h.acquire(ctx, cfg)
	defer a.Abandon() // does nothing after a Release
	grant, err := a.granting()
	if err != nil {
		a.Release()
		return err
	}
	err = f(a.Context(ctx), grant)
	end := a.giveBack(ctx)
	var lost, told *LostError
	if errors.As(end, &lost) && errors.As(err, &told) && *told == *lost {
		return err // f returned the cause of its context
	}
	return joined(end, err)
}
