package recipes

import "github.com/zkgrant/zkgrant/events"

// What the machine does about wishes of the caller and news of the session.

func (m *Machine) onStarted(in Started) []Effect {
	if m.started || m.state == Over {
		return nil
	}
	m.started, m.try, m.keep, m.strict, m.detect = true, in.Try, in.Keep, in.Strict, in.Detect
	return m.begin()
}

// onWithdrawn takes the one way out that every state shares: whatever may exist
// is removed, and what is under way is awaited first if only its answer tells
// what that is.
func (m *Machine) onWithdrawn(in Withdrawn) []Effect {
	if m.why != 0 && m.state != Lapsed || m.state == Over {
		return nil
	}
	m.leavesClean(in)
	if m.why == 0 {
		m.why = in.Why
	}
	var effects []Effect
	switch m.state {
	case Idle, Looking:
		return m.over()
	case Creating:
		// If it was sent, its answer tells what there is to delete.
		effects = []Effect{Cancel{Epoch: m.epoch}}
	case Recovering, Entering:
		// The answer under way tells what there is to delete.
	default:
		switch {
		case m.removed && !m.several():
			return m.over()
		case m.state == Claiming && m.records():
			// The answer tells whether the record is ours.
		default:
			effects = m.release()
		}
	}
	if !m.up {
		// Nobody can say how long the connection will be away. Nothing is held,
		// and the caller need not wait for the node to go.
		return m.finish(effects)
	}
	return effects
}

func (m *Machine) onOpened(in Opened) []Effect {
	m.epoch, m.session, m.up = in.Epoch, in.Session, true
	if m.state == Idle && m.started {
		return m.begin()
	}
	return nil
}

// onSuspended is the loss of a lock that is held strictly. Otherwise it lets a
// caller go who only waits for the node to be removed. Of a lease that has run out
// already nothing more will be heard: 1. a waiter's lease runs out, which is no
// matter; 2. it is withdrawn, and the delete is under way; 3. the connection goes,
// perhaps for hours.
func (m *Machine) onSuspended() []Effect {
	m.up = false
	m.permits.doubted = m.permits.doubted || m.state == Surveying // see there
	switch {
	case m.state == Held && m.strict:
		return m.lose(events.ReasonSuspended)
	case m.why != 0 && m.state != Lapsed:
		return m.finish(nil)
	default:
		return nil
	}
}

// onReconnected verifies what watches should have told: their events are
// replayed in any order, and some servers and some moments lose them.
func (m *Machine) onReconnected() []Effect {
	m.up = true
	switch {
	case m.state == Waiting:
		return m.list()
	case m.state == Full:
		return m.survey()
	case m.state == Surveying:
		m.permits.doubted = true // what has made it the first may have been heard on a connection between the two
		return nil
	case m.state == Advancing:
		// The answer may have come on the connection before, and be told only now. That
		// the next one stands is then no news of a watch.
		m.older[1] = ""
		return nil
	case m.state == Held && !m.verifying:
		m.verifying = true
		return []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text, Held: true}}
	default:
		return nil
	}
}

func (m *Machine) onLeaseRanOut() []Effect {
	switch {
	case m.state == Held:
		return m.lose(events.ReasonLeaseRanOut)
	case m.why != 0 && m.state != Lapsed:
		return m.finish(nil) // nothing is held; the caller has waited long enough
	default:
		return nil
	}
}

// onExpired starts over if the caller still waits, and ends otherwise: a dead
// session has no nodes.
func (m *Machine) onExpired() []Effect {
	place := m.own.Name.Text != ""
	m.epoch, m.session, m.up = 0, 0, false
	m.permits.entered = false
	if _, ok := m.rule.(Multi); ok {
		m.own = Own{} // none of them is left
	}
	switch {
	case m.state == Held:
		m.removed = true
		return m.lose(events.ReasonSessionExpired)
	case m.state == Lapsed:
		m.removed = true
		return nil
	case m.state == Over || m.state == Idle:
		return nil
	case m.why != 0:
		return m.over()
	}
	effects := m.begin()
	if place {
		effects = append(effects, Requeue{})
	}
	return effects
}

// onAskedBack passes the wish on: it is the caller who decides. A node that somebody wrote to
// is still there, and so is the lock.
//
// Of several wishes the one counts that leaves the least time, and the caller is told of it when it comes. Wishes that leave
// more, or any time, say nothing new. A wish that came before the Grant is told with it.
func (m *Machine) onAskedBack(in AskedBack) []Effect {
	if in.Epoch != m.epoch || m.own.Name.Text == "" || in.Node != m.own.Name.Text || m.why != 0 {
		return nil
	}
	sooner := in.By != 0 && (m.by == 0 || in.By < m.by)
	if m.asked && !sooner {
		return nil
	}
	m.asked = true
	if sooner {
		m.by = in.By
	}
	if m.state != Held {
		return nil
	}
	return []Effect{Revoke{By: m.by}}
}

// onOverdue is the loss of a lock that was not given back in time. Whoever has released it meanwhile, or lost it, has nothing
// more to lose.
func (m *Machine) onOverdue(in Overdue) []Effect {
	if m.state != Held || m.by == 0 || in.By < m.by {
		return nil
	}
	return m.lose(events.ReasonRevoked)
}

func (m *Machine) onGone(in Gone) []Effect {
	if in.Epoch != m.epoch || m.epoch == 0 {
		return nil
	}
	own := in.Node == m.own.Name.Text
	switch {
	case own && m.state == Held:
		m.removed = true
		return m.lose(events.ReasonNodeRemoved)
	case own && (m.state == Waiting || m.state == Full || m.state == Pausing):
		return m.requeue()
	case own && (m.state == Surveying || m.state == Listing || m.state == Advancing || m.state == Claiming || m.state == Lapsed):
		m.removed = true // the answer under way may be older than this
		return nil
	case m.state == Waiting && in.Node == m.older[0]:
		return m.passed()
	case m.state == Advancing && in.Node == m.older[1]:
		m.older[1] = "" // the answer may say that it stands, but will not be told again that it is gone
		return nil
	default:
		return nil
	}
}
