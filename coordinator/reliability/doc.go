// Package reliability is how the promises of package coordinator are measured.
//
// Each folder breaks things in its own way, and checks the promises meanwhile:
//
//   - schedules: thousands of seeded schedules of faults in virtual time, frame
//     by frame
//   - faults: real servers that are killed, halted, partitioned or slow
//   - histories: what many workers saw on real servers, checked against a model
//     of a fenced lock, and processes that are halted while they hold one
//   - upgrade: processes of an earlier version and of this one in one queue
//   - scale: many locks in one process, and what each costs
//   - child: a second process, for histories, scale and upgrade
//   - mutants: bugs put into the library on purpose, and the tests that find them
//
// The tests assert what may never happen, such as two valid holders. A duration never
// fails a test; it is reported here. `make reliability` runs all tests at full length and
// prints the table.
//
// # What the checkers excuse
//
// A branch of a checker that lets something pass is listed here with its reason.
// Everything else is a failure.
//
// Schedules:
//
//   - a holder whose session is ended by decree, or the node deleted by another client
//     (excused): no library can tell it in time
//   - a holder that reads its channels late (quick): only the time of the loss is not
//     checked; Valid is
//   - an end at the instant of the next grant (judgeTwo): a lost holder gives its node
//     up, and virtual time stands still
//   - the number in the queue of a semaphore's holder, which has left the queue, and of
//     an unfair lock, which has none (first): the requests that enter are checked instead
//     (enters)
//   - watches of connections that have fallen behind (checkWatches): they do not know yet
//     that nodes are gone; no watch is left at the end
//   - one watch more for each semaphore and session (checkWatches), on its leases: it
//     goes with the next lease; no watch is left at the end
//   - the lack of an Ended on a stream that was cut short by Close, or of an acquisition
//     after that: the stream had no reader
//   - ErrKind where kazoo's names meet others, ErrNotAcquired where a place was lost: as
//     promised
//   - an error of Close while servers are away; its duration is checked
//   - Resize and Revoke that end with their context, or with Close: they say so
//   - a record whose holder's fate is unknown (judgeFates): a release without a
//     connection may be executed or come too late
//   - where frames are lost, two holders, permits and tokens while another client deletes
//     nodes (robbed): as above; the end and what is left are checked
//   - where frames are lost, losses that the mishap itself causes (takes): by their
//     reason
//
// Faults:
//
//   - a lock that was lost before the fault began, and is counted apart (disturbed): the
//     machine was busy
//   - in trials of slow servers, losses while a server without a lag was slow, too
//     (disturbed): the same
//   - the loss of a holder that has released by itself: it is none
//
// Histories:
//
//   - holds of a halted process between its last check and its halt (halted): it counts
//     as a holder up to what it last knew
//   - a Release after which a loss is read (amend): the lock was lost before, and the
//     Release gave nothing back
//   - the guard of an acquisition that was told of a loss, while its node stands and no
//     other was granted the lock since: Txn promises the node
package reliability
