package recipes

import "github.com/zkgrant/zkgrant/events"

// Rule is what makes one kind of lock differ from another.
type Rule interface {
	// Blockers returns a witness: while every contender in it exists, me stays
	// blocked. An empty answer means that nothing in the queue blocks me. So
	// whoever watches exactly the answer misses no wake-up. The queue is in any
	// order and may or may not contain me.
	Blockers(queue []events.Name, me events.Name) []events.Name
}

// Mutex admits one contender at a time, in the order in which they came.
type Mutex struct{}

// Blockers returns the nearest older contender of whatever kind: in a mutex's
// queue every foreign lock is exclusive, too.
func (Mutex) Blockers(queue []events.Name, me events.Name) []events.Name {
	var nearest []events.Name
	for i, c := range queue {
		if c.Seq < me.Seq && (nearest == nil || c.Seq > nearest[0].Seq) {
			nearest = queue[i : i+1 : i+1]
		}
	}
	return nearest
}

// remembered is how many of those ahead a waiter remembers. One is what it waits
// for; the others save it a listing each time that one ahead gives up.
const remembered = 4

// neighbours are the names of contenders ahead, the nearest first; the rest is
// empty. It is an array, so that whoever has it in it can be compared.
type neighbours [remembered]string

func (n neighbours) shift() neighbours {
	copy(n[:], n[1:])
	n[remembered-1] = ""
	return n
}

// nearest returns the contender that blocks me, the one that would block me without
// that, and so on.
func nearest(rule Rule, queue []events.Name, me events.Name) (n neighbours) {
	for i := range n {
		blockers := rule.Blockers(queue, me)
		if len(blockers) == 0 {
			break
		}
		n[i] = blockers[0].Text
		me.Seq = blockers[0].Seq // whoever bears the same number is left out, and is found by a listing
	}
	return n
}

// replaceable tells whether the contender's place may be taken by another without
// anything that those behind could see. The owner of a write node may trade it for a
// read node that bears the same number, our own as well as Curator's: 1. W holds, and
// B behind it has listed W alone; 2. W creates its read node, and deletes its write
// node; 3. B hears that the only one ahead is gone, and would enter beside the reader.
func replaceable(k events.Kind) bool { return k == events.KindWrite }

// kindOf returns the kind of a contender that was remembered.
func kindOf(name string) events.Kind {
	n, _ := events.ParseName(name)
	return n.Kind
}

// usable tells whether the numbers in the queue say who is first: all are in the
// range that servers hand out once and in order, and nobody else bears mine.
func usable(queue []events.Name, me events.Name) bool {
	for _, c := range queue {
		if c.Check() != nil || c.Seq == me.Seq && c.Text != me.Text {
			return false
		}
	}
	return me.Check() == nil
}

// ahead counts the contenders older than me.
func ahead(queue []events.Name, me events.Name) int {
	n := 0
	for _, c := range queue {
		if c.Seq < me.Seq {
			n++
		}
	}
	return n
}
