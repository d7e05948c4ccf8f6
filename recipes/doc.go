// Package recipes decides. It holds the acquisition state machine and, for each kind of
// lock, the one rule that differs: who blocks me.
//
// Everything here is a pure value or a pure function: no goroutine, no channel, no clock,
// no I/O. A [Machine] is comparable; [Machine.Step] takes one [Input] and returns the
// next Machine and the [Effect] values to carry out. That is why a test can visit every
// interleaving of several contenders with every fault (see explore_test.go), and why a
// bug found there replays in a table.
//
// Messages in are in the past tense ([Created], [Listed], [Gone]): answers to earlier
// effects, news of the session, what the caller wants. Effects out are in the imperative
// ([Create], [List], [Claim]): requests to ZooKeeper, and things to tell the caller.
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
// A contender whose node is gone before its grant queues up again: Listing, Waiting,
// Advancing and Claiming have a way back to Creating. A withdrawal, a refusal and the end
// of the session lead to Releasing from every state that may have a node, and to Over
// from every other one. The end of a session sends its waiters back to Idle.
//
// An unfair lock is one node, which one contender at a time has. Its machine goes other
// ways:
//
//	Idle --> Creating --> Held
//	          |  ^  \
//	    taken |  |   Recovering
//	          v  |
//	         Looking <--> Waiting
//	             ^           | gone
//	             +-- Pausing <
//
// A waiter of an unfair lock has no node, and nothing to give up. A contender may find
// that the node is its own, by Recovering or because the create did not tell all. It goes
// by Claiming to Held, as in a queue.
//
// Looking is what Try does first. Recovering is a create whose reply was lost. A
// withdrawal while Creating takes the create back ([Cancel]): if it was not sent, nothing
// was made, and the acquisition is over. Advancing asks what it means that the node ahead
// is gone. Lapsed is a lost lock under which a function may still run. The node stays
// until Withdrawn says that the function has returned. A caller without a function sends
// Withdrawn at once.
//
// A [Semaphore] has a queue like a mutex. The first in its queue goes another way, where
// a mutex would claim, or would be granted by its create alone:
//
//	first in the queue --> Surveying <----> Full
//	                        |   ^             |
//	                        v   | stale       | changed
//	             Held <-- Entering <----------+ (by a survey)
//
// Surveying asks for the size and the taken permits. Full waits until either changes.
// Entering trades the node in the queue for permits. That transaction proves all that a
// grant needs. Exception: if the proof is stale, Claiming comes in between. If the answer
// to Enter is lost, the way is that of a lost create, Recovering and Claiming, and the
// GUID is looked for in both places.
//
// A [Multi] goes the way of a mutex, with a node in each of several queues. One
// transaction makes all nodes. The multi-lock is the first when it is the first in each
// queue. Behind each contender that it has waited for it lists again. When one of its
// nodes is gone, it gives up the others, and makes all of them anew.
//
// # What makes a grant safe
//
// A listing, or the news that the node ahead is gone, may come from a replica that lags
// behind, or be older than the session. It is only a hint. But being first is stable: no
// contender can be inserted ahead. A contender that once was first stays first for as
// long as its node exists.
//
// Hence every grant rests on a write of its own, which went through the quorum. The write
// proves at once that the session lives, that the node exists, and that the lease starts
// now. Mostly that write is a claim, which checks the own node. Exception: a session that
// has just written need not claim, see warmth.go. Exception: the create itself is enough
// if its answer proves that there was no other contender. For a semaphore the write is
// the transaction that makes the permits.
//
// # What makes it quick
//
// An uncontended lock costs the one transaction that creates the node. The cost of a
// handoff does not depend on the length of the queue. A waiter remembers the nearest
// contenders ahead of it from its latest listing. When the node that it waits for goes,
// the first of these cases counts:
//
//   - The node was the only one ahead: the waiter claims.
//   - Its owner left as a holder. The floor in the directory says so, and that no older
//     contender is left: the waiter enters, by the claim that was sent along.
//   - The next remembered node stands: the waiter watches it.
//   - Else the waiter lists.
//
// A holder that had to wait writes the floor, in the transaction that removes its node.
// The floor does not have the node's number, because numbers begin with 0 again after an
// empty directory was removed. If another process overwrites the floor, that costs a
// listing. Behind a write node only a listing counts: its owner may trade it for a read
// node of the same number, ahead of all waiters.
//
// # One node instead of a queue
//
// The contender that creates the node of an unfair lock holds the lock. The create proves
// all that a grant needs: there is no other holder, the session lives, and the lease
// starts now. A server does not create a node that exists, so there is no race. The
// machine deals in nodes, and ignores their name, because all nodes of the lock have the
// same one. The session tells them apart: a question about our node is about the one that
// we made, and Gone never tells of an earlier one.
//
// All waiters are woken when the node goes. Each looks again after a random time, and
// creates only if there is no node. So many waiters make as many reads, and few creates.
// A waiter that finds no node, and still comes too late with its create, steps back
// further ([Pause]).
//
// # What a crash leaves
//
// A lock may tell of crashes. Then every grant is claimed, also that of a create which
// was alone. The claim makes a record in the same transaction, or finds one: that of a
// holder that never released. Only the transaction that removes a releasing holder's node
// removes the record; see crash.go. A record may ask for a lock-delay. Behind a crash,
// Claiming then goes by Pausing to Claiming, until the time is over; see lockdelay.go.
//
// # A node that is kept
//
// A holder may ask to learn of the contenders that it keeps out, see [Contention]. So a
// process can keep the node of a cached lock: its contenders take turns under it, and a
// [Stay] says whose turn it is, and when the node goes.
//
// # What is explored
//
// The tests visit every interleaving of two or three contenders of each kind of lock with
// most pairs of faults (explore_test.go): replicas that lag, connections that break,
// answers that are lost or late, leases that run out, sessions that end, nodes that are
// deleted, contenders of other libraries, callers that give up, sizes that change. They
// check in every world:
//
//   - Only contenders that may hold together do so, and a holder is told before that
//     ends.
//   - Fencing tokens grow.
//   - No contender enters past an older one that excludes it, and no reader waits for
//     readers.
//   - A lock that tells of crashes tells of each one, and of nothing else.
//   - There is a way to a world in which all is over and no node is left.
//
// The session's part is explored, too, by the values that the session executes: the
// directory's data, and its renewal; several machines of one session that know of each
// other, share listings, claim together, and release and create in one transaction; a
// writer that becomes a reader. The explorer reports a violation for each rule that is
// taken away (coordinator/reliability/mutants/testdata/explorer.txt).
//
// # Epochs
//
// An [Epoch] numbers the sessions of one coordinator, like a term: an answer from another
// epoch is never believed. A node that a create of a past epoch made is deleted all the
// same.
package recipes
