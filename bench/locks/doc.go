// Command locks measures what a lock costs: zkgrant's Mutex, the locks of other
// libraries, and the bare client below them.
//
//	bench/deps                      # Java, ZooKeeper and the libraries, if missing
//	cd bench && go run ./locks      # half an hour; writes RESULTS.md, numbers and plots
//	go run ./locks -quick -o quick  # a shorter run, in less than five minutes
//	go run ./locks -distance        # only the part by distance; five minutes
//	go run ./locks -cached          # only cached locks; six minutes
//	go run ./locks -draw            # writes RESULTS.md and the plots without measuring
//
// # Libraries
//
// zkgrant, go-zookeeper's zk.Lock, Curator's InterProcessMutex and kazoo's Lock share one
// standalone ZooKeeper server; etcd's concurrency.Mutex uses a standalone etcd. Both
// servers keep their data on a RAM disk, if there is one, so that the disk does not
// matter. Every library runs in its own process, uses its language's means of concurrency
// (goroutines or threads), is used as documented, and is warmed up first. All sessions
// last 30 s, so that pings hardly ever disturb a measurement. The other settings are the
// defaults, except for logging, the stack size of threads, etcd's storage quota, and that
// Curator stays with the server that it was given.
//
// The bare client is not a lock. It sends the fewest requests that such a lock needs, on
// the same client as zkgrant: one Multi to enter and one Delete to leave. A handoff is a
// Delete, a watch event, and a Multi that checks the contender's own node. The bare
// client knows which node to watch; a lock has to find it.
//
// # Measurements
//
// Each part has several rounds, and each round starts with another library. A round's
// figure is the median of its measurements, or the 99th percentile where stated. The
// result is the median of the rounds. Memory is measured once.
//
//   - Uncontended cycle: one caller acquires and releases in a loop. A cycle ends when
//     the release returns. With zkgrant that is before the node is gone; "release
//     awaited" waits for that, too.
//   - Requests: what the server counts in that loop, divided by the cycles.
//   - CPU time: of the server's process and of the library's own, in that loop and in the
//     next one, as reported by the kernel, divided by the cycles (Linux only).
//   - Locks at once: that many callers in one session, each in a loop with its own lock.
//   - Handoff: a holder and that many waiters, all in one session of one process. (With
//     etcd each has its own lease, because in one lease they would be one contender.)
//     Once all of them wait, the lock is handed on repeatedly. The time is from before
//     the release to the next grant, both taken in that process. Bytes are those sent and
//     received by the process, counted at its sockets (Curator: what the kernel says the
//     process read and wrote). The server counts requests, and the watches that it
//     notified; etcd does not count watches.
//   - In another session: the same with two sessions that take turns. After three probe
//     intervals of waiting: only zkgrant is measured, because for the other libraries the
//     length of the wait makes no difference.
//   - Memory: a fresh process takes locks, each with its own path, and keeps them. The
//     figure is the heap after a garbage collection (kazoo: the memory of the process),
//     including the client library. With zkgrant it is taken once every node is watched,
//     some time after the grant, with Granted, Lost and Done in use.
//   - The session expires: while that many locks are held, another connection closes the
//     session, and the owner's connection is cut, as a server does when it expires a
//     session. The time is from the first loss to the last, as seen on the locks'
//     channels.
//
// # By distance
//
// All traffic goes through [ensemble.Proxy], which delays it by half a round trip each
// way, in order and without a rate limit. Locks are created, and contenders queue up,
// without a delay. Then the round trip is set to 0, 1, 5 and 20 ms. An echo through the
// proxy measures the actual round trip.
//
//   - Standalone server: the clients of all libraries are that far from their server.
//   - Beside a follower: the clients are near one of three servers, and the proxy is
//     between that server and its leader. The third server is near the leader, so the
//     leader commits without waiting for the distant one. With etcd the whole delay is in
//     one direction, which makes no difference to the clients ([peers.EtcdFollower]).
//   - Cost in round trips: the least-squares slope of the time over that of an echo. So
//     the computing time of the library and the proxy does not count.
//   - Awaited: zkgrant releases in the background; here the release is awaited. Cached:
//     coordinator.Cached.
//   - Permit: one of 4 of a semaphore. 8 locks: a multi-lock, all or none. Failover: a
//     leader resigns, and the time is until the only other candidate leads. Curator's are
//     InterProcessSemaphoreV2, InterProcessMultiLock and LeaderLatch.
//   - Consul is not measured: bench/deps does not fetch it.
//
// # Cached locks
//
// Measured near the servers. Allocations are those of the player's whole process. A
// library without cached locks does the same with its ordinary locks.
//
//   - 1,000 goroutines with one lock: each in a loop, in one session. For comparison: a
//     handoff with 1,000 waiters.
//   - Another session arrives: its lock is not cached. The time is from its Acquire to
//     its Grant, at a node that is kept idle, or while 64 goroutines use the lock. A
//     plain handoff goes to the only waiter, in another session.
//   - Two sessions, n times each: they take turns, each acquiring the lock n times in a
//     row. Locks in turn: each is used once.
//
// words.go defines the questions to the processes and their answers.
package main
