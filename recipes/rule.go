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
