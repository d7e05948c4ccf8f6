// Package actors runs what package recipes decides. It is public for readers and may
// change without notice.
//
// # The runtime
//
// A [Loop] is the one mailbox of a session and of all its locks. Posting appends a
// function and never blocks; it starts a goroutine if none is draining the mailbox, and
// that goroutine ends when the mailbox is empty. So the functions are called one at a
// time, in the order in which they were posted, and an idle loop costs no goroutine. A
// caller of [Loop.Hand] lends an idle loop its own goroutine instead. The mailbox is
// unbounded on purpose: a ZooKeeper callback must not block, and a dropped message would
// be a lost lock. The protocol bounds it, with a few requests under way per lock.
//
// A [Group] owns the goroutines of a loop. [Group.Close] returns when the last of them
// has ended.
//
// # The lock actor
//
// A [Lock] is one acquisition: a [recipes.Machine], the [Port] through which its requests
// reach ZooKeeper, and the caller's channels. Only the loop steps the machine. What the
// caller's goroutines may touch directly (taking back a grant on Release, reading Valid)
// is guarded by a mutex that is never held across anything that blocks.
//
// A [Guest] is a lock without a machine, to which its [Host] grants the node of another
// lock. A [Lookout] is a lock whose holder learns of the contenders that it keeps out.
// Package cache of room coordinator makes cached locks of the two.
//
// # The stream
//
// A [Stream] has every event of every lock in one order, for any number of subscribers.
// No subscriber can hold up another one.
//
// A [Feed] has the events of some locks, of any streams, for one reader. A Grant that the
// reader receives is taken.
//
// This package does not know ZooKeeper. It declares the Port that it needs, and package
// session satisfies it.
package actors
