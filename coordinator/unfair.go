package coordinator

import "github.com/zkgrant/zkgrant/recipes"

// Unfair returns a handle for an unfair lock, which is what a claim on a task is: one ephemeral
// node, at the path itself, and whoever creates it has it. It costs one request to acquire where the lock is
// free, and one to release. There is no queue and no order. All who wait look again when it goes, each after
// a random time of some milliseconds, which grows with every create that came too late, up to a third of a second;
// so it is for locks that few wait for at a time, or none: with [Try] nobody waits, and the
// end is a [*HeldError], which says who has it.
//
// The other promises hold as for a mutex: the Token is greater than that of any earlier Grant of another
// acquisition, a loss is told in time, and nothing is left behind. The nodes of one path bear one name,
// though, and this is what follows from that: [Acquisition.Guard] is of no use, while [Acquisition.Txn] is as good as for
// any lock, unless somebody else deletes our node by hand; and if somebody does that, and another
// contender makes the next node, within the one round trip that our Release takes, or within the first probe
// interval after our Grant, in which nobody tells us, and we release in it as well, it is that node which is deleted.
//
// The path must not be that of another kind of lock, or of any node that is there to stay: [ErrKind]. What is
// above it is made if it is missing.
func (c *Coordinator) Unfair(path string, options ...LockOption) *Lock {
	return &Lock{c: c, path: path, family: familyUnfair, rule: recipes.Unfair{}, cfg: lockConfigOf(options)}
}
