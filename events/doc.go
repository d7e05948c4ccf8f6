// Package events defines zkgrant's events, and the grammar of contenders' names in
// ZooKeeper.
//
// Every type here is a plain value. The package has no goroutine, channel or clock,
// imports only the standard library, and makes no decisions: package recipes has the
// rules, and package session has the time and the sockets.
//
// [Event] is sealed: only the types of this package implement it, so a type switch over
// all of them is complete. To add an event, declare its struct in event.go with an
// isEvent and an AcquisitionID method. Its comment says when it is sent, what it follows
// and what can follow it. If a later event can replace it while it waits for its reader,
// it needs a kind in actors/outbox.go.
//
// # Order
//
// One acquisition sends any number of [Queued] and [Requeued], at most one [Grant], any
// number of [Revoked] and [Contended], at most one [Lost], then exactly one [Ended], in
// this order. All of them carry its ID, which is unique in the process. The events of the
// session ([Connected], [Suspended], [Resumed], [SessionExpired]) carry no ID and concern
// every acquisition.
//
// # Contender names
//
// Other libraries may use the same lock directory. [ParseName] recognizes a contender by
// a name that ends in one of the eight forms in use. Overlooking a foreign holder would
// break exclusion. Counting a stray node as a contender would block every waiter forever.
package events
