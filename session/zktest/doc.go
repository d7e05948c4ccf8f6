// Package zktest is a ZooKeeper server that runs inside the process of a test.
//
// It speaks the ZooKeeper client protocol well enough that the unmodified
// go-zookeeper client works against it: sessions and their expiry, ephemeral,
// sequential and container nodes, nodes with a time to live, watches that survive
// a reconnect, multi, check, sync, credentials and access lists, quotas on the
// number of nodes, and the four-letter words ruok, srvr and mntr.
//
// It is a test double and not a database. It has one server and no ensemble, keeps
// everything in memory, forgets it with Close, writes nothing to disk, and has neither
// encryption nor limits on connections. The model is Apache ZooKeeper.
//
// # How close it is to a real server
//
// One script, in testdata/conformance, runs against it and against real servers of the
// 3.8 and 3.9 series. All have to answer it frame for frame, but for the answers that
// differ between versions: every field of every Stat, error codes, zxids, and the order of
// events and answers. So a program that passes its tests here gets the same answers from a
// real server, with the exceptions below.
//
// # What is missing
//
// The following are answered with [Unimplemented]. The go-zookeeper client sends
// none of them but reconfig.
//
//   - Persistent and recursive watches: addWatch, and the setWatches2 that arms
//     them again. Ordinary watches can be asked for and removed.
//   - A multi that reads, getEphemerals, getAllChildrenNumber, whoAmI.
//   - SASL other than DIGEST-MD5, and reconfig.
//
// [ZooKeeper34] and [ClickHouseKeeper] take away what those servers lack.
//
// Of quotas it knows the hard limit on the number of nodes, and does not keep count of
// what is used. It has no read-only servers, authentication by certificate or local
// sessions. It has no TLS: the dialer does that.
//
// It differs from a real server where the real one's behaviour is an accident:
//
//   - Children and the nodes of an ended session come in alphabetical order.
//   - A check outside of a multi is answered when it succeeds.
//   - A question whether a watch is armed is about the connection's own watches only.
//   - Requests that were sent after a close are not answered.
//   - In srvr and mntr latencies are 0, and packets sent are counted as frames.
//
// # Transports
//
// A server listens on a free TCP port of 127.0.0.1, and [Server.DialContext]
// hands out in-memory connections to the same server. The second form is what a
// testing/synctest bubble needs: a goroutine blocked in Accept or in a read
// from a socket is not durably blocked, so it would stop the fake clock. [New]
// recognises a bubble by that clock, which starts in the year 2000, and serves
// in memory only there. [InMemory] asks for the same outside a bubble.
//
// # Time
//
// All timing is taken from package time, hence virtual inside a bubble. As with a real
// server, a session ends at the first tick boundary that lies more than its timeout after
// the last frame that the server read from its client. With [Followers] the time counts
// from when the leader heard of it. An emptied container, or a node that has outlived its
// time, is deleted at the next check; see [CheckInterval].
//
// # Order
//
// Requests of one connection are executed one after the other and answered in that order.
// A watch event is written before any reply that reflects the change. A stalled peer of
// one connection holds up no other connection. While much is waiting for that peer,
// nothing more is read from it.
//
// # Faults
//
// [Server.Expire], [Server.Cut], [Server.CutAll], [Server.Down], [Server.Mute],
// [Server.MuteAll], [Server.Lag], [Server.Strand] and [Server.Wipe] break things
// from outside; [Server.Intercept] decides request by request.
// [Server.LimitNodes] makes a quota.
package zktest
