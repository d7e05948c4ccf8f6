// Command timeline measures what each side knows, and when, in a silent partition, and
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
//  1. Of each library, one contender takes a lock through a proxy, and another one,
//     directly at the server, queues after it. Each has its own process and its own
//     session.
//  2. After a time of rest, which differs from run to run, the proxy cuts: every socket
//     stays open and nothing passes. A new connection is accepted and gets no answer.
//     This is the instant 0.
//  3. Much later the proxy heals. What was held back arrives, as with TCP, and every
//     contender learns what happened.
//
// A contender prints what its library reports; this program stamps all lines with one
// clock. A client close to the server sees when the server has expired a session: the
// holder's node is gone.
//
// Every library has its defaults, except for the session timeout, which is the same for
// all, and for what has no default: Curator's retry policy is
// ExponentialBackoffRetry(1000, 3), as in its documentation. (zkgrant gets the server's
// tick, which matters only if it is not ZooKeeper's default.) Curator reports LOST by its
// own timer, a session timeout after SUSPENDED, unless simulatedSessionExpirationPercent
// says otherwise. Its error policy is the standard one, in which SUSPENDED counts as an
// error, too. But an InterProcessMutex does not act on it: the application has to.
// Curator's documentation advises treating SUSPENDED as a loss. Then no two holders
// overlap in this scenario, and every dropped connection costs a lock. The picture shows
// that moment for all three.
package main
