package recipes

// This file is about a lock that tells of crashes: whoever is granted learns whether a holder before has ended
// otherwise than by a release, and nobody has released since.
//
// A holder leaves a record, a node of its own that stays when its session ends. It is made in the transaction that
// claims the lock, so nobody is granted without it, and removed in the one that gives the node up, but only if
// the holder has released. All that counts is decided by the order of these transactions:
//
//  1. A claims: its node exists, and so does its record from then on.
//  2. A ends, in whatever way that is no release. Its node goes; nothing removes the record.
//  3. B claims, finds a record and reads it, behind that claim. It is not B's, whose node it would name; so somebody
//     has held the lock since the last release, and has not released.
//  4. B releases, and the record goes with its node. Or B crashes as well: then A's record stands until somebody
//     has released.
//
// A claim of unknown outcome is made again. If the record then names our own node it was made by the first, and nobody
// has held the lock in between, for we are the first in the queue, and no node bears a name twice.
//
// So every grant is claimed here, also of whoever is proven to be alone by what created its node, or to be the first by a
// floor. A claim proves all that those would.
//
// The record of a tenure in which nobody can have acted tells of no crash: that of a Grant which was not taken, or of a claim that
// was answered when the caller had given up. So it goes as after a release, if it is our own. Hence whoever gives up while a
// claim is under way waits for the answer, which tells whose it is. One who finds that somebody has crashed, and
// gives up, leaves the record to the next.
//
// Readers make no record, and remove none: what they do under the lock is no half of anything. While one holds no writer
// does, so a record that stands tells of a crash then, but for that of a writer in whose place the reader stands.

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

// reclaim makes a claim again of which nobody knows what became of it.
func (m *Machine) reclaim() []Effect {
	if m.state == Claiming {
		return m.claim()
	}
	return []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text, Held: true}}
}

// onJoined enters beside others of the session, who have seen to the record. Whether it goes is for all of them
// to say: a Grant that is not taken has nothing against it, and neither has one that never came: 1. A holds; 2. B enters
// again, and gives up before it hears that it has; 3. B's delete takes only B out, and A's is to take the record along.
func (m *Machine) onJoined(in Joined) []Effect {
	if !m.detect || in.Epoch != m.epoch || m.state != Creating {
		return m.onCreated(in.Created)
	}
	m.recorded = m.records()
	switch {
	case m.why != 0:
		m.clean = m.recorded
		return m.onCreated(in.Created)
	case m.stale(in.Fresh):
		return m.onCreated(in.Created)
	}
	m.own = Own{Name: in.Node, Owner: m.session, Token: in.Token}
	return m.grant(in.Abandoned)
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

// onDelayed waits until the lock-delay is over, and claims again; see lockdelay.go.
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

// leavesClean notes whether the record goes with the node of a caller that ends its tenure. A caller that has taken the Grant, and has
// released, has come to the end of what it did; and so has, in its stead, one that found the lock in order and took nothing. That is so
// behind a loss as well: the caller may have been quicker than the news of it.
func (m *Machine) leavesClean(in Withdrawn) {
	if m.records() && (m.state == Held && m.why == 0 || m.state == Lapsed) {
		m.clean = m.recorded
		if in.Taken {
			m.clean = in.Why == WhyReleased
		}
	}
}
