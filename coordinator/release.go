package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// Release gives the lock back, or leaves the queue. It may be called in any state, and
// more than once. After it returns, no Grant can be taken.
func (a *Acquisition) Release() { a.actor.Withdraw(recipes.WhyReleased) }

// ReleaseAndWait releases the lock, waits until the servers confirm it, and returns Err;
// after a loss, or of a [Cached] lock, it returns at once. If ctx ends first, it returns
// [ErrReleasePending] with the cause of ctx. It may be called again.
func (a *Acquisition) ReleaseAndWait(ctx context.Context) error {
	a.Release()
	// The end is known by now, although the event of a loss may still be on its way to
	// the channel.
	end := a.actor.Ending()
	if lost := (*LostError)(nil); errors.As(end, &lost) || errors.Is(end, ErrClosed) {
		return end
	}
	for _, event := range [...]func() <-chan struct{}{a.actor.Done, a.actor.Confirmed} {
		happened := event()
		select {
		case <-happened:
			continue // also if ctx has ended since
		default:
		}
		select {
		case <-happened:
		case <-ctx.Done():
			return joined(end, fmt.Errorf("%w: %s: %w", ErrReleasePending, a.lock.path, context.Cause(ctx)))
		}
	}
	return a.Err()
}

// giveBack is ReleaseAndWait for a caller whose work under the lock is done. If ctx has
// ended before, as at every SIGTERM, the servers have one probe interval to confirm the
// release, and it is no error if they do not.
func (a *Acquisition) giveBack(ctx context.Context) error {
	if ctx.Err() == nil {
		return a.ReleaseAndWait(ctx)
	}
	c := a.lock.c
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.session.Interval())
	defer cancel()
	err := a.ReleaseAndWait(bounded)
	if errors.Is(err, ErrReleasePending) {
		c.cfg.Logger.Warn("lock released; the servers have not confirmed it yet",
			zap.String("path", a.lock.path), zap.Uint64("id", a.id))
		return nil
	}
	return err
}

// joined returns the errors as one that prints on one line. Either may be nil.
func joined(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}
