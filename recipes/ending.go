package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about the ways to the end: a node is given up, and the caller is told why.

// fail ends the acquisition for a reason of its own, before it was granted.
func (m *Machine) fail(why Why) []Effect {
	m.why = why
	return m.release()
}

// release gives the node up. Whoever holds the lock alone, or held it until now, and had
// to wait for it leaves word for those behind, who may remember the ones that stood
// ahead. Nobody stands ahead of such a holder, and nobody will as long as its node exists,
// so it matters not how late the word is left as long as it goes with the node. Of one
// that shared the lock it would not be true: others who came before may still hold it.
// Who waits without a node of its own has nothing to give up.
func (m *Machine) release() []Effect {
	if m.own.Name.Text == "" {
		return m.over()
	}
	m.floor = m.waited && m.rule.Exclusive() && m.leads()
	m.state = Releasing
	m.forget()
	return m.remove()
}

// leads tells whether nobody stands ahead. In a semaphore's queue that is so for the
// first; who has entered is in no queue any more.
func (m *Machine) leads() bool {
	if _, ok := m.rule.(Semaphore); ok {
		return m.state == Surveying || m.state == Full || m.state == Entering
	}
	return m.state == Held || m.state == Lapsed
}

func (m *Machine) remove() []Effect {
	return []Effect{Delete{Epoch: m.epoch, Node: m.own.Name.Text, Floor: m.floor, Clean: m.clean}}
}

// lose tells the loss first. Then it gives the node up, if there still is one
// and no function is running under the lock. With a record that is when the answer of the
// caller's side has come, who may have released in the meantime.
func (m *Machine) lose(reason events.Reason) []Effect {
	m.why = WhyLost
	effects := []Effect{Lose{Reason: reason}}
	switch {
	case m.keep:
		m.state = Lapsed
		return effects
	case m.removed && !m.several():
		m.state = Over
	case m.records():
		m.state = Lapsed
	default:
		effects = append(effects, m.release()...)
	}
	return m.finish(effects)
}

func (m *Machine) over() []Effect {
	m.forget()
	m.state = Over
	return m.finish(nil)
}

func (m *Machine) finish(effects []Effect) []Effect {
	if m.finished {
		return effects
	}
	m.finished = true
	return append(effects, Finish{Why: m.why})
}
