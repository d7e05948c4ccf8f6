package recipes

// Stay decides what happens to the node of a cached lock while the process has it. An
// ordinary acquisition owns the node. The stay decides when a contender of the process is
// granted the lock, which takes no request, and when the node is released because another
// contender is waiting. It is a comparable value.
//
// The node excludes others: while it exists, no contender passes it. So a local grant is
// as safe as the machine's, as long as the lease is alive. The other rules let others in:
//
//  1. The node is handed on only if any other contender would be known; see [Contention].
//  2. Once another contender is known, only a bounded number of local grants follows
//     before the node is deleted.
//
// Distributed lock managers also keep a lock where it was last used until another site
// requests it, and lock cohorting (Dice, Marathe, Shavit, PPoPP 2012) hands a lock on
// locally a bounded number of times.
type Stay struct {
	Holders int32 // contenders of the process that hold the lock, in the current turn
	Waiting int32 // contenders of the process that wait
	Busy    int32 // transactions in progress
	Turns   uint64

	Stands bool // the node's acquisition was granted the lock
	Worth  bool // the node is worth keeping while the process does not use it
	Spent  bool // the node is deleted when its holder leaves
	Over   bool // no grant follows

	watched bool  // the acquisition was asked to watch for other contenders
	wanted  bool  // another contender is known or suspected; never cleared
	left    int32 // if wanted: local grants that may still follow
}

// StayMove is what to do next.
type StayMove uint8

const (
	// StayWaits means that there is nothing to do.
	StayWaits StayMove = iota
	// StayGrants means that the first waiter gets the lock.
	StayGrants
	// StayWatches means that the acquisition that owns the node must learn of other
	// contenders.
	StayWatches
	// StayGoes means that the node is given up. The waiters queue up again.
	StayGoes
)

// String returns the name of the move.
func (m StayMove) String() string { return [...]string{"waits", "grants", "watches", "goes"}[m] }

// Idle reports whether the node exists and the process does not use it.
func (s *Stay) Idle() bool {
	return s.Stands && !s.Over && s.Holders == 0 && s.Waiting == 0 && s.Busy == 0
}

// Next returns what to do next. Call it after each change, until it returns [StayWaits].
// known reports whether every other contender is known; it is called only if a grant
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
	// The machine's Grant has proven everything that the first turn needs.
	if s.Waiting == 0 || !first && !known() {
		return StayWaits
	}
	if s.wanted && !first {
		s.left--
	}
	s.Turns, s.Waiting, s.Holders = s.Turns+1, s.Waiting-1, 1
	return StayGrants
}

// Accepts reports whether one more contender may wait for the node: it would get its turn
// within the bound.
func (s *Stay) Accepts() bool {
	return !s.Over && !s.Spent && (!s.wanted || s.Waiting < s.room())
}

// Excess returns how many of the waiters will not get a turn.
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

// room returns how many more turns may follow once another contender is known.
func (s *Stay) room() int32 {
	if s.Turns == 0 {
		return s.left + 1 // the first turn does not count: the machine queued up for it
	}
	return s.left
}

// Want notes that another contender is known or suspected, and reports whether that is
// new. At most handoffs local grants may follow.
func (s *Stay) Want(handoffs int32) (first bool) {
	if s.wanted {
		return false
	}
	s.wanted, s.left = true, handoffs
	return true
}

// EndHandoffs notes that another contender has been known for long enough.
func (s *Stay) EndHandoffs() { s.left = 0 }

// Resume notes a new connection: in between, a contender may have arrived unnoticed.
func (s *Stay) Resume() {
	s.EndHandoffs()
	s.Spent = s.Spent || s.Idle()
}

// Habit remembers whether the node at a lock's path is worth keeping. It is if two of our
// nodes have consecutive numbers, because then no other contender queued in between. If
// another contender soon arrives anyway, the next stays are skipped: about twice as many
// each time it happens in a row.
type Habit struct {
	seen bool
	last int64
	skip uint8 // stays still to be skipped
	step uint8 // how often in a row another contender came soon
}

const (
	mostSteps = 6
	fewTurns  = 3 // a stay with at most this many was not worth its watch and the other's delay
)

// Worth takes the number of a granted node, and reports whether the node is worth
// keeping.
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
