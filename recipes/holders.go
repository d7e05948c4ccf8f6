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

// KeepsOut reports whether the holder of a node blocks the contender.
func KeepsOut(holder, contender events.Name) bool {
	rule := Rule(Write{})
	if contender.Kind.Reads() {
		rule = Read{}
	}
	return len(rule.Blockers([]events.Name{holder}, contender)) > 0
}

// Beyond returns the contenders in the queue of a semaphore that need more than the given
// number of free permits. The queue is in any order.
func Beyond(free int, queue []events.Name) []events.Name {
	queue = slices.SortedFunc(slices.Values(queue), events.CompareNames)
	for i, c := range queue {
		if free -= max(1, events.PermitsOf(c.Text)); free < 0 {
			return queue[i:]
		}
	}
	return nil
}

// Newcomers are the contenders that a holder knows. The zero value is that of a holder
// that knows none.
type Newcomers struct{ known map[string]struct{} }

// See takes the contenders that the holder keeps out, each under a unique name, and
// reports whether one of them is new. A contender that has left is forgotten: it does not
// come again. One of the rest, which the holder does not keep out at the moment, does not
// become new later either.
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
