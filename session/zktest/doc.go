// Package zktest is a ZooKeeper server that runs inside the process of a test.
//
// It speaks the ZooKeeper client protocol well enough that the unmodified
// go-zookeeper client works against it: sessions and their expiry, ephemeral,
// sequential and container nodes, nodes with a time to live, watches that survive
// a reconnect, multi, check, sync, credentials and access lists, quotas on the
// number of nodes, and the four-letter words ruok, srvr and mntr.
//
// It is a test double and not a database. It has one server and no ensemble,
// keeps everything in memory, forgets it with Close, writes nothing to disk, and
// has neither encryption nor limits on who may connect. The engine it stands in
// for is Apache ZooKeeper.
//
// # What it is held to
//
// One script, in testdata/conformance, runs against it and against a real server of
// the 3.8 series, and both have to answer it frame for frame: every field of every
// Stat, error codes, zxids, and the order of events and answers. So a program that
// passes its tests here meets no other answers there, within what follows.
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
// [ZooKeeper34] and [ClickHouseKeeper] make it lack what other servers lack.
//
// Of quotas it knows the hard limit on the number of nodes, and does not keep
// count of what is used. Read-only servers, authentication by certificate and
// local sessions do not exist. TLS is the dialer's business: nothing here
// terminates it.
//
// It differs from a real server where that is an accident: children and the nodes
// of an ended session come in alphabetical order and not in any; a check outside of
// a multi is answered when it succeeds; whether a watch is armed is asked about
// one's own watches only; nothing that was sent behind a close is answered. In
// srvr and mntr latencies are 0, and packets sent are counted as frames.
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
// All timing is taken from package time, hence virtual inside a bubble. As with
// the real server a session ends at the first tick boundary that lies more than
// its timeout after the last frame the server read from its client, or with
// [Followers] after the leader heard of it. What is to be
// deleted for other reasons, an emptied container or a node that has outlived its
// time, goes at the next check; see [CheckInterval].
//
// # Order
//
// Requests of one connection are executed one after the other and answered in
// that order. A watch event is written before any reply that reflects the
// change. One connection's stalled peer holds up no other connection; while much
// is waiting for it, nothing more is read from it.
//
// # Faults
//
// [Server.Expire], [Server.Cut], [Server.CutAll], [Server.Down], [Server.Mute],
// [Server.MuteAll], [Server.Lag], [Server.Strand] and [Server.Wipe] break things
// from outside; [Server.Intercept] decides request by request.
// [Server.LimitNodes] makes a quota.
package zktest
