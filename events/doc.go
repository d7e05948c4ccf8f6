// Package events is the vocabulary of zkgrant: what has happened, said in the past tense,
// and the grammar of the names that contenders bear in ZooKeeper.
//
// Every type here is a plain value. The package owns no goroutine, no channel and no
// clock, imports only the standard library, and decides nothing: rules live in package
// recipes, time and sockets in package session.
//
// [Event] is sealed: the types of this package are the only ones that implement it, so a
// type switch over all of them is complete. To add an event, declare its struct in
// event.go with an isEvent method and say in its comment when it is sent, what it follows
// and what can follow it.
//
// # Order
//
// For one acquisition the order is: any number of [Queued] and [Requeued], at most one
// [Grant], any number of [Revoked] and [Contended], at most one [Lost], then exactly one
// [Ended]. ID ties them together; it is unique in the process. Events about the session
// ([Connected], [Suspended], [Resumed], [SessionExpired]) carry no ID and concern every
// acquisition.
//
// # Contender names
//
// A lock directory may be shared with other libraries. [ParseName] takes a name for a
// contender if it ends in one of the eight forms in use. A foreign holder that is
// overlooked would break exclusion. A stray node that is taken for a contender would
// block every waiter for ever.
package events
