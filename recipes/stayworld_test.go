package recipes

import (
	"fmt"
	"slices"
)

// This file has the world of stays: sessions whose contenders share cached nodes, and a
// stranger. The machines that own the nodes are simplified to what the explorer of
// machines has shown. A machine is granted the lock when its node is the first and its
// lease is good. It learns of the end of the lease before the leader ends the session. It
// keeps a lost node until it is withdrawn. [Stay] and [Contention] decide everything
// else.

const (
	staySessions = 2
	staySlots    = 4
	stayLocals   = 2
	stayNodes    = 8
	stayStranger = 0xe // owner of a node that no session owns
)

type stayWorld struct {
	sessions [staySessions]staySession
	queue    [stayNodes]uint8 // 0: gone; 1 + session<<2 + slot, or stayStranger
	next     uint8
	stranger uint8 // 0: has not arrived; 1: waits or holds; 2: has left
	overdue  bool  // two probe intervals have passed since the stranger arrived
	byHand   uint8 // nodes that were deleted by hand, and whose owners do not know yet
	last     uint8 // 1 + the node of the latest grant
	turn     uint8 // and its turn
	left     stayBudget
}

type stayBudget struct{ cut, lapse, expire, remove, withdraw, tick, stranger, junk uint8 }

type staySession struct {
	slots  [staySlots]staySlot
	locals [stayLocals]stayLocal
	up     bool
	dead   bool // the leader has ended the session
	lease  bool
	fresh  bool // a write sent after the latest tick was answered
	epoch  uint8
}

type staySlot struct {
	book     uint16 // the number of the stayBook
	machine  stayMachine
	node     uint8 // 1 + its index
	holds    bool  // the session renews its lease for it
	requests [stayRequests]stayRequest
	stale    bool // the claim in progress proves no lease
	old      bool // the claim in progress proves no recent write
	armed    bool // at the server: the children are watched
	own      bool // and so is the node
	changed  bool // the event is on its way
	gone     bool
	since    uint8 // grants since the node was wanted
	_        bool
}

type stayLocal struct {
	state  stayLocalState
	slot   uint8
	rounds uint8
}

type (
	stayMachine    uint8
	stayRequest    uint8
	stayLocalState uint8
)

const (
	machineNone stayMachine = iota
	machineQueues
	machineHolds
	machineLapsed
	machineLeaves
)

// The requests of a slot.
const (
	stayArm = iota
	stayClaim
	stayVerify // the claim by which the machine verifies that it holds
	stayRequests
)

const (
	stayNothing stayRequest = iota
	staySent
	stayAlone
	stayOthers
	stayMissing
	stayLost
)

const (
	localIdle stayLocalState = iota
	localWaits
	localHolds
)

const (
	stayUnnoted   violation = "a holder that will not hear of the end of its lease"
	stayForgotten violation = "a local grant though a stranger has waited for two intervals, and a round trip"
	stayUnbounded violation = "more local grants than the bound"
	stayCutOff    violation = "a local grant without a connection"
	stayShrinks   violation = "a grant that is not behind the one before"
)

type stayModel struct {
	handoffs int32
	locals   int // of the second session
	rounds   uint8
	far      bool // a round trip takes two intervals: no answered write is fresh

	books []stayBook
	index map[stayBook]uint16
	bad   violation
	asked bool // the step is the answer to a claim that was sent before the latest tick
}

// stayBook is the state by which a session decides about one node.
type stayBook struct {
	Stay
	Contention
}

func (m *stayModel) intern(b stayBook) uint16 {
	if id, ok := m.index[b]; ok {
		return id
	}
	id := uint16(len(m.books))
	m.books = append(m.books, b)
	m.index[b] = id
	return id
}

func (m *stayModel) first(left stayBudget) stayWorld {
	m.index = map[stayBook]uint16{}
	m.intern(stayBook{})
	w := stayWorld{left: left}
	for i := range w.sessions {
		s := &w.sessions[i]
		s.up, s.lease, s.fresh, s.epoch = true, true, !m.far, 1
		for j := range s.locals {
			if i == 0 || j < m.locals {
				s.locals[j].rounds = m.rounds
			}
		}
	}
	return w
}

// stayStep is a step of a session, of its slot or local contender, and of the slot's
// request.
type stayStep struct {
	kind          stayStepKind
	s, i, request uint8
}

type stayStepKind uint8

const (
	stepAsks stayStepKind = iota
	stepReleases
	stepCreates // the machine
	stepGranted
	stepDeletes
	stepWatchesAgain
	stepExecutes
	stepAnswers
	stepChangedTold
	stepGoneTold
	stepAges
	stepSessionEnds
	stepConnects
	stepStrangerLeaves
	stayProgress // the other steps need not happen
	stepTimeIsUp // the time for local grants may be long, so progress must not depend on its end
	stepWithdraws
	stepRests
	stepProbes
	stepTicks
	stepBreaks
	stepRunsOut
	stepExpires
	stepRemoved
	stepStrangerComes
	stepNeighbourComes // of the first session, not cached
	stepJunk
)

func (*stayModel) Progress(s stayStep) bool { return s.kind < stayProgress }

func (m *stayModel) Goal(w *stayWorld) bool {
	for _, s := range w.sessions {
		if slices.ContainsFunc(s.locals[:], func(l stayLocal) bool { return l.state != localIdle || l.rounds > 0 }) {
			return false
		}
	}
	return w.head() == 0
}

func (m *stayModel) Enabled(w *stayWorld, steps []stayStep) []stayStep {
	add := func(may bool, kind stayStepKind, s, i int) {
		if may {
			steps = append(steps, stayStep{kind: kind, s: uint8(s), i: uint8(i)})
		}
	}
	for i := range w.sessions {
		s := &w.sessions[i]
		live := s.up && !s.dead
		events := slices.ContainsFunc(s.slots[:], func(t staySlot) bool { return t.changed || t.gone })
		holds := slices.ContainsFunc(s.slots[:], func(t staySlot) bool { return t.holds })
		for j := range s.slots {
			t := &s.slots[j]
			book := m.books[t.book]
			again := t.machine == machineHolds && book.Paced
			add(live && t.machine == machineQueues && t.node == 0, stepCreates, i, j)
			add(live && t.machine == machineQueues && t.node != 0 && w.head() == t.node, stepGranted, i, j)
			add(live && t.machine == machineLeaves, stepDeletes, i, j)
			add(again, stepWatchesAgain, i, j)
			for k, r := range t.requests {
				of := stayStep{stepExecutes, uint8(i), uint8(j), uint8(k)}
				if live && r == staySent {
					steps = append(steps, of)
				}
				if of.kind = stepAnswers; r == stayLost || s.up && r > staySent && (k == stayArm || !events) {
					steps = append(steps, of)
				}
			}
			add(t.changed, stepChangedTold, i, j)
			add(t.gone, stepGoneTold, i, j)
			add(book.wanted && !book.Over && book.left > 0, stepTimeIsUp, i, j)
			add(book.Idle() && w.stranger != 1, stepAges, i, j)
			add(book.Idle() && t.machine == machineHolds && book.Rest(), stepRests, i, j)
			add(w.left.remove > 0 && t.node != 0 && w.queue[t.node-1] != 0 && t.machine == machineHolds, stepRemoved, i, j)
		}
		for j := range s.locals {
			l := &s.locals[j]
			add(l.state == localIdle && l.rounds > 0, stepAsks, i, j)
			add(l.state == localHolds, stepReleases, i, j)
			add(l.state == localWaits && w.left.withdraw > 0, stepWithdraws, i, j)
		}
		busy := holds || s.slots != [staySlots]staySlot{}
		add(!s.up && !s.dead, stepConnects, i, 0)
		add(s.dead, stepSessionEnds, i, 0)
		add(live && holds && !events && (!s.fresh && !m.far || !s.lease), stepProbes, i, 0)
		add(s.up && busy && w.left.cut > 0, stepBreaks, i, 0)
		add(s.lease && busy && w.left.lapse > 0, stepRunsOut, i, 0)
		add(!s.lease && !s.dead && w.left.expire > 0, stepExpires, i, 0)
	}
	add(w.stranger == 1 && w.strangerHolds(), stepStrangerLeaves, 0, 0)
	add(w.stranger == 0 && w.left.stranger > 0, stepStrangerComes, 0, 0)
	add(w.stranger == 0 && w.left.stranger > 0, stepNeighbourComes, 0, 0)
	add(w.left.tick > 0, stepTicks, 0, 0)
	add(w.left.junk > 0, stepJunk, 0, 0)
	return steps
}

// head is the first node in the queue, or 0.
func (w *stayWorld) head() uint8 {
	return uint8(1 + slices.IndexFunc(w.queue[:], func(owner uint8) bool { return owner != 0 }))
}

func (w *stayWorld) strangerHolds() bool { return w.head() != 0 && w.queue[w.head()-1] == stayStranger }

// create creates a node, and fires the watches of the directory.
func (w *stayWorld) create(owner uint8) (node uint8) {
	if int(w.next) == stayNodes {
		panic("more nodes than this world has room for")
	}
	w.queue[w.next] = owner
	w.next++
	w.fires(0)
	return w.next
}

func (w *stayWorld) remove(node uint8) {
	if node != 0 && w.queue[node-1] != 0 {
		w.queue[node-1] = 0
		w.fires(node)
	}
}

// fires fires the watches of the directory, and those of a node that is gone.
func (w *stayWorld) fires(gone uint8) {
	for i := range w.sessions {
		for j := range w.sessions[i].slots {
			t := &w.sessions[i].slots[j]
			if t.armed {
				t.armed, t.changed = false, true
			}
			if gone != 0 && t.node == gone && t.own {
				t.own, t.gone = false, true
			}
		}
	}
}

func (m *stayModel) Take(w *stayWorld, step stayStep) violation {
	m.bad = ""
	m.do(w, step)
	if m.bad == "" {
		m.bad = w.check()
	}
	w.tidy()
	return m.bad
}

func (w *stayWorld) check() violation {
	holders := 0
	if w.strangerHolds() {
		holders++
	}
	for i := range w.sessions {
		s := &w.sessions[i]
		for j := range s.locals {
			if s.locals[j].state != localHolds {
				continue
			}
			t := &s.slots[s.locals[j].slot]
			switch {
			case !t.holds:
				return stayUnnoted
			case w.byHand&(1<<(t.node-1)) != 0:
			case w.queue[t.node-1] == 0:
				return noHold
			default:
				holders++
			}
		}
	}
	if holders > 1 {
		return twoHolders
	}
	return ""
}

// tidy forgets what no longer has an influence.
func (w *stayWorld) tidy() {
	for i := range w.sessions {
		s := &w.sessions[i]
		for j := range s.slots {
			if t := &s.slots[j]; t.machine == machineNone && t.requests == [stayRequests]stayRequest{} {
				*t = staySlot{}
			}
		}
	}
}

func (m *stayModel) Narrate() (tell func(*stayWorld, stayStep) []string, standing func(*stayWorld) string) {
	return m.tell, m.standing
}

func (m *stayModel) tell(w *stayWorld, s stayStep) []string {
	names := [...]string{
		"asks", "releases", "creates its node", "is granted it", "deletes its node", "may watch the directory again",
		"has a request executed", "gets its answer", "hears that the directory has changed", "hears that its node is gone",
		"is idle for long", "hears that its session is over", "connects", "stranger leaves", "",
		"has had its time", "withdraws", "rests", "probes", "two intervals pass", "loses the connection", "lets its lease run out", "is ended by the leader",
		"has its node removed", "stranger comes", "stranger of the session comes", "some other node comes",
	}
	m.Take(w, s)
	return []string{fmt.Sprintf("session %d, %d.%d %s", s.s, s.i, s.request, names[s.kind])}
}

func (m *stayModel) standing(w *stayWorld) string {
	text := fmt.Sprintf("queue %v", w.queue)
	for _, s := range w.sessions {
		for _, t := range s.slots {
			text += fmt.Sprintf("\n      slot %+v of %+v", t, m.books[t.book])
		}
		text += fmt.Sprintf("\n      locals %+v up %v lease %v fresh %v", s.locals, s.up, s.lease, s.fresh)
	}
	return text
}
