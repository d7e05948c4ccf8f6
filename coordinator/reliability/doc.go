// Package reliability measures the promises of package coordinator.
//
// Each folder breaks things in its own way, and checks the promises meanwhile:
//
//   - schedules: thousands of seeded schedules of faults in virtual time, frame
//     by frame
//   - faults: real servers that are killed, halted, partitioned or slow
//   - histories: what many workers saw on real servers, checked against a model
//     of a fenced lock, and processes that are halted while they hold one
//   - upgrade: processes of an earlier version and of this one in one queue
//   - scale: many locks in one process, and the cost of each
//   - child: a second process, for histories, scale and upgrade
//   - mutants: bugs put into the library on purpose, and the tests that find them
//
// The tests assert what must never happen, such as two valid holders. A duration never
// fails a test; it is reported here. `make reliability` runs all tests at full length and
// prints the table.
//
// # What the checkers excuse
//
// Each branch of a checker that lets something pass is listed here with its reason.
// Everything else is a failure.
//
// Schedules:
//
//   - a holder whose session is ended by decree, or whose node is deleted by another
//     client (excused): no library can notify it in time
//   - a holder that reads its channels late (quick): only the time of the loss is not
//     checked; Valid is
//   - an end at the instant of the next grant (judgeTwo): a lost holder releases its
//     node, and virtual time stands still
//   - the order of a semaphore's holder, which has left the queue, and of an unfair lock,
//     which has no queue (first): the requests that take permits are checked instead
//     (enters)
//   - watches of connections that lag behind (checkWatches): they do not know yet that
//     nodes are gone; no watch is left at the end
//   - one more watch for each semaphore and session (checkWatches), on its leases: it is
//     removed with the next lease; no watch is left at the end
//   - a missing Ended on a stream that Close cut short, or for an acquisition after that:
//     the stream had no reader
//   - ErrKind if kazoo's names meet others, and ErrNotAcquired if a place was lost: as
//     promised
//   - an error of Close while servers are away; its duration is checked
//   - Resize and Revoke that end with their context, or with Close: they report that
//   - a record whose holder's fate is unknown (judgeFates): a release without a
//     connection may be executed or come too late
//   - if frames are lost, two holders, permits and tokens while another client deletes
//     nodes (robbed): as above; the end and leftover nodes are checked
//   - if frames are lost, losses that the mishap itself causes (takes): by their reason
//
// Faults:
//
//   - a lock that was lost before the fault began, and is counted separately (disturbed):
//     the machine was busy
//   - in trials of slow servers, losses while a server without a lag was slow, too
//     (disturbed): for the same reason
//   - the loss of a holder that had released by itself: it is not a loss
//
// Histories:
//
//   - holds of a halted process between its last check and its halt (halted): it counts
//     as a holder up to what it last knew
//   - a Release after which a loss is read (amend): the lock was lost before, and the
//     Release released nothing
//   - the guard of an acquisition that was notified of a loss, while its node exists and
//     no other acquisition was granted the lock since: Txn guards by the node
package reliability
