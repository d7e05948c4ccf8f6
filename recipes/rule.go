package recipes

import "github.com/zkgrant/zkgrant/events"

// Rule is the difference between kinds of lock. It is a comparable value.
type Rule interface {
	// Kind is the kind in the names of its own contenders.
	Kind() events.Kind

	// Exclusive reports whether a holder is the only one. Then no older contender is left
	// when it leaves. If several hold together, older ones may still hold.
	Exclusive() bool

	// Blockers returns a witness: while every contender in it exists, me stays blocked.
	// An empty answer means that nothing in the queue blocks me. So a waiter that watches
	// exactly the answer misses no wake-up. The queue is in any order, with or without
	// me.
	Blockers(queue []events.Name, me events.Name) []events.Name
}

// Mutex admits one contender at a time, in the order of arrival.
type Mutex struct {
	Kazoo bool // its contenders have kazoo's names; see mixed
}

// Kind is the kind of a mutex.
func (m Mutex) Kind() events.Kind {
	if m.Kazoo {
		return events.KindKazooLock
	}
	return events.KindLock
}

// Exclusive is true.
func (Mutex) Exclusive() bool { return true }

// Blockers returns the nearest older contender of any kind: in a mutex's queue every
// foreign lock is exclusive, too.
func (Mutex) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(events.Kind) bool { return true })
}

// Write is the exclusive side of a read/write lock.
type Write struct {
	Kazoo bool // its contenders have kazoo's names, where a writer is a mutex; see mixed
}

// Kind is the kind of a writer.
func (w Write) Kind() events.Kind {
	if w.Kazoo {
		return events.KindKazooLock
	}
	return events.KindWrite
}

// Exclusive is true.
func (Write) Exclusive() bool { return true }

// Blockers returns the nearest older contender, reader or writer.
func (Write) Blockers(queue []events.Name, me events.Name) []events.Name {
	return Mutex{}.Blockers(queue, me)
}

// Read is the shared side of a read/write lock. A reader waits for every writer that came
// before it, so writers do not starve.
type Read struct {
	Kazoo bool // its contenders have kazoo's names; see mixed
}

// Kind is the kind of a reader.
func (r Read) Kind() events.Kind {
	if r.Kazoo {
		return events.KindKazooRead
	}
	return events.KindRead
}

// Exclusive is false.
func (Read) Exclusive() bool { return false }

// Blockers returns the nearest older contender that is not a reader. Foreign locks count
// as writers unless their names say that they read.
func (Read) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(k events.Kind) bool { return !k.Reads() })
}

// Unfair admits the fastest contender: the lock is one node, and its creator holds the
// lock. There is no queue and no order, and a waiter has no node.
type Unfair struct{}

// Kind is the kind of an unfair lock.
func (Unfair) Kind() events.Kind { return events.KindUnfair }

// Exclusive is true.
func (Unfair) Exclusive() bool { return true }

// Blockers returns the contender that owns the node, unless that is me.
func (Unfair) Blockers(queue []events.Name, me events.Name) []events.Name {
	for i, c := range queue {
		if c.Text != me.Text {
			return queue[i : i+1 : i+1]
		}
	}
	return nil
}

// Single reports whether a lock with the rule is one node at its path, and not a queue of
// nodes in a directory.
func Single(rule Rule) bool { return rule == Rule(Unfair{}) }

// nearestOlder returns the nearest older contender of a kind that blocks, if any.
func nearestOlder(queue []events.Name, me events.Name, blocks func(events.Kind) bool) []events.Name {
	var nearest []events.Name
	for i, c := range queue {
		if c.Seq < me.Seq && (nearest == nil || c.Seq > nearest[0].Seq) && blocks(c.Kind) {
			nearest = queue[i : i+1 : i+1]
		}
	}
	return nearest
}

// remembered is how many of the contenders ahead a waiter remembers. It waits for the
// first one. Each other one saves it a listing when a contender ahead gives up.
const remembered = 4

// neighbours are the names of contenders ahead, the nearest first; the rest is empty. It
// is an array, so that a value that has it is comparable.
type neighbours [remembered]string

func (n neighbours) shift() neighbours {
	copy(n[:], n[1:])
	n[remembered-1] = ""
	return n
}

// nearest returns the contender that blocks me, the one that would block me without
// that, and so on.
func nearest(rule Rule, queue []events.Name, me events.Name) (n neighbours) {
	if multi, ok := rule.(Multi); ok { // a multi-lock lists again after each blocker
		n[0] = multi.Blockers(queue, me)[0].Text
		return n
	}
	for i := range n {
		blockers := rule.Blockers(queue, me)
		if len(blockers) == 0 {
			break
		}
		n[i] = blockers[0].Text
		me.Seq = blockers[0].Seq // a contender with the same number is left out: a listing finds it
	}
	return n
}

// newcomer comes after every contender.
//
//nolint:gochecknoglobals // never written
var newcomer = events.Name{Seq: events.SeqEnd}

// replaceable reports whether another contender that blocks me may take the contender's
// place without my seeing it. The owner of a write node may trade it for a read node of
// the same number, both ours and Curator's:
//
//  1. W holds, and B behind it has listed W alone.
//  2. W creates its read node, and deletes its write node.
//  3. B learns that the only one ahead is gone, and would enter beside the reader.
//
// A reader may enter there.
func replaceable(rule Rule, name string) bool {
	c, _ := events.ParseName(name)
	if _, ok := rule.(Multi); ok { // its member may be one that does not read
		return c.Kind == events.KindWrite
	}
	return c.Kind == events.KindWrite && rule.Exclusive()
}

// usable reports whether the numbers in the queue say which contender is first: all of
// them are in the range that servers hand out once and in order, and no other contender
// has mine. Exception: the other half of a downgrade has the same number.
func usable(queue []events.Name, me events.Name) bool {
	for _, c := range queue {
		if c.Check() != nil || c.Seq == me.Seq && c.Text != me.Text && !halves(c.Kind, me.Kind) {
			return false
		}
	}
	return me.Check() == nil
}

// yields reports whether the only node in the way is that of a cached lock, which goes
// soon unless it is held.
func yields(queue []events.Name) bool {
	if len(queue) != 1 {
		return false
	}
	marks, ours := events.MarksOf(queue[0].Text)
	return ours && marks&events.MarkCached != 0
}

// mixed reports whether the queue of a lock with kazoo's names has a contender without
// one. That contender may be ours, and see all others. But kazoo's locks do not see it,
// and Curator's locks see none of kazoo's names. Both cases break exclusion, and we can
// prevent neither:
//
//   - N, with a name of another form, holds. K, one of kazoo's, comes and enters beside
//     it.
//   - We hold. Curator's mutex comes and enters beside us.
//
// So a contender that was promised only kazoo's names there, and sees another name, stays
// out and says so.
func mixed(rule Rule, queue []events.Name) bool {
	if !rule.Kind().Kazoo() {
		return false
	}
	for _, c := range queue {
		if !c.Kind.Kazoo() {
			return true
		}
	}
	return false
}

// halves reports whether two contenders of these kinds may share a number. A writer makes
// a read node, or several, to become a reader in its own place; they have the number of
// its write node.
func halves(a, b events.Kind) bool {
	half := func(k events.Kind) bool { return k == events.KindRead || k == events.KindWrite }
	return half(a) && half(b) && (a == events.KindRead || b == events.KindRead)
}

// ahead counts the contenders that stand in my way.
func ahead(rule Rule, queue []events.Name, me events.Name) int {
	if multi, ok := rule.(Multi); ok {
		return multi.ahead(queue, me)
	}
	n := 0
	for i := range queue {
		n += len(rule.Blockers(queue[i:i+1], me))
	}
	return n
}
