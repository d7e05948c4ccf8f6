package recipes

import "github.com/zkgrant/zkgrant/events"

// What the machine does about wishes of the caller and news of the session.

func (m Machine) onStarted(in Started) (Machine, []Effect) {
	if m.started || m.state == Over {
		return m, nil
	}
	m.started, m.try, m.keep, m.strict = true, in.Try, in.Keep, in.Strict
	return m.begin()
}

// onWithdrawn takes the one way out that every state shares: whatever may exist
// is removed, and what is under way is awaited first if only its answer tells
// what that is.
func (m Machine) onWithdrawn(in Withdrawn) (Machine, []Effect) {
	if m.why != 0 && m.state != Lapsed || m.state == Over {
		return m, nil
	}
	if m.why == 0 {
		m.why = in.Why
	}
	var effects []Effect
	switch m.state {
	case Idle, Looking:
		return m.over()
	case Creating, Recovering:
		// The answer under way tells what there is to delete.
	default:
		if m.removed {
			return m.over()
		}
		m, effects = m.release()
	}
	if !m.up {
		// Nobody can say how long the connection will be away. Nothing is held,
		// and the caller need not wait for the node to go.
		return m.finish(effects)
	}
	return m, effects
}

func (m Machine) onOpened(in Opened) (Machine, []Effect) {
	m.epoch, m.session, m.up = in.Epoch, in.Session, true
	if m.state == Idle && m.started {
		return m.begin()
	}
	return m, nil
}

// onSuspended is the loss of a lock that is held strictly. Otherwise it lets a
// caller go who only waits for the node to be removed. Of a lease that has run out
// already nothing more will be heard: 1. a waiter's lease runs out, which is no
// matter; 2. it is withdrawn, and the delete is under way; 3. the connection goes,
// perhaps for hours.
func (m Machine) onSuspended() (Machine, []Effect) {
	m.up = false
	switch {
	case m.state == Held && m.strict:
		return m.lose(events.ReasonSuspended)
	case m.why != 0 && m.state != Lapsed:
		return m.finish(nil)
	default:
		return m, nil
	}
}

// onReconnected verifies what watches should have told: their events are
// replayed in any order, and some servers and some moments lose them.
func (m Machine) onReconnected() (Machine, []Effect) {
	m.up = true
	switch {
	case m.state == Waiting:
		return m.list()
	case m.state == Advancing:
		// The answer may have come on the connection before, and be told only now. That
		// the next one stands is then no news of a watch.
		m.older[1] = ""
		return m, nil
	case m.state == Held && !m.verifying:
		m.verifying = true
		return m, []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text}}
	default:
		return m, nil
	}
}

func (m Machine) onLeaseRanOut() (Machine, []Effect) {
	switch {
	case m.state == Held:
		return m.lose(events.ReasonLeaseRanOut)
	case m.why != 0 && m.state != Lapsed:
		return m.finish(nil) // nothing is held; the caller has waited long enough
	default:
		return m, nil
	}
}

// onExpired starts over if the caller still waits, and ends otherwise: a dead
// session has no nodes.
func (m Machine) onExpired() (Machine, []Effect) {
	place := m.own.Name.Text != ""
	m.epoch, m.session, m.up = 0, 0, false
	switch {
	case m.state == Held:
		m.removed = true
		return m.lose(events.ReasonSessionExpired)
	case m.state == Lapsed:
		m.removed = true
		return m, nil
	case m.state == Over || m.state == Idle:
		return m, nil
	case m.why != 0:
		return m.over()
	}
	m, effects := m.begin()
	if place {
		effects = append(effects, Requeue{})
	}
	return m, effects
}

func (m Machine) onGone(in Gone) (Machine, []Effect) {
	if in.Epoch != m.epoch || m.epoch == 0 {
		return m, nil
	}
	own := in.Node == m.own.Name.Text
	switch {
	case own && m.state == Held:
		m.removed = true
		return m.lose(events.ReasonNodeRemoved)
	case own && m.state == Waiting:
		return m.requeue()
	case own && (m.state == Listing || m.state == Advancing || m.state == Claiming || m.state == Lapsed):
		m.removed = true // the answer under way may be older than this
		return m, nil
	case m.state == Waiting && in.Node == m.older[0]:
		return m.passed()
	case m.state == Advancing && in.Node == m.older[1]:
		m.older[1] = "" // the answer may say that it stands, but will not be told again that it is gone
		return m, nil
	default:
		return m, nil
	}
}
