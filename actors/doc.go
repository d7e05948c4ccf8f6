// Package actors runs what package recipes decides. It is public for readers and may
// change without notice.
//
// # The runtime
//
// A [Loop] is the one mailbox of a session and of all its locks. Posting appends a
// function and never blocks. It starts a goroutine if none is draining the mailbox, and
// that goroutine ends when the mailbox is empty. So the functions are called one at a
// time, in the order in which they were posted, and an idle loop costs no goroutine. A
// caller of [Loop.Hand] lends an idle loop its own goroutine instead. The mailbox is
// unbounded on purpose: a ZooKeeper callback must not block, and a dropped message would
// be a lost lock. The protocol limits it to a few requests in progress per lock.
//
// A [Group] owns the goroutines of a loop. [Group.Close] returns when the last of them
// has ended.
//
// # The lock actor
//
// A [Lock] is one acquisition: the caller's channels, and a driver. The driver of most is
// a queuer: a [recipes.Machine], and the [Port] to ZooKeeper. Only the loop steps the
// machine. A mutex guards what the caller's goroutines may touch directly (taking back a
// grant on Release, reading Valid). It is not held during a request.
//
// A [Guest] is a lock without a machine, to which its [Host] grants the node of another
// lock. A [Lookout] is a lock whose holder learns of the contenders that it keeps out.
// Package cache of room coordinator builds cached locks from the two.
//
// # The stream
//
// A [Stream] delivers every event of every lock in one order, to any number of
// subscribers. A slow subscriber does not delay the others.
//
// A [Feed] delivers the events of some locks, of any streams, to one reader. A Grant that
// the reader receives is taken.
//
// This package does not know ZooKeeper. It declares the [Port] that it needs, and package
// session implements it.
package actors
