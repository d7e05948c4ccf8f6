// Package recipes decides. It holds the acquisition state machine and, for each
// kind of lock, the one rule that differs: who blocks me.
//
// Everything here is a pure value or a pure function: no goroutine, no channel,
// no clock, no I/O. A [Machine] is comparable; [Machine.Step] takes one [Input]
// and returns the next Machine and the [Effect] values to carry out. That is
// why a test can visit every interleaving of several contenders with every
// fault (see explore_test.go), and why a bug found there replays in a table.
//
// Messages in are in the past tense ([Created], [Listed], [Gone]): answers to
// earlier effects, news of the session, wishes of the caller. Effects out are in
// the imperative ([Create], [List], [Claim]): requests to ZooKeeper, and things
// to tell the caller.
//
// # States
//
//	       Idle
//	      /    \
//	Looking --> Creating <---------- requeue -----------+
//	            |      \                                |
//	            |       Recovering                      |
//	            v      /                                |
//	          Listing <---------> Waiting --------------+
//	            |                                       |
//	            v                                       |
//	          Claiming ---------------------------------+
//	            |
//	            v
//	          Held --> Lapsed
//	            |        |
//	            v        v
//	          Releasing ---> Over
//
// From every state that may have a node there is a way to Releasing, and from
// every other one to Over: a withdrawal, a refusal, the end of the session. An
// expired session sends those who still wait back to Idle.
//
// Looking is what Try does first. Recovering is a create whose reply was lost.
// Lapsed is a lock that was lost while a function still runs under it.
//
// # What makes a grant safe
//
// A listing, or the news that the node ahead has gone, may come from a replica
// that lags behind, or be older than the session. It is only a hint. Being first
// is stable, though: nobody can be inserted ahead, so a contender that once was
// first stays first for as long as its node exists. Hence every grant is
// claimed: one write that checks the own node. It went through the quorum, so it
// proves in one go that the session lives, that the node exists, and that the
// lease starts now.
//
// # Epochs
//
// An [Epoch] numbers the sessions of one coordinator and plays the part of a
// term: an answer from another epoch is never believed. What a create of a past
// epoch made is deleted all the same.
package recipes
