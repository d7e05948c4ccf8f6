package recipes

// Stay decides about the node of a cached lock for as long as the node stands for a process. A machine gets the node. The stay
// hears each input of the machine behind it, and what the contenders of the process want. It says when one of these contenders is
// granted the lock, which asks no server, and when the node goes because another contender wants the lock. It is a comparable
// value; its methods return the next one.
//
// The node excludes others: while it exists no contender passes it. So a local grant is as safe as the machine's, as long as the
// lease is live. The rest is about letting others in:
//
//  1. The directory is watched before the node is handed on, so that the session hears of the next contender.
//  2. Silence is believed only if a write that was sent lately was answered: that answer comes behind all earlier events of the
//     connection.
//  3. Once another contender is known, a bounded number of local grants follows, and the node goes.
//
// Distributed lock managers keep a lock where it was used last until it is asked for. Lock cohorting (Dice, Marathe, Shavit, PPoPP
// 2012) hands a lock on nearby a bounded number of times.
type Stay struct {
	epoch   Epoch
	is      stayBits
	holders int32 // of the present turn
	waiting int32
	busy    int32 // transactions under way
	left    int32 // local grants that may follow, once the node is wanted
	turns   uint64
}

type stayBits uint16

const (
	stayStands  stayBits = 1 << iota // the node was granted
	stayOver                         // no grant follows
	stayUp                           // there is a connection
	stayWorth                        // it pays to keep the node while the process does not use it
	stayWatched                      // the directory is to be armed whenever it is not armed
	stayArming                       // an Arm is under way
	stayArmed                        // the directory and the node are watched on this connection
	stayMissed                       // the directory has changed since the Arm that is under way
	stayProving                      // a Claim is under way
	stayResting                      // the session renews no lease for the node
	stayWanted                       // another contender is in the directory, or may be; never cleared
	staySpent                        // the node is not handed on
)

// StayMove is what is to be done next.
type StayMove uint8

const (
	// StayWaits says that nothing is to be done.
	StayWaits StayMove = iota
	// StayGrants says that the first waiter has the lock.
	StayGrants
	// StayArms says that an Arm is to be sent.
	StayArms
	// StayClaims says that a Claim is to be sent.
	StayClaims
	// StayGoes says that the node is given up. The waiters queue up anew.
	StayGoes
)

// String names the move.
func (m StayMove) String() string { return [...]string{"waits", "grants", "arms", "claims", "goes"}[m] }

func (s Stay) has(b stayBits) bool     { return s.is&b != 0 }
func (s Stay) with(b stayBits) Stay    { s.is |= b; return s }
func (s Stay) without(b stayBits) Stay { s.is &^= b; return s }

// Over reports whether no grant follows.
func (s Stay) Over() bool { return s.has(stayOver) }

// Turn returns the number of the present turn, or of the latest one.
func (s Stay) Turn() uint64 { return s.turns - 1 }

// Held reports whether a contender of the process holds.
func (s Stay) Held() bool { return s.holders > 0 }

// Waiting returns how many contenders of the process wait.
func (s Stay) Waiting() int { return int(s.waiting) }

// Idle reports whether the node stands and the process does not use it.
func (s Stay) Idle() bool {
	return s.has(stayStands) && !s.Over() && s.holders == 0 && s.waiting == 0 && s.busy == 0
}

// Wanted reports whether another contender is known.
func (s Stay) Wanted() bool { return s.has(stayWanted) }

// Next returns what is to be done. It is asked behind every change of the stay, until it says StayWaits. proven says that the lease
// is live, and that a write sent within two probe intervals was answered.
func (s Stay) Next(proven bool) (Stay, StayMove) {
	switch {
	case s.Over():
		return s, StayWaits
	case !s.has(stayStands) && (s.waiting == 0 || s.has(staySpent)):
		return s.with(stayOver), StayGoes
	case !s.has(stayStands):
		return s, StayWaits
	}
	first := s.turns == 0
	if !first && s.holders == 0 && (s.waiting > 0 || s.has(stayWorth)) {
		s = s.with(stayWatched)
	}
	switch {
	case s.has(stayWatched) && s.has(stayUp) && !s.has(stayArming|stayArmed|stayWanted|staySpent):
		return s.with(stayArming), StayArms
	case s.holders > 0 || s.busy > 0:
		return s, StayWaits
	case s.has(staySpent), s.waiting == 0 && (s.has(stayWanted) || !s.has(stayWatched)), s.has(stayWanted) && s.left == 0 && !first:
		return s.with(stayOver), StayGoes
	case s.waiting == 0:
		return s, StayWaits
	case first: // the machine's Grant has proven everything
	case !s.has(stayUp), !s.has(stayArmed | stayWanted), s.has(stayProving):
		return s, StayWaits
	case s.has(stayResting), !proven:
		return s.with(stayProving), StayClaims
	case s.has(stayWanted):
		s.left--
	}
	s.turns, s.waiting, s.holders = s.turns+1, s.waiting-1, 1
	return s, StayGrants
}

// Stands notes that the machine was granted the lock. worth says that it pays to keep the node while the process does not use it.
func (s Stay) Stands(epoch Epoch, worth bool) Stay {
	if worth {
		s = s.with(stayWorth)
	}
	s.epoch = epoch
	return s.with(stayStands | stayUp)
}

// Ends notes that the machine has lost the lock, or does not get it.
func (s Stay) Ends() Stay { return s.with(stayOver) }

// Accepts reports whether one more contender may wait for the node: it will have its turn within the bound.
func (s Stay) Accepts() bool {
	return !s.has(stayOver|staySpent) && (!s.has(stayWanted) || s.waiting < s.room())
}

// Excess returns how many of the waiters will have no turn.
func (s Stay) Excess() int {
	switch {
	case s.has(stayOver | staySpent):
		return int(s.waiting)
	case s.has(stayWanted):
		return int(max(0, s.waiting-s.room()))
	default:
		return 0
	}
}

// room returns how many turns may follow, once the node is wanted.
func (s Stay) room() int32 {
	if s.turns == 0 {
		return s.left + 1 // the machine has queued up for the first one
	}
	return s.left
}

// Asks adds a contender of the process that waits.
func (s Stay) Asks() Stay {
	s.waiting++
	return s
}

// Leaves removes a waiter.
func (s Stay) Leaves() Stay {
	s.waiting--
	return s
}

// Joins adds a contender that enters again a lock that it holds. It shares the turn.
func (s Stay) Joins() Stay {
	s.holders++
	return s
}

// Parts removes a holder.
func (s Stay) Parts() Stay {
	s.holders--
	return s
}

// Spends has the node go with its holder, because its name is known outside of the process, or because it was asked back.
func (s Stay) Spends() Stay { return s.with(staySpent) }

// Transacts notes a transaction of the holder: by 1 that it is under way, by -1 that it was answered.
func (s Stay) Transacts(by int32) Stay {
	s.busy += by
	return s
}

// Wants notes that another contender is known, or may be there. handoffs local grants may follow.
func (s Stay) Wants(handoffs int32) Stay {
	if s.Wanted() {
		return s
	}
	s.left = handoffs
	return s.with(stayWanted)
}

// TimeIsUp notes that another contender has been known for long enough.
func (s Stay) TimeIsUp() Stay {
	if s.Wanted() {
		s.left = 0
	}
	return s
}

// Rests reports whether the session need not renew its lease for the node: the process does not use it, and is not about to.
func (s Stay) Rests() (_ Stay, rests bool) {
	if !s.Idle() || s.has(stayResting|stayProving) {
		return s, false
	}
	return s.with(stayResting), true
}

// Hears takes an input of the machine. handoffs is meant as in Wants.
func (s Stay) Hears(in Input, handoffs int32) Stay {
	switch in := in.(type) {
	case Suspended:
		return s.without(stayUp | stayArmed)
	case Reconnected: // a contender may have come meanwhile without news of it
		if s = s.with(stayUp).TimeIsUp(); s.Idle() {
			return s.Spends()
		}
	case Changed:
		if in.Epoch == s.epoch && s.has(stayArming) {
			s = s.with(stayMissed)
		}
		if in.Epoch == s.epoch {
			return s.without(stayArmed)
		}
	case Armed:
		return s.armed(in, handoffs)
	case Refused:
		switch {
		case in.Op == OpArm:
			return s.without(stayArming).Spends()
		case in.Op == OpClaim && s.has(stayProving):
			return s.without(stayProving).Spends()
		}
	case Unknown:
		if in.Op == OpArm {
			return s.without(stayArming).Wants(handoffs)
		}
		if in.Op == OpClaim {
			return s.without(stayProving)
		}
	case Claimed:
		if s.has(stayProving) && in.Fresh {
			s = s.without(stayResting)
		}
		return s.without(stayProving)
	}
	return s
}

func (s Stay) armed(in Armed, handoffs int32) Stay {
	missed := s.has(stayMissed)
	s = s.without(stayArming | stayMissed)
	switch {
	case in.Others:
		return s.Wants(handoffs)
	case !missed && s.has(stayUp):
		return s.with(stayArmed)
	default:
		return s
	}
}

// Habit remembers of a lock's path whether it pays to keep the node there. It pays if no other contender has queued up between two
// nodes of ours: their numbers are consecutive. If another contender comes soon all the same, the next stays are let go: twice as
// many each time that it happens in succession.
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

// Worth takes the number of a node that was granted, and reports whether it pays to keep the node.
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
	case !s.has(stayWatched):
	case !s.Wanted() || s.turns > fewTurns:
		h.step = 0
	default:
		h.step = min(h.step+1, mostSteps)
		h.skip = 1<<h.step - 1
	}
	return h
}
