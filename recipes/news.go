package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about what the machine does with requests of the caller and with news of
// the session.

func (m *Machine) onStarted(in Started) []Effect {
	if m.started || m.state == Over {
		return nil
	}
	m.started, m.try, m.strict, m.detect = true, in.Try, in.Strict, in.Detect
	return m.begin()
}

// onWithdrawn takes the way out that all states share: every node is removed. If only the
// answer in progress says which nodes there are, it is awaited first.
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
		// If the Create was sent, its answer says what there is to delete.
		effects = []Effect{Cancel{Epoch: m.epoch}}
	case Recovering, Entering:
		// The answer in progress says what there is to delete.
	default:
		switch {
		case m.removed && !m.several():
			return m.over()
		case m.state == Claiming && m.records():
			// The answer reports whether the record is ours.
		default:
			effects = m.release()
		}
	}
	if !m.up || m.why == WhyNoSession || m.why == WhyLost && !in.Ran {
		// Nothing is held, and the servers may not answer for long. Only a function is
		// over when its node has gone.
		return m.finish(effects)
	}
	return effects
}

func (m *Machine) onOpened(in Opened) []Effect {
	m.epoch, m.session, m.up = in.Epoch, in.Session, !in.Suspended
	if m.state == Idle && m.started {
		return m.begin()
	}
	return nil
}

// onExpired starts over if the caller still waits, and else ends: a dead session has no
// nodes.
func (m *Machine) onExpired() []Effect {
	place := m.own.Name.Text != ""
	m.epoch, m.session, m.up = 0, 0, false
	m.permits.entered = false
	if _, ok := m.rule.(Multi); ok {
		m.own = Own{} // no node is left
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

// onAskedBack passes the wish on, for the caller to decide. A node that was written to is
// still there, and so is the lock.
//
// Of several wishes the one with the earliest moment counts, and the caller learns of it
// when it comes. A wish with a later moment, or with none, says nothing new. A wish that
// came before the Grant is reported with it.
func (m *Machine) onAskedBack(in AskedBack) []Effect {
	if m.own.Name.Text == "" || !in.Node.Same(m.own.Name) || m.why != 0 {
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
