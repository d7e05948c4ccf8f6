package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about what the machine does with answers to its requests.

func (m *Machine) onCreated(in Created) []Effect {
	if in.Epoch != m.epoch || m.state != Creating {
		// The answer of a past epoch is not believed. If the node exists all the same, only this removes it.
		return []Effect{Discard{Node: in.Node.Text}}
	}
	m.own = Own{Name: in.Node}
	switch {
	case m.why != 0:
		return m.release()
	case in.Node.Check() != nil:
		return m.fail(WhySequenceEnd)
	case in.Alone:
		m.own.Owner, m.own.Token = m.session, in.Token
		return m.enter(in.Fresh)
	default:
		return m.list()
	}
}

// onCanceled ends an acquisition that was withdrawn before anything was made.
func (m *Machine) onCanceled(in Canceled) []Effect {
	if in.Epoch != m.epoch || m.state != Creating || m.why == 0 {
		return nil
	}
	return m.over()
}

// onOccupied looks for the owner of the lock's one node. If the node was made between a look that found none and the create, other
// waiters are about to try the same, and it is better to step back.
func (m *Machine) onOccupied(in Occupied) []Effect {
	switch {
	case in.Epoch != m.epoch || m.state != Creating:
		return nil
	case m.why != 0:
		return m.over()
	case m.try || m.attempt == 1:
		return m.list()
	default:
		return m.pause()
	}
}

func (m *Machine) onPaused(in Paused) []Effect {
	switch {
	case in.Epoch != m.epoch:
		return nil
	case m.state == Pausing && m.own.Name.Text != "": // the lock-delay is over
		return m.claim()
	case m.state == Pausing:
		return m.list()
	case m.state == Waiting && m.patient:
		return m.fail(WhyBusy)
	default:
		return nil
	}
}

func (m *Machine) onListed(in Listed) []Effect {
	if in.Epoch != m.epoch {
		return nil
	}
	switch m.state {
	case Looking:
		switch {
		case mixed(m.rule, in.Queue):
			m.why = WhyMixed
			return m.over()
		case len(m.rule.Blockers(in.Queue, newcomer)) == 0:
		case m.try && yields(in.Queue) && !m.queues():
			m.patient = true // only in the queue can it learn whether the lock is held
		case m.try:
			m.why = WhyBusy
			return m.over()
		default:
			m.state, m.older, m.ahead = Waiting, neighbours{in.Queue[0].Text}, 1
			return []Effect{Queue{Ahead: 1}, Watch{Epoch: m.epoch, Node: m.older[0]}}
		}
		if m.queues() {
			return []Effect{Survey{Epoch: m.epoch}}
		}
		return m.create()
	case Recovering:
		if in.Own == (Own{}) {
			if m.own.Name.Text != "" {
				return m.requeue() // its node is in neither place any more
			}
			return m.restart() // the barrier proves that it was never created
		}
	case Listing:
		if in.Own == (Own{}) || m.removed {
			return m.requeue()
		}
	default:
		return nil
	}
	return m.onFound(in)
}

// onFound acts on a listing that has our node in it.
func (m *Machine) onFound(in Listed) []Effect {
	if in.Own.Owner != m.session {
		// The node has our GUID, but an earlier session of ours made it, and takes it away when it ends.
		return append(m.restart(), Discard{Node: in.Own.Name.Text})
	}
	if in.Entered {
		return m.onPermitsFound(in.Own, in.InUse)
	}
	m.own = in.Own
	if m.why != 0 {
		return m.release()
	}
	if in.Parted {
		return m.requeue() // some of its nodes are gone: the rest is no place in the queue
	}
	if why := m.unfit(in.Size); why != 0 {
		return m.fail(why)
	}
	if mixed(m.rule, in.Queue) {
		return m.fail(WhyMixed)
	}
	if !m.usable(in.Queue) {
		return m.fail(WhySequenceEnd)
	}
	blockers := m.rule.Blockers(in.Queue, m.own.Name)
	switch {
	case len(blockers) == 0:
		return m.first()
	case m.try && !(m.patient && yields(blockers) && ahead(m.rule, in.Queue, m.own.Name) == 1):
		return m.fail(WhyBusy)
	default:
		pauses := m.try && !m.waited
		m.state, m.waited = Waiting, true
		m.older, m.ahead = nearest(m.rule, in.Queue, m.own.Name), int32(ahead(m.rule, in.Queue, m.own.Name))
		effects := []Effect{Queue{Ahead: int(m.ahead)}, Watch{Epoch: m.epoch, Node: m.older[0]}}
		if pauses {
			effects = append(effects, Pause{Epoch: m.epoch, Yield: true})
		}
		return effects
	}
}

func (m *Machine) onClaimed(in Claimed) []Effect {
	switch {
	case in.Epoch != m.epoch:
		return nil
	case in.Recorded:
		return m.onRecorded(in)
	case m.state == Held:
		m.verifying = false
		return nil
	case m.state != Claiming:
		return nil
	case m.removed:
		return m.requeue()
	default:
		return m.enter(in.Fresh)
	}
}

// onAdvanced enters or moves up. The three parts of the answer may be from different moments. That does no harm: it stays true that
// the blocker left as a holder, and that it was the nearest. If the next node goes later, its watch tells.
func (m *Machine) onAdvanced(in Advanced) []Effect {
	switch {
	case in.Epoch != m.epoch, m.state != Advancing:
		return nil
	case m.removed:
		return m.requeue()
	case in.Floor:
		return m.enter(in.Fresh)
	case in.Stands && m.older[1] != "":
		m.state = Waiting
		m.older, m.ahead = m.older.shift(), m.ahead-1
		return nil
	default:
		return m.list()
	}
}

func (m *Machine) onRefused(in Refused) []Effect {
	if in.Epoch != m.epoch {
		return nil
	}
	switch {
	case in.Op == OpCreate && m.state == Creating,
		in.Op == OpList && (m.state == Looking || m.state == Recovering),
		in.Op == OpSurvey && m.state == Looking:
		if m.why == 0 {
			m.why = WhyRefused
		}
		return m.over()
	case in.Op == OpClaim && in.Missing && m.state == Claiming,
		in.Op == OpSurvey && in.Missing && m.state == Surveying,
		in.Op == OpEnter && in.Missing && m.state == Entering,
		in.Op == OpAdvance && in.Missing && m.state == Advancing:
		return m.requeue()
	case in.Op == OpClaim && in.Missing && m.state == Held:
		m.removed = true
		return m.lose(events.ReasonNodeRemoved)
	case in.Op == OpClaim && m.state == Held:
		m.verifying = false
		return nil
	case (in.Op == OpEnter && m.state == Entering || in.Op == OpClaim && m.state == Claiming) && m.why != 0:
		return m.release()
	case in.Op == OpEnter && m.state == Entering && in.Stale:
		return m.look()
	case in.Op == OpClaim && m.state == Claiming,
		in.Op == OpSurvey && m.state == Surveying,
		in.Op == OpEnter && m.state == Entering,
		in.Op == OpAdvance && m.state == Advancing,
		in.Op == OpList && m.state == Listing,
		in.Op == OpWatch && m.state == Waiting && in.Node == m.older[0]:
		return m.fail(WhyRefused)
	case in.Op == OpDelete && m.state == Releasing:
		if m.why == WhyReleased || m.why == WhyPanicked {
			m.why = WhyRefused // the caller has to hear that the node is still there
		}
		return m.over()
	default:
		return nil
	}
}

func (m *Machine) onUnknown(in Unknown) []Effect {
	if in.Epoch != m.epoch {
		return nil
	}
	switch {
	case in.Op == OpCreate && m.state == Creating,
		in.Op == OpEnter && m.state == Entering,
		in.Op == OpList && m.state == Recovering:
		m.state = Recovering
		return []Effect{List{Epoch: m.epoch, Attempt: m.attempt, Barrier: true}}
	case in.Op == OpList && m.state == Looking:
		return []Effect{List{Epoch: m.epoch}}
	case in.Op == OpSurvey && m.state == Looking:
		return []Effect{Survey{Epoch: m.epoch}}
	case in.Op == OpList && m.state == Listing,
		in.Op == OpSurvey && m.state == Surveying: // the survey may have to be made on another connection
		return m.list()
	case in.Op == OpClaim && (m.state == Claiming || m.state == Held && m.verifying):
		return m.reclaim()
	case in.Op == OpDelete && m.state == Releasing:
		return m.remove()
	case in.Op == OpWatch && m.state == Waiting, in.Op == OpAdvance && m.state == Advancing:
		return m.list() // whatever is armed, the next listing tells what to watch
	default:
		return nil
	}
}
