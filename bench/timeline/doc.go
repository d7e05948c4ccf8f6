// Command timeline measures who knows what, and when, in a silent partition, and draws it.
//
//	bench/deps                     # Java, ZooKeeper and Curator, if they are not there
//	cd bench && go run ./timeline  # two minutes; writes timeline.json and timeline.svg, prints the figures
//	go run ./timeline -draw        # draws timeline.json again without measuring
//
// It shows when a holder hears that its lock is gone against when the next one is granted it, for Apache Curator's
// InterProcessMutex, go-zookeeper's zk.Lock and zkgrant's Mutex. In each run all three go through the same partition
// at the same moment, on one standalone server:
//
//  1. Of each library one contender takes a lock through a proxy, and another one, directly at the server, queues up
//     behind it. Each is a process of its own with a session of its own.
//  2. After a time of rest, which differs from run to run, the proxy cuts: every socket stays open and
//     nothing passes; who connects is accepted and hears nothing. This is the instant 0.
//  3. Much later it heals. What was held back arrives, as TCP would see to, and everybody learns how it went.
//
// A contender prints what its library tells it; all lines are stamped by the one clock of this program. When the
// server expired a session is what a client close to the server sees: the holder's node goes.
//
// Every library has its defaults, apart from the session timeout, which is the same for all, and what has no default:
// Curator's retry policy is ExponentialBackoffRetry(1000, 3), as in its documentation. (zkgrant is told the server's
// tick, which only matters if that is not ZooKeeper's default.) Curator tells LOST by a timer of its own, a session
// timeout after SUSPENDED, unless simulatedSessionExpirationPercent says otherwise. Its error policy is the standard
// one, in which SUSPENDED counts as an error too, but an InterProcessMutex does not act on it: the application has to.
// Curator's documentation advises it to take SUSPENDED for a loss. Then nobody overlaps in this scenario, and every
// dropped connection costs a lock. The picture shows that moment for all three.
package main
