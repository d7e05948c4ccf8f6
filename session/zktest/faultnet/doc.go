// Package faultnet is a network for tests that breaks when and where it is told to.
//
// A [Network] stands between a client and a server, in memory or over TCP: the client dials with
// [Network.Dial]. It knows the frames of the ZooKeeper protocol, in both directions, and asks a [Rule]
// about each: a handshake, a request, the answer to one (with the operation that is answered), or a watch
// event. The rule lets the frame pass, loses it, holds it back, cuts the connection before or after it, or
// swallows the direction from there on. There are also switches for all connections at once: a silent
// [Network.Partition], [Network.Refuse], [Network.Lag], [Network.Cut], and [Network.Heal].
//
// # How it behaves
//
// A connection accepts what the client writes, as a socket does, and delivers it later or never. Frames
// keep their order. A read deadline works as on any connection. A write deadline matters only when a
// mebibyte is under way and is not read. What is held or lagged when a connection ends is lost with it.
// What a partition keeps back is not lost, see [Network.Partition].
//
// Each connection has two goroutines, which end with it. They wait in a way that lets the clock of a
// testing/synctest bubble go on. TLS hides the frames: a connection that carries anything but the protocol
// in clear text is cut.
//
// Its tests run it in such bubbles, and over TCP against a server of package zktest.
package faultnet
