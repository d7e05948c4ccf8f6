package recipes

import (
	"math/bits"

	"github.com/zkgrant/zkgrant/events"
)

// What the explorer's worlds know of wishes to have a lock back.

// The moments by which locks are wanted back, where somebody says one.
const (
	momentSoon = 1 + iota
	momentLate
	anyTime // of a wish that says none
)

// wishes is what one client has heard of its node, in the higher half, and what its caller was told, in the lower one: the soonest
// of the moments, and 0 for nothing.
type wishes uint8 //nolint:recvcheck // two of its methods change it where it lies

func (s wishes) told() uint8 { return uint8(s) & 0xf }

func (s wishes) heard() uint8 { return uint8(s) >> 4 }

// due returns the moment for which the shell has set its clock, or 0.
func (s wishes) due() uint8 {
	if s.told() == anyTime {
		return 0
	}
	return s.told()
}

// hear notes a wish about the own node.
func (s *wishes) hear(by uint8) {
	if by == 0 {
		by = anyTime
	}
	if s.heard() == 0 || by < s.heard() {
		*s = wishes(by<<4 | s.told())
	}
}

// tell notes what the caller is told, and reports whether that is anything new to him.
func (s *wishes) tell(by uint8) bool {
	if by == 0 {
		by = anyTime
	}
	news := s.told() == 0 || by < s.told()
	*s = *s&^0xf | wishes(by)
	return news
}

// enabledWishes appends who may be asked for the lock back.
func enabledWishes(w *world, steps []step) []step {
	for _, wish := range [...]struct {
		left uint8
		kind stepKind
	}{{w.left.wish, stepAskedBack}, {w.left.soon, stepAskedSoon}, {w.left.late, stepAskedLate}} {
		for m := w.past[0] &^ w.outsiders(); wish.left > 0 && m != 0; m &= m - 1 {
			steps = append(steps, step{kind: wish.kind, node: uint8(bits.TrailingZeros8(m))})
		}
	}
	return steps
}

// askBack writes a wish to a node. Whoever watches it reads its data, and is told.
func (e *environment) askBack(w *world, node, by uint8) {
	w.wished |= 1 << node
	for c := range w.clients {
		if cl := &w.clients[c]; cl.conn == connUp && cl.closed == 0 && cl.machine != machineOver {
			e.feed(w, c, input{kind: inAskedBack, epoch: cl.epoch, arg: node, flag: by})
		}
	}
}

// heed checks what a machine makes of wishes: its caller is told of the soonest about the node that he holds by, and of nothing
// else; at that moment he holds no more, and it is no reason for a loss before.
func (e *environment) heed(w *world, c int, before uint32, in input, r *result) violation {
	cl := &w.clients[c]
	own := e.traits[cl.machine].own
	switch was := e.traits[before].own; {
	case was == own || was == noNode:
	case own != noNode && w.forms[own].lease() && !w.forms[was].lease():
		w.wished |= w.wished >> was & 1 << own // what was asked of the place in a semaphore's queue goes with it
	default:
		cl.wishes &= 0xf // another node is another wish
	}
	if in.kind == inAskedBack && own != noNode && in.arg == own && e.machines[cl.machine].why == 0 {
		cl.wishes.hear(in.flag)
	}
	for _, ef := range r.effects {
		switch {
		case ef.kind == efRevoke && (own == noNode || w.wished&(1<<own) == 0):
			return unasked
		case ef.kind == efLose && events.Reason(ef.arg) == events.ReasonRevoked && in.kind != inOverdue:
			return unfounded
		}
	}
	if !cl.holds() {
		return ""
	}
	if in.kind == inOverdue {
		return overstayed
	}
	if heard := cl.wishes.heard(); heard != 0 && (cl.wishes.told() == 0 || cl.wishes.told() > heard) {
		return unheeded
	}
	return ""
}
