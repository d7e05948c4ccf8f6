package recipes

// This file is about the questions of an advance and the meaning of the answers.

// Part is one question of an advance.
type Part uint8

// The parts.
const (
	PartFloor Part = iota + 1 // the directory's data are read
	PartNext                  // the next contender's node is read, and watched
	PartClaim                 // the contender's own node is claimed
)

// Handoff is an advance in progress: its questions and the answers so far. It is a small
// comparable value.
//
// It asks two questions in one batch, in any order: whether the directory's floor names
// the missing node, and whether the contender's own node exists. If the floor names
// another node, the owner of the missing one left before it held the lock, or uses
// another library. Then a third request reads and watches the next contender's node.
//
// If the floor names the missing node, the contender is first, whenever the questions are
// answered:
//
//  1. The owner of the missing node held the lock. It wrote the floor in the transaction
//     that deleted its node.
//  2. From that transaction on, no older contender is left.
//  3. No contender was ever between that node and the contender's own.
//
// The floor need not be read if the missing node belonged to a contender of this session,
// which knows whether it held the lock. The same is true of the owner of the next node,
// if that node is gone, too; see [LeaverBook].
type Handoff struct {
	done   uint8 // the parts, as bits
	free   bool  // no contender is ahead
	stands bool
	failed bool // the claim failed
}

// Wants reports whether to ask this question now.
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

// Knows notes whether the session already knows that no contender is ahead. It is called
// before any question is asked.
func (a Handoff) Knows(free bool) Handoff {
	a.free = a.free || free
	return a
}

// Claims notes that the session need not send the claim; see [Warmth]. It is called
// before any question is asked.
func (a Handoff) Claims() Handoff { return a.with(PartClaim) }

// Read notes the directory's data, and past, the zxid that created the missing node. Data
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

// Answer returns the answer for the machine. It returns false if the machine receives the
// answer to the claim instead.
func (a Handoff) Answer(epoch Epoch) (_ Advanced, is bool) {
	return Advanced{Epoch: epoch, Floor: a.free, Stands: a.stands}, !a.failed
}
