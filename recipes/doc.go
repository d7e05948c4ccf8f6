// Package recipes makes the decisions. It has the acquisition state machine and, for each
// kind of lock, the one rule that differs: who blocks me.
//
// Everything here is a plain value or a pure function: no goroutine, no channel, no clock,
// no I/O. A [Machine] is comparable, and a copy of it is another machine. [Machine.Step]
// takes one [Input], and returns the [Effect] values to execute. That is why a test can
// visit every interleaving of several contenders with every fault (see explore_test.go),
// and why a bug found there can be replayed in a table.
//
// Messages in are in the past tense ([Created], [Listed], [Gone]): answers to earlier
// effects, news of the session, requests of the caller. Effects out are in the imperative
// ([Create], [List], [Claim]): requests to ZooKeeper, and notifications for the caller.
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
// A contender whose node disappears before its grant queues again: each state in which it
// has a node has a way back to Creating. A withdrawal and a refusal lead to Releasing
// from every state that may have a node, and to Over from every other state. The end of
// a session sends its waiters back to Idle and its holders to Lapsed; what was releasing
// is Over.
//
// An unfair lock is one node, which one contender at a time owns. Its machine takes other
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
// that the node is its own, in Recovering or because the create did not answer
// everything. It goes through Claiming to Held, as in a queue.
//
// Looking is what Try does first. Recovering is a create whose reply was lost. A
// withdrawal while Creating cancels the create (Cancel): if it was not sent, nothing was
// created, and the acquisition is over. Advancing asks what it means that the node ahead
// is gone. Lapsed is a lost lock under which a function may still run: the node stays
// until Withdrawn reports that the function has returned. A caller without a function
// sends Withdrawn at once.
//
// A [Semaphore] has a queue like a mutex. Where a mutex would claim, or be granted by its
// create alone, the first in a semaphore's queue takes another way:
//
//	first in the queue --> Surveying <----> Full
//	                        |   ^             |
//	                        v   | stale       | changed
//	             Held <-- Entering <----------+ (by a survey)
//
// Surveying reads the size and the taken permits. Full waits until either changes.
// Entering trades the node in the queue for permits. That transaction proves everything
// that a grant needs, unless the proof is stale; then Claiming comes in between. If the
// answer to Enter is lost, the way is that of a lost create, Recovering and Claiming, and
// the GUID is searched for in both places.
//
// A [Multi] takes the way of a mutex, with a node in each of several queues. One
// transaction creates all nodes. The multi-lock is first when it is first in each queue.
// It lists again after each contender that it has waited for. If one of its nodes is
// gone, it gives up the others and creates all of them again.
//
// # What makes a grant safe
//
// A listing, or the news that the node ahead is gone, may come from a replica that lags,
// or may be older than the session. It is only a hint. But being first is stable: no
// contender can be inserted ahead. A contender that was first once stays first for as
// long as its node exists.
//
// Hence every grant rests on a write of its session, which went through the quorum. The
// write proves that the session is alive, that the node exists, and that the lease starts
// now. Usually that write is a claim, which checks the contender's own node. A session
// that has just written need not claim; see warmth.go. The create itself is enough if its
// answer proves that there was no other contender. For a semaphore, the write is the
// transaction that creates the permits.
//
// # What makes it fast
//
// An uncontended lock costs the one transaction that creates the node. The cost of a
// handoff does not depend on the length of the queue. A waiter remembers the nearest
// contenders ahead of it from its latest listing. When the node that it waits for is
// gone, the first of these cases applies:
//
//   - The node was the only one ahead: the waiter claims.
//   - Its owner left as a holder. The floor in the directory says so, and that no older
//     contender is left: the waiter enters, by the claim that was sent along.
//   - The next remembered node exists: the waiter watches it.
//   - Otherwise the waiter lists.
//
// A holder that had to wait writes the floor, in the transaction that deletes its node.
// The floor does not contain the node's number, because numbers start again at 0 after an
// empty directory was deleted. If another process overwrites the floor, that costs a
// listing. After a write node, only a listing counts: its owner may trade it for a read
// node of the same number, ahead of all waiters.
//
// # One node instead of a queue
//
// The contender that creates the node of an unfair lock holds the lock. The create proves
// everything that a grant needs: there is no other holder, the session is alive, and the
// lease starts now. A server does not create a node that exists, so there is no race. The
// machine ignores the names of the nodes, because all nodes of the lock have the same
// one. The session distinguishes them: a question about our node is about the one that we
// created, and Gone is never about an earlier one.
//
// All waiters wake when the node is gone. Each looks again after a random delay, and
// creates only if there is no node. So many waiters make as many reads, but few creates.
// A waiter that finds no node, and whose create still comes too late, waits longer
// (Pause).
//
// # What a crash leaves
//
// A lock may report crashes. Then every grant is claimed, even after a create that was
// alone. The claim creates a record in the same transaction, or finds one: that of a
// holder that never released. Only the transaction that deletes a releasing holder's node
// deletes the record; see crash.go. A record may require a lock-delay. After a crash,
// Claiming then alternates with Pausing until the delay is over; see lockdelay.go.
//
// # A node that is kept
//
// A holder may request news of the contenders that it keeps out; see [Contention]. So a
// process can keep the node of a cached lock: its contenders take turns under it, and a
// [Stay] decides whose turn it is, and when the node is given up.
//
// # What is explored
//
// The tests visit every interleaving of two or three contenders of each kind of lock with
// most pairs of faults (explore_test.go): replicas that lag, connections that break,
// answers that are lost or late, leases that run out, sessions that end, nodes that are
// deleted, contenders of other libraries, callers that give up, sizes that change. They
// check in every world:
//
//   - Contenders hold together only if they may, and a holder is notified before that
//     ends.
//   - Fencing tokens grow.
//   - No contender enters past an older one that excludes it, and no reader waits for
//     readers.
//   - A lock that reports crashes reports each one, and nothing else.
//   - From every world, a world is reachable in which everything is over and no node is
//     left.
//
// The session's part is explored, too, through the values that the session executes: the
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
