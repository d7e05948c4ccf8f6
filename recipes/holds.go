package recipes

import (
	"math"
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// Holds reports whether the contender who in the queue of a lock holds it, or will as
// soon as it learns that its turn has come. The rule is that of any contender of the
// lock. For a read/write lock, who's kind says whether it reads or writes. The queue is
// in any order.
func Holds(rule Rule, queue []events.Name, who events.Name) bool {
	switch rule.(type) {
	case Read, Write:
		rule = Write{} // a contender of unknown kind is exclusive
		if who.Kind.Reads() {
			rule = Read{}
		}
	}
	return len(rule.Blockers(queue, who)) == 0
}

// Holders returns the contenders in the queue of a lock that hold it, as [Holds] reports
// by the rule of a read/write lock. Without readers that is the rule of a mutex. The
// queue is in any order, and so is the result.
func Holders(queue []events.Name) (holders []events.Name) {
	first, firstWriter := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, c := range queue {
		first = min(first, c.Seq)
		if !c.Kind.Reads() {
			firstWriter = min(firstWriter, c.Seq)
		}
	}
	for _, c := range queue {
		// A writer that becomes a reader has two nodes of one number, and holds by both.
		if c.Seq == first || c.Kind.Reads() && c.Seq <= firstWriter {
			holders = append(holders, c)
		}
	}
	return holders
}

// Leads returns which of an election's candidates leads, or will as soon as it learns
// that its turn has come: the first in the queue. It returns false if there are none. As
// long as that node exists, no other candidate leads. The queue is in any order.
func Leads(queue []events.Name) (events.Name, bool) {
	if len(queue) == 0 {
		return events.Name{}, false
	}
	return slices.MinFunc(queue, events.CompareNames), true
}
