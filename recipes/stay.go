package recipes

// Stay decides about the node of a cached lock while the process has it. An ordinary
// acquisition has the node. The stay decides when a contender of the process is granted
// the lock, which asks no server, and when the node is released because another contender
// waits. It is a comparable value.
//
// The node excludes others: while it exists no contender passes it. So a local grant is
// as safe as the machine's, as long as the lease is live. The rest is about letting
// others in:
//
//  1. The node is handed on only if every other contender would be known, see
//     [Contention].
//  2. Once another contender is known, a bounded number of local grants follows, and the
//     node goes.
//
// Distributed lock managers keep a lock where it was used last until it is asked for.
// Lock cohorting (Dice, Marathe, Shavit, PPoPP 2012) hands a lock on nearby a bounded
// number of times.
type Stay struct {
	Holders int32 // contenders of the process that hold, in the present turn
	Waiting int32 // and those that wait
	Busy    int32 // transactions under way
	Turns   uint64

	Stands bool // the node was granted
	Worth  bool // it pays to keep the node while the process does not use it
	Spent  bool // the node goes with its holder
	Over   bool // no grant follows

	watched bool  // the acquisition was asked to learn of other contenders
	wanted  bool  // another contender is known, or may be there; never cleared
	left    int32 // local grants that may follow then
}

// StayMove is what is to be done next.
type StayMove uint8

const (
	// StayWaits says that nothing is to be done.
	StayWaits StayMove = iota
	// StayGrants says that the first waiter has the lock.
	StayGrants
	// StayWatches says that the acquisition which has the node is to learn of other
	// contenders.
	StayWatches
	// StayGoes says that the node is given up. The waiters queue up anew.
	StayGoes
)

// String names the move.
func (m StayMove) String() string { return [...]string{"waits", "grants", "watches", "goes"}[m] }

// Idle reports whether the node stands and the process does not use it.
func (s *Stay) Idle() bool {
	return s.Stands && !s.Over && s.Holders == 0 && s.Waiting == 0 && s.Busy == 0
}

// Next returns what is to be done. It is asked after each change, until it says
// StayWaits. known reports whether each other contender is known; it is called if a grant
// depends on it.
func (s *Stay) Next(known func() bool) StayMove {
	first := s.Turns == 0
	switch {
	case s.Over, !s.Stands && s.Waiting > 0 && !s.Spent:
		return StayWaits
	case !s.Stands:
		s.Over = true
		return StayGoes
	case !s.watched && !first && s.Holders == 0 && (s.Waiting > 0 || s.Worth):
		if s.watched = true; !s.wanted && !s.Spent {
			return StayWatches
		}
	}
	if s.Holders > 0 || s.Busy > 0 {
		return StayWaits
	}
	unwanted := s.Waiting == 0 && (s.wanted || !s.watched)
	reached := s.wanted && s.left == 0 && !first
	if s.Spent || unwanted || reached {
		s.Over = true
		return StayGoes
	}
	// The machine's Grant has proven all that the first turn needs.
	if s.Waiting == 0 || !first && !known() {
		return StayWaits
	}
	if s.wanted && !first {
		s.left--
	}
	s.Turns, s.Waiting, s.Holders = s.Turns+1, s.Waiting-1, 1
	return StayGrants
}

// Accepts reports whether one more contender may wait for the node: it will have its turn
// within the bound.
func (s *Stay) Accepts() bool {
	return !s.Over && !s.Spent && (!s.wanted || s.Waiting < s.room())
}

// Excess returns how many of the waiters will have no turn.
func (s *Stay) Excess() int32 {
	switch {
	case s.Over || s.Spent:
		return s.Waiting
	case s.wanted:
		return max(0, s.Waiting-s.room())
	default:
		return 0
	}
}

// room returns how many turns may follow, once the node is wanted.
func (s *Stay) room() int32 {
	if s.Turns == 0 {
		return s.left + 1 // the machine has queued up for the first one
	}
	return s.left
}

// Want notes that another contender is known, or may be there, and reports whether that
// is new. handoffs local grants may follow.
func (s *Stay) Want(handoffs int32) (first bool) {
	if s.wanted {
		return false
	}
	s.wanted, s.left = true, handoffs
	return true
}

// EndHandoffs notes that another contender has been known for long enough.
func (s *Stay) EndHandoffs() { s.left = 0 }

// Resume notes that there is another connection: a contender may have come meanwhile
// without news of it.
func (s *Stay) Resume() {
	s.EndHandoffs()
	s.Spent = s.Spent || s.Idle()
}

// Habit remembers of a lock's path whether it pays to keep the node there. It pays if no
// other contender has queued up between two nodes of ours: their numbers are consecutive.
// If another contender comes soon all the same, the next stays are let go: twice as many
// each time that it happens in succession.
type Habit struct {
	seen bool
	last int64
	skip uint8 // stays that are let go
	step uint8 // how often in succession another contender came soon
}

const (
	mostSteps = 6
	fewTurns  = 3 // a stay with at most so many has not paid for its watch and the other contender's delay
)

// Worth takes the number of a node that was granted, and reports whether it pays to keep
// the node.
func (h Habit) Worth(seq int64) (_ Habit, worth bool) {
	consecutive := h.seen && seq == h.last+1
	h.seen, h.last = true, seq
	if !consecutive {
		return h, false
	}
	if h.skip > 0 {
		h.skip--
		return h, false
	}
	return h, true
}

// Ended learns from a stay that is over.
func (h Habit) Ended(s Stay) Habit {
	switch {
	case !s.watched:
	case !s.wanted || s.Turns > fewTurns:
		h.step = 0
	default:
		h.step = min(h.step+1, mostSteps)
		h.skip = 1<<h.step - 1
	}
	return h
}
