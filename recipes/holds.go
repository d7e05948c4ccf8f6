package recipes

import "github.com/zkgrant/zkgrant/events"

// Holds tells whether a contender of the queue of a lock with this rule holds it, or
// will as soon as it hears that its turn has come. The queue is in any order.
func Holds(rule Rule, queue []events.Name, who events.Name) bool {
	return len(rule.Blockers(queue, who)) == 0
}
