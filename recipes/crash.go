package recipes

// This file is about a lock that tells of crashes. A Grant tells whether an earlier holder has ended without a release, if no
// holder has released since.
//
// A holder leaves a record: a node of its own that stays when its session ends. The transaction that claims the lock makes the
// record, so there is no grant without one. The transaction that deletes the holder's node removes the record, but only if the
// holder has released. The order of these transactions decides:
//
//  1. A claims: its node exists, and so does its record from then on.
//  2. A ends without a release. Its node goes, and nothing removes the record.
//  3. B claims, finds a record and reads it, behind that claim. The record does not name B's node, so it is not B's. Hence a
//     contender has held the lock since the last release, and has not released.
//  4. B releases, and the record goes with its node. Or B crashes as well: then A's record stands until a holder has released.
//
// A claim of unknown outcome is made again. If the record then names our own node, the first claim made it. There was no other
// holder in between: we are the first in the queue, and no node's name is used twice.
//
// So every grant of such a lock is claimed. This includes a contender that the answer to its create proves to be alone, and one
// that a floor proves to be the first. A claim proves all that these would.
//
// If no function can have acted under a Grant, its record tells of no crash. That is so for a Grant that was not taken, and for a
// claim that was answered after its caller gave up. Such a record goes as after a release, if it is our own. Hence a caller that
// gives up while a claim is under way waits for the answer, which tells whose record it is. A contender that finds the record of a
// crash, and gives up, leaves that record for the next one.
//
// Readers make no record and remove none: a crashed reader leaves no partial write. While a reader holds, no writer holds, so a
// record that stands then tells of a crash. Exception: the record of a writer in whose place the reader stands.

// records tells whether the machine's claims make a record.
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

// reclaim repeats a claim whose outcome is unknown.
func (m *Machine) reclaim() []Effect {
	if m.state == Claiming {
		return m.claim()
	}
	return []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text, Held: true}}
}

// onRecorded takes the answer to a claim with a record.
func (m *Machine) onRecorded(in Claimed) []Effect {
	switch {
	case !m.detect, m.state != Claiming:
		return nil
	case m.removed:
		return m.requeue()
	}
	m.recorded = m.recorded || m.records() && in.Abandoned == nil
	switch {
	case m.why != 0:
		m.clean = m.recorded
		return m.release()
	case m.stale(in.Fresh):
		return m.claim()
	default:
		return m.grant(in.Abandoned)
	}
}

// onDelayed waits until the lock-delay is over, and then claims again; see lockdelay.go.
func (m *Machine) onDelayed(in Delayed) []Effect {
	switch {
	case in.Epoch != m.epoch, m.state != Claiming:
		return nil
	case m.removed:
		return m.requeue()
	case m.why != 0:
		return m.release()
	case m.try:
		return m.fail(WhyBusy)
	default:
		m.state = Pausing
		return []Effect{Queue{Delay: in.For}, Pause{Epoch: m.epoch, For: in.For}}
	}
}

// leavesClean notes, when a caller ends its tenure, whether the record goes with the node. It goes if the caller has taken the
// Grant and has released, because then its work is done. It also goes if the caller found no crash and did not take the Grant. Both
// hold behind a loss, too: the caller may have been quicker than the news of it.
func (m *Machine) leavesClean(in Withdrawn) {
	if m.records() && (m.state == Held && m.why == 0 || m.state == Lapsed) {
		m.clean = m.recorded
		if in.Taken {
			m.clean = in.Why == WhyReleased
		}
	}
}
