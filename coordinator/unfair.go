package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// Unfair returns a handle for an unfair lock: one ephemeral node at the path, held by the
// contender that creates it. Waiters retry after a random delay, so use it with few of
// them, or with [Try]. Another node at the path is [ErrKind].
func (c *Coordinator) Unfair(path string, options ...LockOption) *Lock {
	return c.handle(path, kindUnfair, recipes.Unfair{}, lockConfigOf(options))
}
