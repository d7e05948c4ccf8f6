// Package coordinator is the front door of zkgrant: distributed locks on
// ZooKeeper for programs that live in a select.
//
// [Connect] makes a [Coordinator] ([Open] does without waiting for a server), which keeps one ZooKeeper session for any
// number of locks. A handle such as [Coordinator.Mutex] is cheap and reusable;
// its Acquire asks for the lock and returns an [Acquisition] at once:
//
//	lock := c.Mutex("/locks/reindex").Acquire(ctx)
//	defer lock.Release()
//	for {
//		select {
//		case grant := <-lock.Granted():
//			job.Start(grant.Token)
//		case lost := <-lock.Lost():
//			job.Stop()
//			log.Println("lost:", lost.Reason)
//		case <-lock.Done():
//			job.Stop()
//			return lock.Err()
//		}
//	}
//
// [Lock.Do] runs a function under the lock; [Coordinator.Events] is one stream
// of everything, for a service with one loop and any number of locks.
//
// # Kinds of lock
//
//   - [Coordinator.Mutex]: one holder at a time, in the order of arrival.
//   - [Coordinator.ReadWrite]: one writer or any number of readers, in the order of arrival. A writer
//     may become a reader without letting another one in between.
//   - [Coordinator.Semaphore]: a number of permits, several of which may be taken together, in the order of arrival.
//   - [Coordinator.Election]: one leader at a time, which says who it is, and which anybody may observe.
//   - [Coordinator.Multi]: several mutexes and sides of read/write locks together, or none of them.
//   - [Coordinator.Unfair]: whoever is quickest, as for claims on tasks. It costs one node, and has no queue.
//
// A path is one of these at a time, which is [ErrKind] wherever it is seen. Queue shows who holds one and who waits for it.
//
// # Order
//
// For one acquisition there is at most one Grant, then at most one Lost, then
// Done. A Lost never comes for a Grant that was not taken: such a Grant is taken
// back first. State changes come first, then the event stream, then the channel;
// so whoever hears of a loss finds Valid false already.
//
// # Who holds it already
//
// The ownership is in the context: asking for a lock with an [Acquisition.Context] of the
// one who holds it enters it once more, if the handle is [Reentrant], and is [ErrDeadlock]
// at once if not. All who are in have the same node and token, and nobody else is let
// in before the last of them is released.
//
// # What a crash leaves behind
//
// With [DetectCrash] a Grant tells of a holder before who has never released, so that what he may have left half done is
// repaired first.
//
// # What a loss means
//
// Suspended is not lost: while the connection is away the lock stays held until
// the lease runs out, which is before the ensemble can end the session and let
// somebody else in. After a pause of the process, ask [Acquisition.Valid], which
// is right at the moment it is asked. For effects on other systems use the
// fencing token of the [events.Grant]. State that is kept in ZooKeeper itself is written
// with [Acquisition.Txn], which needs no clock.
package coordinator
