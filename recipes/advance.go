package recipes

// This file is about what an advance asks, and what the answers mean.

// Part is one of the questions of an advance.
type Part uint8

// The parts.
const (
	PartFloor Part = iota + 1 // the directory's data are read
	PartNext                  // the next contender's node is read, and watched
	PartClaim                 // the own node is claimed
)

// Handoff is an advance in progress: its questions, and the answers so far. It is a small
// comparable value.
//
// It asks two things in one batch, in any order: whether the directory's floor names the
// node that is gone, and whether the own node exists. If the floor names another node,
// the owner left before it held the lock, or uses another library. Then it moves on to
// the next contender's node and watches that.
//
// If the floor names the node, the contender is the first, whenever the questions are
// answered:
//
//  1. The owner of the missing node held the lock. It wrote the floor in the transaction
//     that deleted its node.
//  2. From that transaction on, no older contender is left.
//  3. There never was a contender between that node and the own one.
//
// The floor need not be read if a contender of this session owned the node: the session
// knows that it held the lock. It is as good if the owner of the next node held the lock,
// and that node is gone as well; see [LeaverBook].
type Handoff struct {
	done   uint8 // the parts, as bits
	free   bool  // no contender is ahead
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

// Knows notes, before anything is asked, whether the session knows that no contender is
// ahead.
func (a Handoff) Knows(free bool) Handoff {
	a.free = a.free || free
	return a
}

// Claims notes, before anything is asked, that the session need not send the claim; see
// [Warmth].
func (a Handoff) Claims() Handoff { return a.with(PartClaim) }

// Read notes the directory's data, and the zxid that created the node that is gone. Data
// that could not be read are the zero value.
func (a Handoff) Read(says DirectoryData, past int64) Handoff {
	a.free = says.Names(past)
	return a.with(PartFloor)
}

// Claimed notes the answer to the claim.
func (a Handoff) Claimed(in Input) Handoff {
	_, claimed := in.(Claimed)
	a.failed = !claimed
	return a.with(PartClaim)
}

// Looked notes whether the next node exists and is watched.
func (a Handoff) Looked(stands bool) Handoff {
	a.stands = stands
	return a.with(PartNext)
}

// Answer returns the answer for the machine. It returns false if that is the answer to
// the claim instead.
func (a Handoff) Answer(epoch Epoch) (_ Advanced, is bool) {
	return Advanced{Epoch: epoch, Floor: a.free, Stands: a.stands}, !a.failed
}
