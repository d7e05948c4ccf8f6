// Command locks measures what a lock costs: zkgrant's Mutex, the locks of other libraries, and the bare client beneath.
//
//	bench/deps                   # Java, ZooKeeper, Curator, kazoo and etcd, as far as they are not there
//	cd bench && go run ./locks   # half an hour; writes RESULTS.md, the numbers and the plots
//	go run ./locks -quick -o quick   # the same with less of everything, in less than five minutes
//	go run ./locks -distance     # measures by distance only, in five minutes, and keeps the other results
//	go run ./locks -cached       # measures cached locks only, in six minutes, and keeps the other results
//	go run ./locks -draw         # writes RESULTS.md and the plots again, without measuring
//
// # Who
//
// zkgrant, go-zookeeper's zk.Lock, Curator's InterProcessMutex and kazoo's Lock share one standalone ZooKeeper server;
// etcd's concurrency.Mutex has a standalone etcd. Both servers keep their data on a RAM disk, if there is one, so that
// it is not the disk that is compared. Every library runs in a process of its own, uses its own language's way to do
// things side by side (goroutines or threads), is used as its documentation says, and is warmed up before it counts.
// All sessions last 30 s, so that pings hardly ever fall into a measurement; nothing else differs from the defaults but
// what is logged, how large the stack of a thread is, how much etcd may store, and that Curator stays with the server
// that it was given.
//
// The bare client is no lock. It is the fewest requests with which a lock of this kind could be made, on the client
// that zkgrant uses, too: one Multi to enter and one Delete to leave; for a handoff a Delete, a watch event, and a
// Multi that checks one's own node. It is told whom to watch, which a lock has to find out.
//
// # What
//
// Each part has several rounds, and another library is first in each. A round's figure is the median of what it
// measured (the 99th percentile where that is said), and the result is the median of the rounds. Memory is measured
// once.
//
//   - Uncontended cycle: one caller acquires and releases in a loop. It ends when the library lets the caller go on,
//     which for zkgrant is before the node is gone. "Release awaited" waits for that, too.
//   - Requests: what the server counts in that loop, divided by the cycles.
//   - Processor time: of the server's process and of the library's own, in that loop and in the next one, as the kernel
//     tells it, divided by the cycles (Linux only).
//   - Locks at once: so many callers in one session, each in a loop with a lock of its own.
//   - Handoff: a holder and so many waiters, all in one session of one process (with etcd each has a lease of its own,
//     for in one lease they would be one contender). When everybody has come to rest the lock is handed on, again and
//     again. The time is from before the release to the next one's grant, both taken in that process. Bytes are those
//     sent and received by the process, counted at its sockets (Curator: what the kernel says the process read and
//     wrote). The server counts requests, and watches that it told of something; etcd does not count the latter.
//   - In another session: the same with two sessions that take turns.
//   - Memory: locks, each with a path of its own, are taken and kept, in a fresh process. What is measured is the heap
//     after a collection (kazoo: what the process has in memory), the client library included; with zkgrant when every
//     node is watched, which comes some time after the grant.
//   - The session expires: so many locks are held, the session is closed by another connection, and the owner's is cut, as a server
//     does with that of a session that it expires. The time is from the first loss to the last, as a reader of the locks'
//     channels hears of it.
//
// # By distance
//
// Everything goes through [ensemble.Proxy], which delivers what it reads half a round trip later, each way, in order and
// without a limit to the rate. Locks are made, and contenders queue up, with the servers near; then the proxy makes the
// round trip 0, 1, 5 and 20 ms. An echo through it says what the round trip really is.
//
//   - Standalone server: the clients of all libraries are that far away from their server.
//   - Beside a follower: the clients are near one of three servers, and the proxy is between that one and its leader.
//     The third server is beside the leader, so that the leader commits without waiting for the far one. With etcd all of
//     the delay is on one way, which is the same to the clients ([peers.EtcdFollower]).
//   - Cost in round trips: the slope of the time over that of an echo, by least squares. What a library computes, and
//     what the proxy adds, does not count in it.
//   - Awaited: zkgrant's release goes on in the background, and here it is waited for. Cached: coordinator.Cached.
//   - Permit: one of 4 of a semaphore. 8 locks: a multi-lock, all or none. Failover: a leader resigns, and the time is
//     until the only other candidate leads. Curator's are InterProcessSemaphoreV2, InterProcessMultiLock and LeaderLatch.
//   - Consul is not measured: it is not among what bench/deps fetches.
//
// # Cached locks
//
// Near the servers. Allocations are those of the whole process that plays. Libraries that have no such lock do the same with theirs.
//
//   - 1,000 goroutines with one lock: each in a loop, in one session. Beside it stands a handoff with 1,000 waiting.
//   - Another session arrives: its lock is not cached. The time is from its Acquire to its Grant, at a node that is kept idle, or while 64
//     goroutines use the lock. A plain handoff is to the only one waiting, in another session.
//   - Two sessions, n times each: they have the lock in turn, each of them n times in succession. Locks in turn: each is used once.
//
// What each process is asked and answers is in words.go.
package main
