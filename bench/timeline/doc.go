// Command timeline measures what each side of a silent partition knows at which time, and
// draws it.
//
//	bench/deps                     # Java, ZooKeeper and Curator, if they are missing
//	cd bench && go run ./timeline  # two minutes; writes timeline.json and timeline.svg
//	go run ./timeline -draw        # draws timeline.json again without measuring
//
// It shows when a holder learns that its lock is gone, compared with the grant of the
// next contender, for Apache Curator's InterProcessMutex, go-zookeeper's zk.Lock and
// zkgrant's Mutex. In each run all three go through the same partition at the same
// moment, on one standalone server:
//
//  1. For each library, one contender takes a lock through a proxy, and another one
//     queues after it, with a direct connection to the server. Each has its own process
//     and session.
//  2. After a pause, whose length differs from run to run, the proxy cuts the network:
//     every socket stays open, but nothing passes. A new connection is accepted, but gets
//     no answer. This is time 0.
//  3. Much later the proxy heals the network. The delayed data arrives, as with TCP, and
//     every contender learns what has happened.
//
// A contender prints what its library reports; this program timestamps all lines with one
// clock. A client near the server sees when the server has expired a session: the
// holder's node is gone.
//
// Every library uses its defaults, except for the session timeout, which is the same for
// all, and for settings without a default: Curator's retry policy is
// ExponentialBackoffRetry(1000, 3), as in its documentation. (zkgrant gets the server's
// tick, which matters only if it is not ZooKeeper's default.) Curator reports LOST by its
// own timer, a session timeout after SUSPENDED, unless simulatedSessionExpirationPercent
// says otherwise. Its error policy is the standard one, in which SUSPENDED also counts as
// an error. But an InterProcessMutex does not act on it; the application has to.
// Curator's documentation advises treating SUSPENDED as a loss. Then no two holders
// overlap in this scenario, but every dropped connection costs a lock. The picture shows
// that moment for all three.
package main
