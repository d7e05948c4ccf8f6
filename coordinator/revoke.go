package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Revocable lets every client that may write to the lock's nodes request the lock with
// [Coordinator.Revoke]. The holder receives the request from [Acquisition.Revoked], and
// loses the lock with [ErrRevoked] if it has not released it by the deadline. A
// multi-lock is revocable if each member is, an unfair lock never ([ErrKind]).
func Revocable() LockOption { return lockOption(func(c *lockConfig) { c.revocable = true }) }

// Revoke asks every current holder for the lock, and returns nil when all are gone. A
// [Revocable] holder loses the lock at the end of the grace; a remaining node is deleted
// later.
//
// If ctx ends first, Revoke returns the cause and evicts no holder, but the request
// remains. [ErrNotHeld], [ErrNotRevocable], [ErrGrace], [ErrPath] and [ErrKind] mean that
// no request was made.
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
