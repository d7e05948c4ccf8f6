// Package coordinator is the front door of zkgrant: distributed locks on
// ZooKeeper for programs that live in a select.
//
// [Connect] makes a [Coordinator], which keeps one ZooKeeper session for any
// number of locks. [Open] makes one without waiting for a server.
// A handle such as [Coordinator.Mutex] is small and reusable.
// Its Acquire asks for the lock and returns an [Acquisition] at once:
//
//	lock := c.Mutex("/locks/reindex").Acquire(ctx)
//	defer lock.Release()
//	defer job.Stop()
//	for {
//		select {
//		case <-ctx.Done():
//			return context.Cause(ctx) // ctx bounds the wait only: a holder ends by itself
//		case grant := <-lock.Granted():
//			job.Start(grant.Token)
//		case <-lock.Lost():
//			job.Stop() // from here on another contender may hold it
//		case <-lock.Done():
//			return lock.Err()
//		case <-job.Done():
//			return nil
//		}
//	}
//
// # Everyday
//
//   - [Lock.Do] runs a function under the lock, and cancels its context on a loss.
//   - [Lock.Acquire] asks and returns at once; [Acquisition.Wait] waits for the Grant, as often as it is asked.
//   - [Acquisition.Granted], [Acquisition.Lost] and [Acquisition.Done] are for a select.
//   - [Acquisition.Release] gives the lock back, in every state, and returns at once.
//   - [Election.Terms] is a loop over the times of leading.
//   - [Try], [WithMaxWait] and [WithData] change one acquisition.
//   - [WithSessionTimeout], [WithTickTime], [WithLogger], [WithSlog], [WithACL] and [WithTLS] change [Connect].
//   - [LostError] and the sentinels such as [ErrSessionExpired] say why a lock is gone.
//
// The kinds of lock; a path is one of them at a time ([ErrKind]):
//
//   - [Coordinator.Mutex]: one holder, in the order of arrival.
//   - [Coordinator.ReadWrite]: one writer, or any number of readers, in the order of arrival.
//   - [Coordinator.Semaphore]: a number of permits, in the order of arrival.
//   - [Coordinator.Election]: one leader, which says who it is, and which anybody may observe.
//   - [Coordinator.Multi]: several mutexes and sides of read/write locks, all or none.
//   - [Coordinator.Unfair]: a claim on a task: one node, and no queue.
//
// # Special
//
//   - [Coordinator.Events] is one stream of everything, for a service with one loop and any number of locks.
//   - [Passive] has it take no Grant; [WithHooks] is for metrics and traces.
//   - [Acquisition.Txn] and [Acquisition.Guard] write to ZooKeeper only while the lock is held.
//   - [Acquisition.Context] carries the ownership: with [Reentrant] a callee enters the lock again, without it that is [ErrDeadlock].
//   - [Acquisition.Valid] and [Acquisition.Deadline] tell for how long the lock is good.
//   - [DetectCrash] has a Grant tell of a holder that crashed.
//   - [Revocable] and [Coordinator.Revoke] ask a holder for its lock.
//   - [Lock.Queue] lists holders and waiters; [Election.Observe] tells who leads; [Coordinator.Locks] lists all locks.
//   - [Acquisition.Revoked] and [Acquisition.Position] tell of a wish to have the lock back, and how many stand ahead.
//   - [Election.Run] is leading by callbacks.
//   - [AsKazoo] stands in kazoo's queues; [AdoptSize] and [Semaphore.Resize] are for a size that changes.
//   - [WithProbeInterval], [WithLossOnSuspend] and [WithDialer] are for unusual networks.
//
// # Order
//
// For one acquisition there is at most one Grant, then at most one Lost, then
// Done. A Lost never comes for a Grant that was not taken: such a Grant is taken
// back first. State changes come first, then the event stream, then the channel.
// Hence Valid is false when a loss is heard.
//
// # What a loss means
//
// Suspended is not lost. While the connection is away, the lock stays held until
// the lease runs out, which is before the servers can admit another contender.
// After a pause of the process, ask [Acquisition.Valid], which is right at the
// moment it is asked. For effects on other systems, use the fencing token of the
// [events.Grant].
//
// The folder docs of the repository has a guide, the guarantees with their
// tests, and the limits.
package coordinator
