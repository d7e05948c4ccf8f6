package recipes

import "github.com/zkgrant/zkgrant/events"

// State is the state of an acquisition.
type State uint8

// The states. The zero value is Idle.
const (
	// Idle: not started yet, or waiting for a session.
	Idle State = iota
	// Looking: nothing is created yet, and a read checks for other contenders.
	Looking
	// Creating: a create is in progress.
	Creating
	// Recovering: the outcome of a create is unknown, and a look-up is in progress.
	Recovering
	// Listing: our node exists, and a listing is in progress.
	Listing
	// Waiting: the blocker is watched, and nothing is in progress.
	Waiting
	// Pausing: waiting a random time before the next look, because the lock's single node
	// is gone or another contender has just created it. Or waiting out the lock-delay
	// after a crash, as the first in the queue.
	Pausing
	// Advancing: the blocker is gone, but was not the only one ahead. A request is in
	// progress that finds out whose turn it is.
	Advancing
	// Claiming: first in the queue, and a claim is in progress.
	Claiming
	// Surveying: first in a semaphore's queue, and a request that asks for room is in
	// progress.
	Surveying
	// Full: there is no room. The permits and the size are watched; nothing is in
	// progress.
	Full
	// Entering: there is room, and the node is being traded for permits.
	Entering
	// Held: granted.
	Held
	// Lapsed: lost, but the node stays until Withdrawn reports that no function is
	// running under the lock.
	Lapsed
	// Releasing: a delete is in progress.
	Releasing
	// Over: nothing is held or in progress, and our node is gone.
	Over
)

// String returns the name of the state.
func (s State) String() string {
	return [...]string{
		"Idle", "Looking", "Creating", "Recovering", "Listing", "Waiting", "Pausing", "Advancing", "Claiming",
		"Surveying", "Full", "Entering", "Held", "Lapsed", "Releasing", "Over",
	}[s]
}

// Machine is the protocol state of one acquisition. It is a plain, comparable value: a
// copy is another machine in the same state. Create one with [NewMachine].
//
// At most one request that can change the state is in progress at a time. So requests
// need no numbers: the epoch and the kind of an answer show whether it is expected. Two
// may have company: a Try behind an idle node also pauses, and a holder may check its node
// while [Contention] claims, so a claim says whether its caller holds.
type Machine struct {
	rule    Rule
	state   State
	started bool
	try     bool
	patient bool // with try: one cached node, perhaps idle, is ahead; the Try waits for it until Paused
	strict  bool
	detect  bool // use a record to report holders that did not release; see crash.go

	up      bool  // there is a connection
	epoch   Epoch // the current session's; 0 between two sessions
	attempt Attempt
	session int64

	own Own    // our node, once its name is known
	by  Moment // the earliest deadline of a revocation request; 0: none so far
	listing
	permits   permits
	removed   bool // our node was seen gone while a request was in progress
	waited    bool // it has waited in the queue with this node
	asked     bool // a revocation was requested; it is reported now or with the Grant
	floor     bool // the delete in progress leaves a floor
	verifying bool // a claim is in progress while Held
	recorded  bool // the record of this tenure is our own
	clean     bool // the delete in progress also removes the record

	why      Why  // why the acquisition ends; 0 while it continues
	finished bool // Finish was sent
}

// listing holds the contenders ahead according to the last listing, without those known
// to be gone. It is empty except in Waiting and Advancing.
type listing struct {
	older  neighbours // the nearest ones, the blocker first
	member int32      // of a multi-lock: the queue that older is from
	ahead  int32      // how many there are, the blocker included
}

// NewMachine returns an idle machine that obeys the rule.
func NewMachine(rule Rule) Machine { return Machine{rule: rule} }

// Status is the part of a machine's state that its runtime may see.
type Status struct {
	State State
	Rule  Rule
	Epoch Epoch // of its session, or 0
	Waits bool  // Ahead is known; during a listing it is not
	Ahead int   // how many contenders are ahead of a waiter
	Size  int   // the last known number of the semaphore's permits, or 0
}

// Status returns the machine's status.
func (m *Machine) Status() Status {
	return Status{
		State: m.state, Rule: m.rule, Epoch: m.epoch,
		Waits: m.state == Waiting || m.state == Full || m.state == Pausing && m.own.Name.Text != "",
		Ahead: int(m.ahead), Size: int(m.permits.size),
	}
}

// begin starts an attempt. Without a session, the next Opened does.
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
		// If the lock is a single node, the create itself reports whether it exists.
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

// list reads the directory. Without a node of our own, it reads the lock's single node,
// which another contender owns.
func (m *Machine) list() []Effect {
	m.listing = listing{}
	if m.own.Name.Text == "" {
		m.state = Looking
		return []Effect{List{Epoch: m.epoch}}
	}
	m.state = Listing
	return []Effect{List{Epoch: m.epoch, Attempt: m.attempt, Size: m.unsettled()}}
}

// pause waits a random time before the next look. All waiters for a single node learn at
// the same moment that it is gone. The first one to come back creates the next node, and
// the others find it.
func (m *Machine) pause() []Effect {
	m.listing = listing{}
	m.state = Pausing
	return []Effect{Pause{Epoch: m.epoch, Attempt: m.attempt}}
}

// blocker returns a contender ahead, by its index in older.
func (m *Machine) blocker(i int) events.Name {
	return events.Name{Text: m.older[i], Member: m.member}
}

// claim asks for proof that the session is alive and our node exists. That it is our turn
// is not in doubt.
func (m *Machine) claim() []Effect {
	m.listing = listing{}
	m.state = Claiming
	return []Effect{Claim{Epoch: m.epoch, Node: m.own.Name, Record: m.recording()}}
}

// first continues once no contender is ahead.
func (m *Machine) first() []Effect {
	if m.queues() {
		return m.look()
	}
	return m.claim()
}

// enter takes the lock. The answer to a write has just proven three things: it is our
// turn, our node exists, and the session was alive.
func (m *Machine) enter(fresh bool) []Effect {
	if m.queues() {
		return m.look() // the write does not prove that there is room
	}
	if m.detect {
		return m.claim() // the claim creates or finds the record
	}
	return m.grant(fresh, nil)
}

// grant gives the lock to the caller, along with the record of a crashed holder and an
// earlier revocation request. It claims once more if the proof is outdated: because the
// lease has run out since, or because the connection is gone and the caller treats that
// as a loss.
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

// passed continues once the blocker is gone. If it was the only contender ahead, or left
// as the only holder, it is our turn; otherwise the next contender blocks us. No
// contender that blocks us can come between the blocker and us, unless the owner of a
// write node trades it for a read node in its place.
func (m *Machine) passed() []Effect {
	switch {
	case m.own.Name.Text == "": // there is no queue; the fastest contender is next
		return m.pause()
	case replaceable(m.rule, m.older[0]):
		return m.list()
	case m.ahead == 1:
		return m.first()
	case m.older[1] == "": // always the case for a multi-lock
		return m.list() // there were more than we remembered
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
	var effects []Effect
	if m.several() { // some of its nodes may be left
		effects = []Effect{Discard{Node: m.own.Name}}
	}
	return append(append(effects, m.restart()...), Requeue{})
}

// restart begins a new attempt, because our last node is no longer ours.
func (m *Machine) restart() []Effect {
	if m.why != 0 {
		return m.over()
	}
	return m.begin()
}

// permits holds the additional state of a machine whose rule is a Semaphore.
type permits struct {
	size     int32 // last known; 0: not known
	settled  bool  // the first look found the size that the caller expects
	entered  bool  // own is the first of our permits, not a node in the queue
	full     bool  // there was no room, so the next survey watches
	changed  bool  // news came before the answer to the survey in progress
	unproven bool  // the latest request may have created permits that must be given back
	doubted  bool  // the survey's answer may be from another connection than the news that we are first
	counted  bool  // ours are among too many already
}

// fail ends the acquisition before a Grant, and gives up its nodes. The given reason
// counts unless the acquisition is ending already.
func (m *Machine) fail(why Why) []Effect {
	if m.why == 0 {
		m.why = why
	}
	return m.release()
}

// release gives up the node. An exclusive holder that had to wait, even one that has just
// lost the lock, leaves a floor for the waiters after it, which may remember contenders
// ahead. No contender is ahead of such a holder, and none will be while its node exists.
// So a late floor is fine, as long as the same transaction deletes the node. A holder
// that shared the lock leaves no floor, because older contenders may still hold. A waiter
// without a node has nothing to give up.
func (m *Machine) release() []Effect {
	if m.own.Name.Text == "" {
		return m.over()
	}
	m.floor = m.waited && m.rule.Exclusive() && m.leads()
	m.state = Releasing
	m.listing = listing{}
	if !m.up { // nothing is held, and the servers may not answer for a long time
		return m.finish(m.remove())
	}
	return m.remove()
}

// leads reports whether no contender is ahead. In a semaphore's queue, that is true for
// the first; a contender that has entered is no longer in the queue.
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
