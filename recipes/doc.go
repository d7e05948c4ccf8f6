// Package recipes makes the decisions. It contains the state machine of an acquisition
// and, for each kind of lock, the one rule that differs: who blocks me.
//
// Everything here is a plain value or a pure function: no goroutines, no channels, no
// clock, no I/O. A [Machine] is comparable, and a copy of it is another machine.
// [Machine.Step] takes one [Input] and returns the [Effect] values to execute. So a test
// can visit every interleaving of several contenders and every fault (see
// explore_test.go), and a bug found there can be replayed in a table.
//
// Inputs are named in the past tense ([Created], [Listed], [Gone]): answers to earlier
// effects, news of the session, requests of the caller. Effects are named in the
// imperative ([Create], [List], [Claim]): requests to ZooKeeper, and notifications for
// the caller.
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
// A contender whose node disappears before its grant queues again: every state with a
// node has a way back to Creating. A withdrawal or a refusal leads to Releasing from
// every state that may have a node, and to Over from all others. The end of a session
// sends waiters back to Idle, holders to Lapsed, and contenders that were releasing to
// Over.
//
// An unfair lock is a single node, owned by one contender at a time. Its machine takes
// other paths:
//
//	Idle --> Creating --> Held
//	          |  ^  \
//	    taken |  |   Recovering
//	          v  |
//	         Looking <--> Waiting
//	             ^           | gone
//	             +-- Pausing <
//
// A waiter for an unfair lock has no node, and nothing to give up. If a contender finds
// that the node is its own, in Recovering or because the answer to its create was
// incomplete, it goes through Claiming to Held, as in a queue.
//
// Try starts in Looking, except that of an unfair lock. Recovering follows a create whose
// reply was lost. A withdrawal in Creating cancels the create (Cancel): if it was not
// sent, nothing was created, and the acquisition is over. Advancing finds out whose turn
// it is once the node ahead is gone. Lapsed is a lost lock under which a function may
// still be running: the node stays until Withdrawn reports that the function has
// returned. A caller without a function sends Withdrawn at once.
//
// A [Semaphore] has a queue like a mutex. Where a mutex would claim, or be granted by its
// create alone, the first in a semaphore's queue takes another path:
//
//	first in the queue --> Surveying <----> Full
//	                        |   ^             |
//	                        v   | stale       | changed
//	             Held <-- Entering <----------+ (by a survey)
//
// Surveying reads the size and counts the permits in use. Full waits until either
// changes. Entering trades the node in the queue for permits. That transaction proves
// everything that a grant needs; if the proof is stale, Claiming comes in between. A lost
// answer to Enter is handled like that to a create, by Recovering and Claiming, and the
// GUID is searched for among the permits, too.
//
// A [Multi] takes the path of a mutex, with a node in each of several queues. One
// transaction creates all nodes. The multi-lock is first when it is first in every queue.
// It lists again after each contender that it waited for. If one of its nodes is gone, it
// gives up the others and creates all of them again.
//
// # What makes a grant safe
//
// A listing, or the news that the node ahead is gone, is only a hint: it may come from a
// lagging replica, or be older than the session. But being first is stable: no contender
// can be inserted ahead, so a contender that was first once stays first for as long as
// its node exists.
//
// Hence every grant rests on a write of its session through the quorum. The write proves
// that the session is alive, that the node exists, and that the lease starts now. Usually
// it is a claim, which checks the contender's own node. A session that has just written
// need not claim; see warmth.go. The create itself is enough if its answer proves that
// there was no other contender. For a semaphore, the write is the transaction that
// creates the permits.
//
// # What makes it fast
//
// An uncontended lock costs the one transaction that creates the node. The cost of a
// handoff does not depend on the length of the queue. A waiter remembers the nearest
// contenders ahead of it from its latest listing. When the node that it waits for is
// gone, the first of these cases applies:
//
//   - The node was the only one ahead. The waiter claims.
//   - Its owner left as a holder, and the floor in the directory says so: no older
//     contender is left. The waiter enters, with the claim that was sent along.
//   - The next remembered node exists. The waiter watches it.
//   - Otherwise, the waiter lists.
//
// A holder that had to wait writes the floor in the transaction that deletes its node.
// The floor is a zxid and not the node's number, because numbers restart at 0 when an
// empty directory was deleted. If another process overwrites the floor, that costs a
// listing. If the blocker was a write node, the waiter always lists: the owner may have
// traded it for a read node of the same number, ahead of all waiters.
//
// # One node instead of a queue
//
// The contender that creates the node of an unfair lock holds the lock. The create proves
// everything that a grant needs: there is no other holder, the session is alive, and the
// lease starts now. Servers refuse to create a node that exists, so there is no race. All
// nodes of the lock have the same name, so the machine cannot distinguish them by it. The
// session does: a request about our node concerns the one that we created, and Gone is
// never about an earlier one.
//
// All waiters wake when the node is gone. Each looks again after a random delay, and
// sends a create only if there is no node. So many waiters cause as many reads, but few
// creates. A waiter that finds no node, but whose create comes too late, waits longer
// (Pause).
//
// # What a crash leaves
//
// A lock may report crashes. Then every grant is claimed, even after a create that was
// alone. In the same transaction, the claim creates a record, or finds that of a holder
// that never released. The record is deleted only together with the node of a holder that
// releases; see crash.go. A record may require a lock-delay. After a crash, Claiming then
// alternates with Pausing until the delay is over; see lockdelay.go.
//
// # A node that is kept
//
// A holder may ask to be notified of the contenders that it keeps out; see [Contention].
// So a process can keep the node of a cached lock: the process's contenders take turns
// under it, and a [Stay] decides whose turn it is and when the node is given up.
//
// # What is explored
//
// The tests visit every interleaving of two or three contenders of each kind of lock with
// most pairs of faults (explore_test.go): lagging replicas, broken connections, lost and
// late answers, leases that run out, sessions that end, deleted nodes, contenders of
// other libraries, callers that give up, sizes that change. In every world they check:
//
//   - Contenders hold together only if they may, and a holder is notified of a loss
//     before another contender may enter.
//   - Fencing tokens grow.
//   - No contender enters past an older one that excludes it, and no reader waits for
//     readers.
//   - A lock that reports crashes reports every crash, and nothing else.
//   - From every world, it is possible to reach one in which everything is over and no
//     node is left.
//
// The session's part is explored, too, through the values that the session executes: the
// data of a directory and its renewal; several machines of one session that know of each
// other, share listings, claim together, and release and create in one transaction; a
// writer that becomes a reader. Remove any one of the rules, and the explorer reports a
// violation (coordinator/reliability/mutants/testdata/explorer.txt).
//
// # Epochs
//
// An [Epoch] numbers the sessions of one coordinator, like the term of a consensus
// protocol: an answer from another epoch is never believed. A node created in an earlier
// epoch is still deleted.
package recipes
