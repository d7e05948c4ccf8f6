package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Revocable lets every client that may write to the lock's nodes ask for the lock back, with [Coordinator.Revoke]. The holder is told by
// [Acquisition.Revoked] and in the stream. If it has not released by the deadline, it loses the lock, with [ErrRevoked]. A multi-lock is
// revocable if each member is, an unfair lock never ([ErrKind]).
func Revocable() LockOption { return lockOption(func(c *lockConfig) { c.revocable = true }) }

// Revoke asks every present holder of the lock to give it back within the grace, and returns nil when all of them are gone. A [Revocable]
// holder loses the lock at the end of the grace. A node that is left is removed later.
//
// When ctx ends it returns the cause and evicts no holder, but the request stands. No holder was asked after [ErrNotHeld],
// [ErrNotRevocable], [ErrGrace], [ErrPath] or [ErrKind]; some may have been after [ErrNoAuth]. See docs/kinds.md.
func (c *Coordinator) Revoke(ctx context.Context, path string, grace time.Duration) error {
	if err := c.checkPath(path); err != nil {
		return err
	}
	if grace < 0 {
		return fmt.Errorf("%w: %v for %s", ErrGrace, grace, path)
	}
	return c.whileOpen(ctx, func(bounded context.Context) error {
		err := c.session.Revoke(bounded, path, grace)
		if err != nil && bounded.Err() == nil && !errors.Is(err, ErrClosed) {
			return fmt.Errorf("zkgrant: revoking %s: %w", path, err)
		}
		return err
	})
}
