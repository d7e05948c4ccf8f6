package recipes

import "github.com/zkgrant/zkgrant/events"

// State is the state of an acquisition.
type State uint8

// The states. The zero value is Idle.
const (
	// Idle: not started, or without a session to start in.
	Idle State = iota
	// Looking: nothing is created yet, and a read looks for another contender.
	Looking
	// Creating: a create is in progress.
	Creating
	// Recovering: a create had an unknown outcome, and a look-up is in progress.
	Recovering
	// Listing: our node exists, and a listing is in progress.
	Listing
	// Waiting: the blocker is watched; nothing is in progress.
	Waiting
	// Pausing: the one node of the lock is gone, or another contender has just created
	// it, and a random time passes before the next look. Or first in the queue after a
	// crash, while the lock-delay passes.
	Pausing
	// Advancing: the blocker is gone, others were ahead of it, and a request asks what
	// that means.
	Advancing
	// Claiming: first in the queue, and a claim is in progress.
	Claiming
	// Surveying: first in a semaphore's queue, and a request asks whether there is room.
	Surveying
	// Full: there is no room; the permits and the size are watched; nothing is in
	// progress.
	Full
	// Entering: there is room, and the node is being traded for permits.
	Entering
	// Held: granted.
	Held
	// Lapsed: lost, but the node stays until Withdrawn reports that no function of the
	// caller runs under the lock.
	Lapsed
	// Releasing: a delete is in progress.
	Releasing
	// Over: nothing is held or in progress, and no node is left.
	Over
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{
		"Idle", "Looking", "Creating", "Recovering", "Listing", "Waiting", "Pausing", "Advancing", "Claiming",
		"Surveying", "Full", "Entering", "Held", "Lapsed", "Releasing", "Over",
	}[s]
}

// Machine is the state of one acquisition in the protocol. It is a plain, comparable value:
// a copy is another machine in the same state. Create one with [NewMachine].
//
// At most one request that can change its state is in progress at a time. So an answer
// needs no number: its epoch and its kind show whether it is expected.
type Machine struct {
	rule    Rule
	state   State
	started bool
	try     bool
	patient bool // with try: the lock may be free, though one node blocks
	strict  bool
	detect  bool // a record reports holders that did not release; see crash.go

	up      bool  // there is a connection
	epoch   Epoch // the current session's; 0 between two sessions
	attempt Attempt
	session int64

	own Own    // our node, once its name is known
	by  Moment // when the lock is to be given back, by the earliest wish; 0: no wish has said
	listing
	permits   permits
	removed   bool // our node was seen gone while a request was in progress
	waited    bool // it has waited with this node
	asked     bool // the lock is requested by a revocation, now or once it is granted
	floor     bool // the delete in progress is to leave a floor
	verifying bool // a claim is in progress while Held
	recorded  bool // the record of this tenure is our own
	clean     bool // the delete in progress is to remove the record, too

	why      Why  // why the acquisition is to end; 0 while it continues
	finished bool // Finish was sent
}

// listing is what the last listing says about the contenders ahead, less those that are
// known to be gone. It is empty except in Waiting and Advancing.
type listing struct {
	older  neighbours // the nearest ones; the first is what Waiting waits for
	member int32      // of a multi-lock: in which of its queues older are
	ahead  int32      // how many there are, up to and with the first of older
}

// NewMachine returns an idle machine that obeys the rule.
func NewMachine(rule Rule) Machine { return Machine{rule: rule} }

// Status is what a machine shows of itself.
type Status struct {
	State State
	Rule  Rule
	Epoch Epoch // of its session, or 0
	Waits bool  // Ahead is known, which it is not during a listing
	Ahead int   // how many contenders are ahead of a waiter
	Size  int   // how many permits the semaphore was last known to have, or 0
}

// Status returns what the machine shows of itself.
func (m *Machine) Status() Status {
	return Status{
		State: m.state, Rule: m.rule, Epoch: m.epoch,
		Waits: m.state == Waiting || m.state == Full || m.state == Pausing && m.own.Name.Text != "",
		Ahead: int(m.ahead), Size: int(m.permits.size),
	}
}

// begin asks for a place in the queue, as soon as there is a session.
func (m *Machine) begin() []Effect {
	m.own, m.removed, m.waited, m.asked, m.by = Own{}, false, false, false, 0
	m.recorded, m.clean = false, false
	m.permits = permits{size: m.permits.size, settled: m.permits.settled}
	m.listing = listing{}
	switch {
	case m.epoch == 0:
		m.state = Idle
		return nil
	case m.try && m.attempt == 0 && !Single(m.rule):
		// If the lock is one node, the create itself reports whether the node exists.
		m.state = Looking
		return []Effect{List{Epoch: m.epoch}}
	default:
		return m.create()
	}
}

func (m *Machine) create() []Effect {
	m.state = Creating
	m.permits.unproven = true
	m.attempt++
	return []Effect{Create{Epoch: m.epoch, Attempt: m.attempt}}
}

// list looks at the directory, or, without a node in it, at the one node of the lock,
// which another contender has.
func (m *Machine) list() []Effect {
	m.listing = listing{}
	if m.own.Name.Text == "" {
		m.state = Looking
		return []Effect{List{Epoch: m.epoch}}
	}
	m.state = Listing
	return []Effect{List{Epoch: m.epoch, Attempt: m.attempt, Size: m.unsettled()}}
}

// pause has a random time pass before the next look. All waiters for one node hear at the
// same moment that it is gone. The first one to come back makes the next node, and the
// others find that.
func (m *Machine) pause() []Effect {
	m.listing = listing{}
	m.state = Pausing
	return []Effect{Pause{Epoch: m.epoch, Attempt: m.attempt}}
}

// blocker is a contender ahead of a waiter, by its place in older.
func (m *Machine) blocker(i int) events.Name {
	return events.Name{Text: m.older[i], Member: m.member}
}

// claim asks for proof of our turn. Only the session and the node are in doubt.
func (m *Machine) claim() []Effect {
	m.listing = listing{}
	m.state = Claiming
	return []Effect{Claim{Epoch: m.epoch, Node: m.own.Name, Record: m.recording()}}
}

// first acts on the news that no contender is ahead.
func (m *Machine) first() []Effect {
	if m.queues() {
		return m.look()
	}
	return m.claim()
}

// enter takes the lock. The answer to a write has just proven three facts: it is our
// turn, our node exists, and the session was alive.
func (m *Machine) enter(fresh bool) []Effect {
	if m.queues() {
		return m.look() // the write does not prove that there is room
	}
	if m.detect {
		return m.claim() // the claim makes or finds the record
	}
	return m.grant(fresh, nil)
}

// grant hands the lock over, with what a crashed holder has left, and with a wish that
// came before. If the proof was overtaken, the machine claims once more: the lease behind
// it has run out since, or the connection is gone and the caller treats that as a loss.
func (m *Machine) grant(fresh bool, left *events.Abandoned) []Effect {
	if !fresh || m.strict && !m.up {
		return m.claim()
	}
	m.listing = listing{}
	m.state = Held
	effects := []Effect{Grant{Node: m.own.Name.Text, Token: m.own.Token, Session: m.session, Abandoned: left}}
	if m.asked {
		effects = append(effects, Revoke{By: m.by})
	}
	return effects
}

// passed acts on the end of the blocker. If it was the only contender ahead, it is our
// turn. If there were more, it is our turn if the blocker left as the only holder; else
// the next contender blocks us. No other contender that blocks us comes between the
// blocker and us. Exception: the owner of a write node may trade it for a read node that
// takes its place.
func (m *Machine) passed() []Effect {
	switch {
	case m.own.Name.Text == "": // there is no queue; the quickest contender is next
		return m.pause()
	case replaceable(m.rule, m.older[0]):
		return m.list()
	case m.ahead == 1:
		return m.first()
	case m.older[1] == "": // always so for a multi-lock
		return m.list() // there were more than we remember
	default:
		m.state = Advancing
		return []Effect{Advance{Epoch: m.epoch, Node: m.own.Name, Past: m.blocker(0), Next: m.blocker(1)}}
	}
}

// requeue queues again in the same session, after our node was removed.
func (m *Machine) requeue() []Effect {
	if m.why != 0 {
		return m.over()
	}
	effects := m.abandon()
	return append(append(effects, m.restart()...), Requeue{})
}

// restart creates another node; the last one is not ours any more.
func (m *Machine) restart() []Effect {
	if m.why != 0 {
		return m.over()
	}
	return m.begin()
}

// permits is what a machine knows beside the queue if its rule is a Semaphore.
type permits struct {
	size     int32 // last known; 0: never
	settled  bool  // the first look at the size has found our own opinion
	entered  bool  // the own node is the first of the permits, not a place in the queue
	full     bool  // there was no room: the survey is to watch
	changed  bool  // news came before the answer to the survey in progress
	unproven bool  // the latest request may have made permits that are to be given back
	doubted  bool  // the survey's answer may come on another connection than the news that we are first
}

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
	m.listing = listing{}
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
	m.listing = listing{}
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
