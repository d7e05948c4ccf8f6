// Command locks measures what a lock costs: zkgrant's Mutex, the locks of other
// libraries, and the bare client below them.
//
//	bench/deps                   # Java, ZooKeeper, Curator, kazoo and etcd, if they are missing
//	cd bench && go run ./locks   # half an hour; writes RESULTS.md, the numbers and the plots
//	go run ./locks -quick -o quick   # the same with less of everything, in less than five minutes
//	go run ./locks -distance     # measures by distance only, in five minutes, and keeps the other results
//	go run ./locks -cached       # measures cached locks only, in six minutes, and keeps the other results
//	go run ./locks -draw         # writes RESULTS.md and the plots again, without measuring
//
// # Libraries
//
// zkgrant, go-zookeeper's zk.Lock, Curator's InterProcessMutex and kazoo's Lock share one
// standalone ZooKeeper server; etcd's concurrency.Mutex has a standalone etcd. Both
// servers keep their data on a RAM disk, if there is one, so that the disk is not
// compared. Every library runs in its own process, uses its own language's means of
// concurrency (goroutines or threads), is used as its documentation says, and is warmed
// up before it counts. All sessions last 30 s, so that pings hardly ever fall into a
// measurement. The other settings are the defaults. Exceptions: what is logged, the stack
// size of a thread, how much etcd may store, and that Curator stays with the server that
// it was given.
//
// The bare client is not a lock. It makes the fewest requests that a lock of this kind
// could make, on the same client as zkgrant: one Multi to enter and one Delete to leave.
// A handoff is a Delete, a watch event, and a Multi that checks the contender's own node.
// The bare client knows which node to watch; a lock has to find it.
//
// # Measurements
//
// Each part has several rounds, and each round starts with another library. A round's
// figure is the median of what it measured, or the 99th percentile where it says so. The
// result is the median of the rounds. Memory is measured once.
//
//   - Uncontended cycle: one caller acquires and releases in a loop. A cycle ends when
//     the library lets the caller go on. With zkgrant that is before the node is gone;
//     "release awaited" waits for that, too.
//   - Requests: what the server counts in that loop, divided by the cycles.
//   - Processor time: of the server's process and of the library's own, in that loop and
//     in the next one, as the kernel reports it, divided by the cycles (Linux only).
//   - Locks at once: that many callers in one session, each in a loop with its own lock.
//   - Handoff: a holder and that many waiters, all in one session of one process. (With
//     etcd each has its own lease, as in one lease they would be one contender.) Once all
//     of them wait, the lock is handed on, again and again. The time is from before the
//     release to the next grant, both taken in that process. Bytes are those sent and
//     received by the process, counted at its sockets (Curator: what the kernel says the
//     process read and wrote). The server counts requests, and the watches that it
//     notified; etcd does not count watches.
//   - In another session: the same with two sessions that take turns. After three probe
//     intervals of waiting: only zkgrant is measured, because the other libraries do the
//     same after any wait.
//   - Memory: locks, each with its own path, are taken and kept, in a fresh process. The
//     figure is the heap after a collection (kazoo: the memory of the process), the
//     client library included. With zkgrant it is taken when every node is watched, which
//     comes some time after the grant, and Granted, Lost and Done are in use.
//   - The session expires: that many locks are held, another connection closes the
//     session, and the owner's connection is cut, as a server does when it expires a
//     session. The time is from the first loss to the last, as a reader of the locks'
//     channels sees it.
//
// # By distance
//
// Everything goes through [ensemble.Proxy], which delivers what it reads half a round
// trip later, each way, in order and without a limit to the rate. Locks are made, and
// contenders queue up, with the servers near. Then the proxy makes the round trip 0, 1, 5
// and 20 ms. An echo through the proxy measures the real round trip.
//
//   - Standalone server: the clients of all libraries are that far from their server.
//   - Beside a follower: the clients are near one of three servers, and the proxy is
//     between that server and its leader. The third server is beside the leader, so that
//     the leader commits without waiting for the far one. With etcd all of the delay is
//     on one way, which is the same to the clients ([peers.EtcdFollower]).
//   - Cost in round trips: the slope of the time over that of an echo, by least squares.
//     So the computing time of the library, and of the proxy, does not count.
//   - Awaited: zkgrant's release goes on in the background, and here it is awaited.
//     Cached: coordinator.Cached.
//   - Permit: one of 4 of a semaphore. 8 locks: a multi-lock, all or none. Failover: a
//     leader resigns, and the time is until the only other candidate leads. Curator's are
//     InterProcessSemaphoreV2, InterProcessMultiLock and LeaderLatch.
//   - Consul is not measured: bench/deps does not fetch it.
//
// # Cached locks
//
// Near the servers. Allocations are those of the player's whole process. A library
// without cached locks does the same with its own locks.
//
//   - 1,000 goroutines with one lock: each in a loop, in one session. For comparison: a
//     handoff with 1,000 waiters.
//   - Another session arrives: its lock is not cached. The time is from its Acquire to
//     its Grant, at a node that is kept idle, or while 64 goroutines use the lock. A
//     plain handoff goes to the only waiter, in another session.
//   - Two sessions, n times each: they take turns, each with n locks in succession. Locks
//     in turn: each is used once.
//
// words.go has the questions and the answers of the processes.
package main
