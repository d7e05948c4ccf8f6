// Package zktest is a ZooKeeper server that runs inside the process of a test.
//
// It speaks the ZooKeeper client protocol well enough that the unmodified
// go-zookeeper client works against it: sessions and their expiry, ephemeral,
// sequential and container nodes, watches that survive a reconnect, multi,
// check, sync, credentials and access lists. It is a test double and keeps
// everything in memory; the engine it stands in for is Apache ZooKeeper.
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
// its timeout after the last frame the server read from its client.
//
// # Order
//
// Requests of one connection are executed one after the other and answered in
// that order. A watch event is written before any reply that reflects the
// change. One connection's stalled peer holds up no other connection.
//
// # Faults
//
// [Server.Expire], [Server.Cut], [Server.CutAll], [Server.Down], [Server.Mute],
// [Server.MuteAll], [Server.Lag], [Server.Strand] and [Server.Wipe] break things
// from outside; [Server.Intercept] decides request by request.
package zktest
