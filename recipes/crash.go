package recipes

// This file is about a lock that reports crashes. A Grant reports whether an earlier
// holder has ended without a release, if no holder has released since.
//
// A holder leaves a record: a node of its own that stays when its session ends. The
// transaction that claims the lock makes the record, so there is no grant without one.
// The transaction that deletes the holder's node removes the record, but only if the
// holder has released. The order of these transactions decides:
//
//  1. A claims: its node exists, and so does its record from then on.
//  2. A ends without a release. Its node goes, and nothing removes the record.
//  3. B claims, finds a record and reads it, after that claim. The record does not name
//     B's node, so it is not B's. Hence a contender has held the lock since the last
//     release, and has not released.
//  4. B releases, and the record is deleted with its node. Or B crashes as well: then A's
//     record stands until a holder has released.
//
// A claim of unknown outcome is made again. If the record then names our own node, the
// first claim made it. There was no other holder in between: we are the first in the
// queue, and no node's name is used twice.
//
// So every grant of such a lock is claimed. This includes a contender that the answer to
// its create proves to be alone, and one that a floor proves to be the first. A claim
// proves all that these would.
//
// The create does not make the record, though that would save a round trip:
//
//  1. H releases, and its record goes. A is the next in the queue, and has not claimed.
//  2. X creates its node and a record. It finds A, and waits.
//  3. A claims, and takes X's record for that of a crash.
//
// To tell the two apart, a record would have to name a node whose name and token are not
// known yet.
//
// If no function can have acted under a Grant, its record reports no crash. That is so
// for a Grant that was not taken, and for a claim that was answered after its caller gave
// up. Such a record goes as after a release, if it is our own. Hence a caller that gives
// up while a claim is in progress waits for the answer, which tells whose record it is. A
// contender that finds the record of a crash, and gives up, leaves that record for the
// next one.
//
// Readers make no record and remove none: a crashed reader leaves no partial write. While
// a reader holds, no writer holds, so a record that stands then reports a crash.
// Exception: the record of a writer in whose place the reader stands.

// records reports whether the machine's claims make a record.
func (m *Machine) records() bool { return m.recording() == RecordMade }

func (m *Machine) recording() Recording {
	switch {
	case !m.detect:
		return RecordNothing
	case m.rule.Exclusive():
		return RecordMade
	default:
		return RecordRead
	}
}

// leavesClean notes, when a caller ends its tenure, whether the record is deleted with
// the node. It goes if the caller has taken the Grant and has released, because then its
// work is done. It also goes if the caller found no crash and did not take the Grant.
// Both hold after a loss, too: the caller may have been faster than the news of it.
func (m *Machine) leavesClean(in Withdrawn) {
	if m.records() && (m.state == Held && m.why == 0 || m.state == Lapsed) {
		m.clean = m.recorded
		if in.Taken {
			m.clean = in.Why == WhyReleased
		}
	}
}
