package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// Unfair returns a handle for an unfair lock, such as a claim on a task: one ephemeral node at the path, held by the
// contender that creates it. There is no queue and no order. Waiters try again after a random time of up to a third of a
// second, so use it with few waiters, or with [Try]: the end is then a [*HeldError] that names the holder.
//
// [Acquisition.Guard] never succeeds; [Acquisition.Txn] works. Missing parents are made. A path of another kind of lock,
// or of a persistent node, is [ErrKind].
func (c *Coordinator) Unfair(path string, options ...LockOption) *Lock {
	return &Lock{c: c, path: path, family: familyUnfair, rule: recipes.Unfair{}, cfg: lockConfigOf(options)}
}
