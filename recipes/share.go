package recipes

// Share is the book of a node that several contenders of a process hold: one that queued
// up, and those that have re-entered its lock. All are equal, and the machine sees only
// the end of the last one. The zero value has no holder.
type Share struct {
	holders int32
	lost    bool
	taken   bool // a holder that took its Grant has left
	why     Why  // of the first such holder that did not release; else WhyReleased
}

// NewShare returns the book of a node with one holder.
func NewShare() Share { return Share{holders: 1} }

// Enters adds a holder. It returns false if the lock is lost or all holders have left.
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

// Leaves removes a holder that ended with in. When the last one leaves, all is the
// Withdrawn for the machine. A record is deleted if every holder that took its Grant has
// released.
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
