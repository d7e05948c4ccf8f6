// Package faultnet is a network for tests that breaks when and where it is told to.
//
// A [Network] stands between a client and a server, in memory or over TCP: the client dials with
// [Network.Dial]. It knows the frames of the ZooKeeper protocol, in both directions, and asks a [Rule]
// about each: a handshake, a request, the answer to one (with the operation that is answered), or a watch
// event. The rule lets it pass, loses it, holds it back, cuts the connection before or behind it, or
// swallows the direction from there on. Besides there are switches for all connections at once: a silent
// [Network.Partition], [Network.Refuse], [Network.Lag], [Network.Cut], and [Network.Heal].
//
// # What it is like
//
// A connection accepts what the client writes, as a socket does, and delivers it later or never. Frames
// keep their order. A read deadline works as on any connection; a write deadline matters only when a
// mebibyte is under way and nobody takes it. What is held or lagged when a connection ends is lost with it;
// what a partition keeps back is not, see [Network.Partition].
//
// Connections have two goroutines each, which end with the connection. They wait in a way that lets the
// clock of a testing/synctest bubble go on. TLS hides the frames: a connection that carries anything but
// the protocol in clear text is cut.
//
// Its tests run it in such bubbles, and over TCP against a server of package zktest.
package faultnet
