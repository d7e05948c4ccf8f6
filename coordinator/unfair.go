package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// Unfair returns a handle for an unfair lock: one ephemeral node at the path, held by
// the contender that creates it. Waiters try again after a random time, so use it with
// few of them, or with [Try]. A path with another node is [ErrKind].
func (c *Coordinator) Unfair(path string, options ...LockOption) *Lock {
	return c.handle(path, kindUnfair, recipes.Unfair{}, lockConfigOf(options))
}
