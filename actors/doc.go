// Package actors executes what package recipes decides. It is public so that it can be
// read, and may change without notice.
//
// # The runtime
//
// A [Loop] is the single mailbox of a session and all its locks. Posting appends a
// function and never blocks. If no goroutine is draining the mailbox, Post starts one,
// and it exits when the mailbox is empty. So the functions run one at a time, in the
// order they were posted, and an idle loop costs no goroutine. A caller of [Loop.Hand]
// lends an idle loop its own goroutine instead. The mailbox is unbounded on purpose: a
// ZooKeeper callback must not block, and a dropped message would mean a lost lock. The
// protocol bounds it: a lock has only a few requests in flight.
//
// A [Group] owns the goroutines of a loop. [Group.Close] returns once the last of them
// has exited.
//
// # The lock actor
//
// A [Lock] is one acquisition: the caller's channels and a driver. Most drivers are
// queuers: a [recipes.Machine] and its [Port] to ZooKeeper. Only the loop steps the
// machine. A mutex guards what callers touch directly, such as when Release takes back a
// Grant or Valid reads the state. It is never held during a request.
//
// A [Guest] is a lock without a machine: its [Host] grants it the node of another lock. A
// [Lookout] is a lock whose holder is notified of the contenders that it keeps out.
// Package coordinator/internal/cache builds cached locks from the two.
//
// # The stream
//
// A [Stream] delivers every event of every lock in one order, to any number of
// subscribers. A slow subscriber does not delay the others.
//
// A [Feed] delivers the events of selected locks, from any number of streams, to one
// reader. Receiving a Grant takes it.
//
// This package knows nothing of ZooKeeper. It declares the [Port] that it needs, and
// package session implements it.
package actors
