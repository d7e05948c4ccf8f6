package recipes

// This file is what an advance asks, and what the answers come to.

// Part is one of the things that an advance asks.
type Part uint8

// The parts.
const (
	PartFloor Part = iota + 1 // the directory's data are read
	PartNext                  // the next one is read, and watched
	PartClaim                 // the own node is claimed
)

// Handoff is an advance under way: what has been asked, and what that has said. It is a small comparable value.
//
// It asks two things in one flight, in any order: whether the directory's floor names the node that is gone, and whether the own one
// stands. Only if the floor does not name it, which is so if it left before it held the lock or is not one of ours, it goes on to the
// next one and watches that.
//
// A floor that names the node was written in the transaction that removed it, by its owner, which held the lock. Whenever it is read,
// nobody older was left from that transaction on, and nobody between that node and the own one ever was; so the order in which the
// questions are answered does not matter.
//
// It need not be read if the owner was a contender of this session: that it held the lock is known. That the next one did is as
// good, once its node is gone as well; see [LeaverBook].
type Handoff struct {
	done   uint8 // the parts, as bits
	free   bool  // nobody is ahead
	stands bool
	failed bool // the claim is no proof
}

// Wants reports whether a part is to be asked now.
func (a Handoff) Wants(p Part) bool {
	switch {
	case a.has(p):
		return false
	case p == PartFloor:
		return !a.free
	case p == PartNext:
		return a.has(PartFloor) && a.has(PartClaim) && !a.free && !a.failed
	default:
		return true
	}
}

func (a Handoff) has(p Part) bool { return a.done&(1<<p) != 0 }

func (a Handoff) with(p Part) Handoff {
	a.done |= 1 << p
	return a
}

// Knows takes, before anything is asked, whether the session knows that nobody is ahead.
func (a Handoff) Knows(free bool) Handoff {
	a.free = a.free || free
	return a
}

// Claims takes, before anything is asked, that the session need not send the claim; see [Warmth].
func (a Handoff) Claims() Handoff { return a.with(PartClaim) }

// Read takes the directory's data, and the zxid that created the node that is gone. Data that could not be read are the zero value.
func (a Handoff) Read(says DirectoryData, past int64) Handoff {
	a.free = says.Names(past)
	return a.with(PartFloor)
}

// Claimed takes the answer to the claim.
func (a Handoff) Claimed(in Input) Handoff {
	_, claimed := in.(Claimed)
	a.failed = !claimed
	return a.with(PartClaim)
}

// Looked takes whether the next one stands, and is watched.
func (a Handoff) Looked(stands bool) Handoff {
	a.stands = stands
	return a.with(PartNext)
}

// Answer returns what the machine is told, and false if that is the answer to the claim.
func (a Handoff) Answer(epoch Epoch) (_ Advanced, is bool) {
	return Advanced{Epoch: epoch, Floor: a.free, Stands: a.stands}, !a.failed
}
