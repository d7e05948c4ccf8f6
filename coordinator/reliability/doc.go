// Package reliability is how the promises of package coordinator are measured.
//
// Its folders break things, each in its own way, and check the promises
// meanwhile:
//
//   - schedules: thousands of seeded schedules of faults in virtual time, frame
//     by frame
//   - faults: real servers that are killed, halted, partitioned or slow
//   - histories: what many workers saw, checked against a model of a fenced
//     mutex, and processes that are halted while they hold a lock
//   - upgrade: processes of an earlier version and of this one in one queue
//   - scale: many locks in one process: what each costs, and all of them lost at once
//   - child: a second process, for histories, scale and upgrade
//   - mutants: bugs put into the library on purpose, and the tests that find them
//
// The tests in them assert what may never happen, such as two valid holders.
// How long something took is no reason to fail; it is reported here, and
// `make reliability` runs all of them at full length and prints the table.
//
// # What the checkers excuse
//
// A branch of a checker that lets something pass is listed here with its reason. What is not listed is a failure.
//
// Schedules:
//
//   - a holder whose session is ended by decree, or whose node somebody deletes (excused): nobody can tell it in time
//   - a holder that reads its channels late (quick): Valid is checked all the same, only the time of the loss is not
//   - an end at the instant of the next grant (judgeTwo): a holder gives its node up when it is lost, and virtual time stands still
//   - the number in the queue of a semaphore's holder, and of an unfair lock (first): the one has left the queue, the other has none;
//     the requests that enter are checked instead (enters)
//   - watches of connections that have fallen behind (checkWatches): they do not know yet that nodes are gone; at the end none is left
//   - one watch more for each semaphore and session (lookouts), on its leases: it goes with the next lease; at the end none is left
//   - the lack of an Ended on a stream that was cut short by Close, or of an acquisition that came behind it: nobody was there to read
//   - ErrKind where kazoo's names meet others, ErrNotAcquired where a place was lost: these are promised
//   - an error of Close before everything heals: servers are away; its duration is checked all the same
//   - Resize and Revoke that end with their context, or with Close: they say so
//   - a record whose holder's fate nobody knows (judgeFates): a release without a connection may be executed or come too late
//   - in loops, two holders, permits and tokens while somebody deletes nodes (robbed): as above; the end and what is left are checked
//   - in loops and scenes, losses that the mishap itself causes (takes, expires): by their reason
//
// Faults:
//
//   - a lock that was lost before the fault began, and is counted apart (disturbed): the machine was busy
//   - in the slow trials, losses in a round in which a server without a lag was slow, too (busy): the same; who must lose is checked
//   - the loss of a holder that has released by itself, and of a session that was ended by hand (outlawed): it is no holder
//
// Histories:
//
//   - holds, and turns of a cached lock, behind the forced end of a session (end): nobody can be prepared for it
//   - holds of a halted process between its last check and its halt (halted): it counts as a holder up to what it last knew
//   - a Release behind which a loss is read (amend): it was lost before, and had given nothing back
//   - a crash too many where a session ended between a claim and its Grant (excused): the promise says so; no crash too few is excused
//   - the guard of one who was told of a loss, while its node stands and nobody was granted the lock since: Txn promises the node
package reliability
