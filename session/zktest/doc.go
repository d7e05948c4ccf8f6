// Package zktest provides a ZooKeeper server that runs inside the process of a test.
//
// It implements enough of the ZooKeeper client protocol for the unmodified go-zookeeper
// client: sessions and their expiry, ephemeral, sequential and container nodes, nodes
// with a TTL, watches that survive a reconnect, multi, check, sync, credentials and
// access lists, quotas on the number of nodes, and the four-letter words ruok, srvr and
// mntr.
//
// It is a test double, not a database. It has one server and no ensemble, keeps
// everything in memory until Close, writes nothing to disk, and has neither encryption
// nor limits on connections. The model is Apache ZooKeeper.
//
// # How close it is to a real server
//
// One script, in testdata/conformance, runs against it and against real servers from
// 3.4 to 3.9. All of them must give the same answers, frame for frame, except
// where versions differ: every field of every Stat, error codes, zxids, and the order of
// events and answers. So a program whose tests pass here gets the same answers from a
// real server, with the exceptions below.
//
// # What is missing
//
// The following are answered with [Unimplemented]. The go-zookeeper client sends none of
// them except reconfig.
//
//   - Persistent and recursive watches: addWatch, and the setWatches2 that arms them
//     again. Ordinary watches can be queried and removed.
//   - A multi that reads, getEphemerals, getAllChildrenNumber, whoAmI.
//   - SASL other than DIGEST-MD5, and reconfig.
//
// [ZooKeeper34] and [ClickHouseKeeper] remove what those servers lack.
//
// Of quotas, it supports the hard limit on the number of nodes, and does not count usage.
// It has no read-only servers, authentication by certificate or local sessions. It has no
// TLS: the dialer provides that.
//
// It differs from a real server where the real one's behavior is accidental:
//
//   - Children, and the nodes of an ended session, are in alphabetical order.
//   - A check outside a multi is answered when it succeeds.
//   - A query whether a watch is armed covers the connection's own watches only.
//   - Requests that were sent after a close are not answered.
//   - In srvr and mntr, latencies are 0, and packets sent are counted as frames.
//
// # Transports
//
// A server listens on a free TCP port of 127.0.0.1, and [Server.DialContext] returns
// in-memory connections to the same server. A testing/synctest bubble needs the latter: a
// goroutine blocked in Accept or in a read from a socket is not durably blocked, so it
// would stop the fake clock. [New] recognizes a bubble by that clock, which starts in the
// year 2000, and then serves in memory only. [InMemory] does so outside a bubble.
//
// # Time
//
// All times come from package time, so they are virtual inside a bubble. As with a real
// server, a session ends at the first tick boundary that is more than its timeout after
// the last frame that the server read from its client. With [Followers], the time counts
// from when the leader learned of it. An emptied container, or a node whose TTL is over,
// is deleted at the next check; see [CheckInterval].
//
// # Order
//
// Requests of one connection are executed one after another, and answered in that order.
// A watch event is written before any reply that reflects the change. A stalled peer of
// one connection does not delay other connections. While many bytes wait for that peer,
// the server reads nothing more from it.
//
// # Faults
//
// [Server.Expire], [Server.Cut], [Server.CutAll], [Server.Down], [Server.Mute],
// [Server.MuteAll], [Server.Lag], [Server.Strand], [Server.LoseQuorum] and [Server.Wipe]
// break things from outside; [Server.Intercept] decides request by request.
// [Server.LimitNodes] sets a quota.
package zktest
