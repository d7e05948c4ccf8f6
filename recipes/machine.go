package recipes

import "github.com/zkgrant/zkgrant/events"

// State is where an acquisition stands.
type State uint8

// The states. The zero value is Idle.
const (
	// Idle: not started, or without a session to start in.
	Idle State = iota
	// Looking: nothing created yet; is anybody there?
	Looking
	// Creating: a create is under way.
	Creating
	// Recovering: a create had an unknown outcome, and a look-up is under way.
	Recovering
	// Listing: our node exists, and a listing is under way.
	Listing
	// Waiting: the blocker is watched; nothing is under way.
	Waiting
	// Claiming: first in the queue, and a claim is under way.
	Claiming
	// Held: granted.
	Held
	// Lapsed: lost, with the node kept until the caller's function has ended.
	Lapsed
	// Releasing: a delete is under way.
	Releasing
	// Over: nothing is held, nothing is under way, no node is left.
	Over
)

// String names the state.
func (s State) String() string {
	return [...]string{"Idle", "Looking", "Creating", "Recovering", "Listing", "Waiting", "Claiming", "Held", "Lapsed", "Releasing", "Over"}[s]
}

// Machine is one acquisition's place in the protocol. It is a comparable value;
// Step returns the next one and leaves its receiver alone. Make one with
// [NewMachine].
//
// At most one request that can change its state is under way at a time, so an
// answer needs no number: its epoch and its kind tell whether it is awaited.
type Machine struct {
	rule    Rule
	state   State
	started bool
	try     bool
	keep    bool
	strict  bool

	epoch   Epoch // the current session's; 0 between two sessions
	session int64
	up      bool // there is a connection

	attempt   Attempt
	own       Own    // our node, once its name is known
	removed   bool   // our node was seen gone while a request was under way
	blocker   string // what Waiting waits for
	verifying bool   // a claim is under way while Held

	why      Why  // why the acquisition is to end; 0 while it goes on
	finished bool // Finish was told
}

// NewMachine returns an idle machine that obeys the rule.
func NewMachine(rule Rule) Machine { return Machine{rule: rule} }

// State returns where the acquisition stands.
func (m Machine) State() State { return m.state }

// Epoch returns the epoch of the session that the machine lives in, or 0.
func (m Machine) Epoch() Epoch { return m.epoch }

// Step takes one input. The effects are to be carried out in order.
func (m Machine) Step(in Input) (Machine, []Effect) {
	switch in := in.(type) {
	case Started:
		return m.onStarted(in)
	case Withdrawn:
		return m.onWithdrawn(in)
	case Opened:
		return m.onOpened(in)
	case Suspended:
		return m.onSuspended()
	case Reconnected:
		return m.onReconnected()
	case LeaseRanOut:
		return m.onLeaseRanOut()
	case Expired:
		return m.onExpired()
	case Gone:
		return m.onGone(in)
	case Created:
		return m.onCreated(in)
	case Listed:
		return m.onListed(in)
	case Claimed:
		return m.onClaimed(in)
	case Deleted:
		if in.Epoch == m.epoch && m.state == Releasing {
			return m.over()
		}
		return m, nil
	case Refused:
		return m.onRefused(in)
	case Unknown:
		return m.onUnknown(in)
	default:
		return m, nil
	}
}

func (m Machine) onStarted(in Started) (Machine, []Effect) {
	if m.started || m.state == Over {
		return m, nil
	}
	m.started, m.try, m.keep, m.strict = true, in.Try, in.Keep, in.Strict
	return m.begin()
}

// begin asks for a place in the queue, as soon as there is a session.
func (m Machine) begin() (Machine, []Effect) {
	m.own, m.removed, m.blocker = Own{}, false, ""
	switch {
	case m.epoch == 0:
		m.state = Idle
		return m, nil
	case m.try && m.attempt == 0:
		m.state = Looking
		return m, []Effect{List{Epoch: m.epoch}}
	default:
		m.state = Creating
		m.attempt++
		return m, []Effect{Create{Epoch: m.epoch, Attempt: m.attempt}}
	}
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
	case own && (m.state == Listing || m.state == Claiming || m.state == Lapsed):
		m.removed = true // the answer under way may be older than this
		return m, nil
	case in.Node == m.blocker && m.state == Waiting:
		return m.list()
	default:
		return m, nil
	}
}

func (m Machine) onCreated(in Created) (Machine, []Effect) {
	if in.Epoch != m.epoch || m.state != Creating {
		// An answer of a past epoch is not believed. If the node exists all the
		// same, nobody else will ever remove it.
		return m, []Effect{Discard{Node: in.Node.Text}}
	}
	m.own = Own{Name: in.Node}
	switch {
	case m.why != 0:
		return m.release()
	case in.Node.Check() != nil:
		return m.fail(WhySequenceEnd)
	default:
		return m.list()
	}
}

func (m Machine) onListed(in Listed) (Machine, []Effect) {
	if in.Epoch != m.epoch {
		return m, nil
	}
	switch m.state {
	case Looking:
		if len(in.Queue) > 0 {
			m.why = WhyBusy
			return m.over()
		}
		m.state = Creating
		m.attempt++
		return m, []Effect{Create{Epoch: m.epoch, Attempt: m.attempt}}
	case Recovering:
		if in.Own == (Own{}) {
			if m.why != 0 {
				return m.over()
			}
			return m.begin() // the barrier proves that it was never created
		}
	case Listing:
		if in.Own == (Own{}) || m.removed {
			return m.requeue()
		}
	default:
		return m, nil
	}
	return m.onFound(in)
}

// onFound acts on a listing that has our node in it.
func (m Machine) onFound(in Listed) (Machine, []Effect) {
	if in.Own.Owner != m.session {
		// It bears our GUID, but another session of ours made it. That session's
		// end would take it away from under us.
		m, effects := m.restart()
		return m, append(effects, Discard{Node: in.Own.Name.Text})
	}
	m.own = in.Own
	if m.why != 0 {
		return m.release()
	}
	if !usable(in.Queue, m.own.Name) {
		return m.fail(WhySequenceEnd)
	}
	blockers := m.rule.Blockers(in.Queue, m.own.Name)
	switch {
	case len(blockers) == 0:
		m.state = Claiming
		return m, []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text}}
	case m.try:
		return m.fail(WhyBusy)
	default:
		m.state, m.blocker = Waiting, blockers[0].Text
		return m, []Effect{Queue{Ahead: ahead(in.Queue, m.own.Name)}, Watch{Epoch: m.epoch, Node: m.blocker}}
	}
}

func (m Machine) onClaimed(in Claimed) (Machine, []Effect) {
	switch {
	case in.Epoch != m.epoch:
		return m, nil
	case m.state == Held:
		m.verifying = false
		return m, nil
	case m.state != Claiming:
		return m, nil
	case m.removed:
		return m.requeue()
	case !in.Fresh, m.strict && !m.up:
		// The answer took so long that what it proves has run out; or it was
		// overtaken by the news that would have been a loss.
		return m, []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text}}
	default:
		m.state = Held
		return m, []Effect{Grant{Node: m.own.Name.Text, Token: m.own.Token, Session: m.session}}
	}
}

func (m Machine) onRefused(in Refused) (Machine, []Effect) {
	if in.Epoch != m.epoch {
		return m, nil
	}
	switch {
	case in.Op == OpCreate && m.state == Creating,
		in.Op == OpList && (m.state == Looking || m.state == Recovering):
		if m.why == 0 {
			m.why = WhyRefused
		}
		return m.over()
	case in.Op == OpClaim && in.Missing && m.state == Claiming:
		return m.requeue()
	case in.Op == OpClaim && in.Missing && m.state == Held:
		m.removed = true
		return m.lose(events.ReasonNodeRemoved)
	case in.Op == OpClaim && m.state == Held:
		m.verifying = false
		return m, nil
	case in.Op == OpClaim && m.state == Claiming,
		in.Op == OpList && m.state == Listing,
		in.Op == OpWatch && m.state == Waiting && in.Node == m.blocker:
		return m.fail(WhyRefused)
	case in.Op == OpDelete && m.state == Releasing:
		if m.why == WhyReleased {
			m.why = WhyRefused // the caller should hear that the node is still there
		}
		return m.over()
	default:
		return m, nil
	}
}

func (m Machine) onUnknown(in Unknown) (Machine, []Effect) {
	if in.Epoch != m.epoch {
		return m, nil
	}
	switch {
	case in.Op == OpCreate && m.state == Creating,
		in.Op == OpList && m.state == Recovering:
		m.state = Recovering
		return m, []Effect{List{Epoch: m.epoch, Attempt: m.attempt, Barrier: true}}
	case in.Op == OpList && m.state == Looking:
		return m, []Effect{List{Epoch: m.epoch}}
	case in.Op == OpList && m.state == Listing:
		return m.list()
	case in.Op == OpClaim && (m.state == Claiming || m.state == Held && m.verifying):
		return m, []Effect{Claim{Epoch: m.epoch, Node: m.own.Name.Text}}
	case in.Op == OpDelete && m.state == Releasing:
		return m, []Effect{Delete{Epoch: m.epoch, Node: m.own.Name.Text}}
	case in.Op == OpWatch && m.state == Waiting:
		return m.list() // whatever was or was not armed, the next listing tells what to watch
	default:
		return m, nil
	}
}

func (m Machine) list() (Machine, []Effect) {
	m.state, m.blocker = Listing, ""
	return m, []Effect{List{Epoch: m.epoch, Attempt: m.attempt}}
}

// requeue queues up anew in the same session, after our node was removed.
func (m Machine) requeue() (Machine, []Effect) {
	if m.why != 0 {
		return m.over()
	}
	m, effects := m.restart()
	return m, append(effects, Requeue{})
}

// restart creates another node; nothing of the last one is ours any more.
func (m Machine) restart() (Machine, []Effect) {
	if m.why != 0 {
		return m.over()
	}
	return m.begin()
}

// fail ends the acquisition for a reason of its own, before it was granted.
func (m Machine) fail(why Why) (Machine, []Effect) {
	m.why = why
	return m.release()
}

func (m Machine) release() (Machine, []Effect) {
	m.state = Releasing
	return m, []Effect{Delete{Epoch: m.epoch, Node: m.own.Name.Text}}
}

// lose tells the loss first. Then it gives the node up, if there still is one
// and no function is running under the lock.
func (m Machine) lose(reason events.Reason) (Machine, []Effect) {
	m.why = WhyLost
	effects := []Effect{Lose{Reason: reason}}
	switch {
	case m.keep:
		m.state = Lapsed
		return m, effects
	case m.removed:
		m.state = Over
	default:
		var more []Effect
		m, more = m.release()
		effects = append(effects, more...)
	}
	return m.finish(effects)
}

func (m Machine) over() (Machine, []Effect) {
	m.state = Over
	return m.finish(nil)
}

func (m Machine) finish(effects []Effect) (Machine, []Effect) {
	if m.finished {
		return m, effects
	}
	m.finished = true
	return m, append(effects, Finish{Why: m.why})
}
