// Package faultnet provides a network for tests that breaks when and where a test wants.
//
// A [Network] is between a client and a server, in memory or over TCP: the client dials
// with [Network.Dial]. It parses the frames of the ZooKeeper protocol in both directions,
// and calls a [Rule] for each one: a handshake, a request, an answer (with its
// operation), or a watch event. The rule passes the frame, drops it, holds it, cuts the
// connection before or after it, or swallows everything in its direction from then on.
// Other methods affect all connections at once: [Network.Partition], which is silent,
// [Network.Refuse], [Network.Lag], [Network.Cut], and [Network.Heal].
//
// # How it behaves
//
// A connection accepts what the client writes, as a socket does, and delivers it later or
// never. Frames keep their order. A read deadline works as on any connection. A write
// deadline matters only when a mebibyte is in transit and is not read. Frames that are
// held or delayed when a connection ends are lost with it. Frames that a partition holds
// back are not lost; see [Network.Partition].
//
// Each connection has two goroutines, which end with it. They wait in a way that lets the
// clock of a testing/synctest bubble advance. TLS hides the frames: a connection that
// carries anything but the protocol in clear text is cut.
//
// Its tests run it in such bubbles, and over TCP against a server of package zktest.
package faultnet
