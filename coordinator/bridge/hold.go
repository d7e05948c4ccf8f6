package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/coordinator"
)

// ErrNotLocked reports an unlock of a lock that is not locked.
var ErrNotLocked = errors.New("zkgrant: unlock of a lock that is not locked")

// Option configures an adapter.
type Option func(*config)

type config struct {
	onLost  func(error)
	acquire []coordinator.AcquireOption
}

// OnLost calls f when a held lock is lost, before another contender can hold it. The
// error is a [*coordinator.LostError], or [coordinator.ErrClosed] if the coordinator was
// closed. f runs in its own goroutine. A [context.CancelCauseFunc] fits.
func OnLost(f func(error)) Option { return func(c *config) { c.onLost = f } }

// WithAcquire adds options to each acquisition, such as [coordinator.Data].
func WithAcquire(options ...coordinator.AcquireOption) Option {
	return func(c *config) { c.acquire = append(c.acquire, options...) }
}

func configOf(options []Option) (c config) {
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// hold waits for the lock, at most until ctx ends.
func (c *config) hold(ctx context.Context, lock *coordinator.Lock, more ...coordinator.AcquireOption) (*coordinator.Acquisition, error) {
	a, err := lock.Hold(ctx, slices.Concat(c.acquire, more)...)
	if err != nil {
		return nil, fmt.Errorf("zkgrant: locking %.256s: %w", lock.Path(), err)
	}
	c.watch(a) //nolint:contextcheck // ctx bounds the wait only
	return a, nil
}

// watch reports the loss of the lock.
func (c *config) watch(a *coordinator.Acquisition) {
	if c.onLost == nil {
		return
	}
	held := a.Context(context.Background())
	context.AfterFunc(held, func() {
		if end := context.Cause(held); !errors.Is(end, coordinator.ErrReleased) {
			c.onLost(end)
		}
	})
}

// Path returns a lock's path for any name: the name's [coordinator.PathEscape], below
// root. Different names have different paths.
func Path(root, name string) string {
	return strings.TrimSuffix(root, "/") + "/" + coordinator.PathEscape(name)
}
