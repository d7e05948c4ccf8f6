package recipes

import (
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// Holds tells whether a contender in the queue of a lock holds it, or will as soon as it
// hears that its turn has come. The rule is that of anybody who uses the lock; whether
// who reads or writes there is for its kind to say. The queue is in any order.
func Holds(rule Rule, queue []events.Name, who events.Name) bool {
	switch rule.(type) {
	case Read, Write:
		rule = Write{} // so far as it is known: a foreign lock is exclusive
		if who.Kind.Reads() {
			rule = Read{}
		}
	}
	return len(rule.Blockers(queue, who)) == 0
}

// Leads returns which of an election's candidates leads, or will as soon as it hears that its turn has
// come: the one in whose way nobody stands. It reports false if there are none. As long as that one stands, no
// other does. The queue is in any order.
func Leads(queue []events.Name) (events.Name, bool) {
	if len(queue) == 0 {
		return events.Name{}, false
	}
	return slices.MinFunc(queue, events.CompareNames), true
}
