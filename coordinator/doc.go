// Package coordinator provides distributed locks on ZooKeeper. Grants and losses arrive
// on channels.
//
// [Connect] returns a [Coordinator]: one ZooKeeper session, shared by all locks. [Open]
// does the same without waiting for a server. Acquire requests a lock and returns an
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
//			job.Stop() // soon another contender may hold the lock
//		case <-lock.Done():
//			return lock.Err()
//		}
//	}
//
// [Lock.Do] runs a function under the lock, and [Lock.Hold] waits for the lock and
// returns it; every [Handle] has both. [Election.Terms] loops over terms of leadership.
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
//   - Inspection: [Lock.Queue], [Lock.Watch], [Coordinator.Locks], [Coordinator.Poll],
//     [Election.Observe].
//
// # Promises
//
// An acquisition has at most one Grant, then at most one Lost, then Ended, and Done. Lost
// follows only a Grant that was taken. Valid changes before a Grant or a Lost is
// delivered.
//
// A suspended connection is no loss: the lock stays held until the lease runs out. After
// a pause of the process, check [Acquisition.Valid]. To protect another system, pass it
// the fencing token.
//
// The folder docs has more.
package coordinator
