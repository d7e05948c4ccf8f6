// Package coordinator provides distributed locks on ZooKeeper. Grants and losses arrive
// on channels.
//
// [Connect], or [Open] without waiting for a server, returns a [Coordinator]: one
// ZooKeeper session, shared by all locks. Acquire asks for a lock and returns an
// [Acquisition] at once:
//
//	lock := c.Mutex("/locks/reindex").Acquire(ctx)
//	defer lock.Release()
//	defer job.Stop()
//	for {
//		select {
//		case <-ctx.Done():
//			return context.Cause(ctx) // ctx bounds the wait only
//		case grant := <-lock.Granted():
//			job.Start(grant.Token)
//		case <-lock.Lost():
//			job.Stop() // from here on another contender may hold it
//		case <-lock.Done():
//			return lock.Err()
//		}
//	}
//
// [Lock.Do] runs a function under the lock, [Lock.Hold] waits for the lock and returns
// it, and [Election.Terms] loops over times of leading. Every [Handle] has them.
//
// # Everyday
//
//   - Kinds of lock: [Coordinator.Mutex], [Coordinator.ReadWrite],
//     [Coordinator.Semaphore], [Coordinator.Election], [Coordinator.Multi],
//     [Coordinator.Unfair].
//   - Options of one acquisition: [Try], [MaxWait], [Data], [Permits].
//   - Options of a coordinator: [WithSessionTimeout], [WithTickTime], [WithSlog],
//     [WithACL], [WithTLS].
//
// # Special
//
//   - One loop for many locks: [Group]. Every event: [Coordinator.Events]. Metrics and
//     traces: [WithHooks].
//   - State in ZooKeeper: [Acquisition.Get], [Acquisition.Update], [Acquisition.Txn].
//   - Re-entry: [Reentrant], with [Acquisition.Context]; [Disown].
//   - Options of a lock: [Cached], [Revocable], [DetectCrash], [LockDelay].
//   - Looking: [Lock.Queue], [Lock.Watch], [Coordinator.Locks], [Coordinator.Poll],
//     [Election.Observe].
//
// # Promises
//
// One acquisition has at most one Grant, then at most one Lost, then Ended, and Done. A
// Lost comes only for a Grant that was taken. Valid changes before a Grant or a loss is
// heard.
//
// Suspended is not lost: without a connection the lock stays held until the lease runs
// out. After a pause of the process, ask [Acquisition.Valid]. For effects elsewhere, use
// the fencing token.
//
// See also the folder docs.
package coordinator
