package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about the ways to the end: the node is given up, and the caller learns
// why.

// fail ends the acquisition for a reason of its own, before it was granted.
func (m *Machine) fail(why Why) []Effect {
	m.why = why
	return m.release()
}

// release gives up the node. An exclusive holder that had to wait, also one that has just
// lost the lock, leaves a floor for the waiters behind, which may remember contenders
// ahead. No contender is ahead of such a holder, and none will as long as its node
// exists. So the floor may be written late, as long as it is deleted with the node. A
// holder that shared the lock leaves none: older contenders may still hold. A waiter
// without a node has nothing to give up.
func (m *Machine) release() []Effect {
	if m.own.Name.Text == "" {
		return m.over()
	}
	m.floor = m.waited && m.rule.Exclusive() && m.leads()
	m.state = Releasing
	m.forget()
	return m.remove()
}

// leads reports whether no contender is ahead. In a semaphore's queue that is so for
// the first; a contender that has entered is in no queue any more.
func (m *Machine) leads() bool {
	if _, ok := m.rule.(Semaphore); ok {
		return m.state == Surveying || m.state == Full || m.state == Entering
	}
	return m.state == Held || m.state == Lapsed
}

func (m *Machine) remove() []Effect {
	return []Effect{Delete{Epoch: m.epoch, Node: m.own.Name, Floor: m.floor, Clean: m.clean}}
}

// lose reports the loss. The node stays until Withdrawn.
func (m *Machine) lose(reason events.Reason) []Effect {
	m.why, m.state = WhyLost, Lapsed
	return []Effect{Lose{Reason: reason}}
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
