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
//	Idle --> Looking --> Creating <--- requeue
//	                      |  |   \
//	                      |  |    Recovering
//	                alone |  v   /
//	                      |  Listing <-----> Waiting <---> Advancing
//	                      |        \            |           |  |
//	                      |         +------> Claiming <-----+  | floor
//	                      |                     |              |
//	                      +-----------------> Held <-----------+
//	                                         /  |
//	                                    Lapsed  |
//	                                         \  |
//	                                        Releasing --> Over
//
// Whoever has a node, and finds it gone before the grant, queues again: from Listing,
// Waiting, Advancing and Claiming there is a way back to Creating.
// From every state that may have a node there is a way to Releasing, and from
// every other one to Over: a withdrawal, a refusal, the end of the session. An
// expired session sends those who still wait back to Idle.
//
// An unfair lock is one node, which its contenders make in turn, and goes other ways:
//
//	Idle --> Creating --> Held
//	          |  ^  \
//	    taken |  |   Recovering
//	          v  |
//	         Looking <--> Waiting
//	             ^           | gone
//	             +-- Pausing <
//
// Who waits there has no node, and nothing to give up. Whoever finds, by Recovering or because the create
// did not tell all, that the node is its own, goes by Claiming to Held, as in a queue.
//
// Looking is what Try does first. Recovering is a create whose reply was lost. What is withdrawn while it is Creating takes the create
// back ([Cancel]): if that was not sent, nothing was made, and it is over.
// Advancing asks what it means that the node ahead is gone. Lapsed is a lock that was
// lost while a function still runs under it, or one with a record, until it is known how its caller has ended.
//
// A [Semaphore] has a queue like a mutex. Where a mutex would claim, and where its create
// alone would be enough, the first in a semaphore's queue goes another way:
//
//	first in the queue --> Surveying <----> Full
//	                        |   ^             |
//	                        v   | stale       | changed
//	  Held <-- Claiming <-- Entering <--------+ (by a survey)
//
// Surveying asks for the size and the taken permits, Full waits until either changes, Entering trades
// the node in the queue for permits. When the answer to that is lost the way is the one of a lost
// create, Recovering, and the GUID is looked for in both places.
//
// A [Multi] goes the way of a mutex, with a node in each of several queues that are made together. It is the first when it is
// so in all of them; behind each one that it has waited for it lists again; and when one node is gone it gives up the
// others, and makes all of them anew.
//
// # What makes a grant safe
//
// A listing, or the news that the node ahead has gone, may come from a replica
// that lags behind, or be older than the session. It is only a hint. Being first
// is stable, though: nobody can be inserted ahead, so a contender that once was
// first stays first for as long as its node exists. Hence every grant rests on a
// write of its own, which went through the quorum, and so proves in one go that
// the session lives, that the node exists, and that the lease starts now. That
// write is a claim, which checks the own node. Exceptions: a session that has written
// just now, see warmth.go; and the create itself, if its answer proves that nobody else was there. For a semaphore it is the
// transaction that makes the permits.
//
// # What makes it quick
//
// An uncontended lock costs the one transaction that creates the node, and a
// handoff does not depend on the length of the queue. A waiter remembers the
// nearest of those who stood ahead when it listed. When the one that it waits for
// goes,
//
//   - and it was the only one ahead, it is our turn: claim;
//   - and it left as a holder, its floor in the directory says so, and that nobody
//     older is left: enter, by the claim that was sent along;
//   - else the next one remembered is watched, if it stands;
//   - else, list.
//
// A floor is written by holders who have had to wait, in the transaction that
// removes their node. It names the node, for numbers begin with 0 again when an
// empty directory was removed. Anybody may overwrite it: that costs a listing.
// Behind a write node nothing but a listing counts, for its owner may trade it for a
// read node of the same number, ahead of all who wait.
//
// # One node instead of a queue
//
// Whoever creates the node of an unfair lock has it, and the create proves all that a grant
// needs: that nobody else has it, that the session lives, and when the lease starts. A server
// does not create what exists, so there is no race to lose, and the machine takes no notice
// of what the node is called: it deals in nodes, and not in names that one after
// the other bears. To tell them apart is left to whoever carries the effects out. What is asked about our node is about
// the one that we made, and Gone is not told of it when one before it has gone.
//
// All who wait are woken when the node goes. Each looks again after a random time and creates only
// what is not there, so that many waiters make as many reads, and few creates. Who finds nobody and comes too
// late all the same steps back further ([Pause]).
//
// # What a crash leaves
//
// A lock may tell of crashes. Then every grant is claimed, also that of a create that found nobody, and the claim makes a
// record in the same transaction, or finds one: that of somebody who held the lock and never released. The record goes in the
// transaction that removes the node of one who releases, and in no other; see crash.go.
//
// # What is explored
//
// The tests visit every interleaving of two or three contenders of each kind of lock with
// most pairs of faults (explore_test.go): replicas that lag, connections that break, answers
// that are lost or late, leases that run out, sessions that end, nodes that somebody deletes,
// contenders of other libraries, callers who give up, sizes that change. In every world at most those
// hold that may hold together, and whoever holds is told before that is not so any more; fencing
// tokens grow; nobody enters past somebody older who excludes it, and no reader waits for
// readers; a lock that tells of crashes tells of each, and of none that was none; from every world there is a way to one in which all is over and no node is left.
// What the session does on a machine's behalf is part of it, by the values that the session executes as well: the directory's data, and
// its renewal; several machines of one session that know of each other, share listings, claim together, and release and
// create in one transaction; a writer that becomes a reader. Rules
// that are taken away are reported (coordinator/reliability/mutants/testdata/explorer.txt, shellbugs_test.go).
//
// # Epochs
//
// An [Epoch] numbers the sessions of one coordinator and plays the part of a
// term: an answer from another epoch is never believed. What a create of a past
// epoch made is deleted all the same.
package recipes
