package recipes

import (
	"math"
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// Holds reports whether who, a contender in the queue, holds the lock, or will as soon as
// it learns that it is its turn. rule may be that of any of the lock's contenders: for a
// read/write lock, the kind of who decides. The queue may be in any order.
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

// Holders returns the contenders in the queue that hold the lock, as [Holds] would report
// for a read/write lock. Without readers in the queue, that is correct for a mutex, too.
// The queue may be in any order, and the result has no particular order.
func Holders(queue []events.Name) (holders []events.Name) {
	first, firstWriter := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, c := range queue {
		first = min(first, c.Seq)
		if !c.Kind.Reads() {
			firstWriter = min(firstWriter, c.Seq)
		}
	}
	for _, c := range queue {
		// A writer that becomes a reader has two nodes with one number, and holds with
		// both.
		if c.Seq == first || c.Kind.Reads() && c.Seq <= firstWriter {
			holders = append(holders, c)
		}
	}
	return holders
}

// KeepsOut reports whether the holder of a node blocks the contender.
func KeepsOut(holder, contender events.Name) bool {
	return !Holds(Write{}, []events.Name{holder}, contender)
}

// Beyond returns the contenders in a semaphore's queue for which the given number of free
// permits is not enough. The queue may be in any order.
func Beyond(free int, queue []events.Name) []events.Name {
	queue = slices.SortedFunc(slices.Values(queue), events.CompareNames)
	for i, c := range queue {
		if free -= max(1, events.PermitsOf(c.Text)); free < 0 {
			return queue[i:]
		}
	}
	return nil
}

// Newcomers remembers which contenders a holder knows. The zero value knows none.
type Newcomers struct{ known map[string]struct{} }

// See notes the contenders that the holder keeps out, each with a unique name, and
// reports whether one of them is new. A contender that has left is forgotten, because
// names are not used twice. rest are the queue's other contenders: those that were known
// before stay known, even if they are kept out again later.
func (n *Newcomers) See(kept []string, rest ...string) (came bool) {
	now := make(map[string]struct{}, len(kept))
	for _, c := range kept {
		if _, known := n.known[c]; !known {
			came = true
		}
		now[c] = struct{}{}
	}
	for _, c := range rest {
		if _, known := n.known[c]; known {
			now[c] = struct{}{}
		}
	}
	n.known = now
	return came
}
