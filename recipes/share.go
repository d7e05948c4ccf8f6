package recipes

// Share is the book of a node that several contenders of a process hold: one that has
// queued, and those that have entered its lock again. All are equal, and only the end of
// the last reaches the machine. The zero value has no holder.
type Share struct {
	holders int32
	lost    bool
	taken   bool // a holder that had taken its Grant has left
	why     Why  // of those the first that has not released; else it is WhyReleased
}

// NewShare returns the book of a node with one holder.
func NewShare() Share { return Share{holders: 1} }

// Enters adds a holder. It returns false if the lock is lost, or all holders have left.
func (s Share) Enters() (_ Share, entered bool) {
	if s.lost || s.holders == 0 {
		return s, false
	}
	s.holders++
	return s, true
}

// Lost notes that the lock is lost. Its holders have not left yet.
func (s Share) Lost() Share {
	s.lost = true
	return s
}

// Leaves removes a holder that has ended with in. If it was the last, the machine
// receives one Withdrawn for all of them. A record is deleted if every holder that has
// taken its Grant has released.
func (s Share) Leaves(in Withdrawn) (_ Share, all Withdrawn, last bool) {
	if s.holders > 0 {
		s.holders--
	}
	if in.Taken {
		s.taken = true
		if s.why == 0 || s.why == WhyReleased {
			s.why = in.Why
		}
	}
	if s.taken {
		in.Why, in.Taken = s.why, true
	}
	return s, in, s.holders == 0
}
