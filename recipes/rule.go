package recipes

import "github.com/zkgrant/zkgrant/events"

// Rule is what differs between kinds of lock. It is a comparable value.
type Rule interface {
	// Kind returns the kind in the names of our contenders.
	Kind() events.Kind

	// Exclusive reports whether there is only one holder at a time. If so, no older
	// contender is left when a holder leaves. If several hold together, older ones may
	// still hold.
	Exclusive() bool

	// Blockers returns a witness: as long as every contender in it exists, me stays
	// blocked. An empty result means that nothing in the queue blocks me. So a waiter
	// that watches exactly the result misses no wake-up. The queue may be in any order,
	// and may contain me.
	Blockers(queue []events.Name, me events.Name) []events.Name
}

// Mutex admits one contender at a time, in order of arrival.
type Mutex struct {
	Kazoo bool // its contenders have kazoo's names; see mixed
}

// Kind returns the kind of a mutex.
func (m Mutex) Kind() events.Kind {
	if m.Kazoo {
		return events.KindKazooLock
	}
	return events.KindLock
}

// Exclusive is true.
func (Mutex) Exclusive() bool { return true }

// Blockers returns the nearest older contender of any kind: in a mutex's queue, locks of
// other libraries are exclusive, too.
func (Mutex) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(events.Kind) bool { return true })
}

// Write is the exclusive side of a read/write lock.
type Write struct {
	Kazoo bool // its contenders have kazoo's names, where a writer is a mutex; see mixed
}

// Kind returns the kind of a writer.
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

// Kind returns the kind of a reader.
func (r Read) Kind() events.Kind {
	if r.Kazoo {
		return events.KindKazooRead
	}
	return events.KindRead
}

// Exclusive returns false.
func (Read) Exclusive() bool { return false }

// Blockers returns the nearest older contender that is not a reader. Locks of other
// libraries count as writers unless their names say that they are readers.
func (Read) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(k events.Kind) bool { return !k.Reads() })
}

// Unfair admits the fastest contender: the lock is a single node, whose creator holds it.
// There is no queue and no order, and a waiter has no node.
type Unfair struct{}

// Kind returns the kind of an unfair lock.
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

// Single reports whether a lock with the rule is a single node at its path, rather than a
// queue of nodes in a directory.
func Single(rule Rule) bool { return rule == Rule(Unfair{}) }

// nearestOlder returns the nearest older contender of a kind that blocks, or nothing.
func nearestOlder(queue []events.Name, me events.Name, blocks func(events.Kind) bool) []events.Name {
	var nearest []events.Name
	for i, c := range queue {
		if c.Seq < me.Seq && (nearest == nil || c.Seq > nearest[0].Seq) && blocks(c.Kind) {
			nearest = queue[i : i+1 : i+1]
		}
	}
	return nearest
}

// remembered is how many contenders ahead a waiter remembers. It waits for the first one.
// Each of the others saves a listing when a contender ahead gives up.
const remembered = 4

// neighbours are the names of contenders ahead, nearest first, padded with empty ones. It
// is an array to keep the machine comparable.
type neighbours [remembered]string

func (n neighbours) shift() neighbours {
	copy(n[:], n[1:])
	n[remembered-1] = ""
	return n
}

// nearest returns the contender that blocks me, the one that would block me without it,
// and so on.
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
		me.Seq = blockers[0].Seq // skips contenders with the same number; a listing finds them
	}
	return n
}

// newcomer is a name that comes after every contender.
//
//nolint:gochecknoglobals // never written
var newcomer = events.Name{Seq: events.SeqEnd}

// replaceable reports whether the named contender may be replaced, unseen, by another one
// that blocks me. The owner of a write node may trade it for a read node of the same
// number, in our library and in Curator's:
//
//  1. W holds. B, next in the queue, has listed only W.
//  2. W creates its read node, and deletes its write node.
//  3. B learns that the only node ahead is gone, and would enter beside the reader.
//
// If B is a reader, it may enter.
func replaceable(rule Rule, name string) bool {
	c, _ := events.ParseName(name)
	if _, ok := rule.(Multi); ok { // its member may not read the queue
		return c.Kind == events.KindWrite
	}
	return c.Kind == events.KindWrite && rule.Exclusive()
}

// usable reports whether the numbers in the queue give a total order: all of them are in
// the range that servers assign once and in order, and no other contender has mine,
// except for the other half of a downgrade.
func usable(rule Rule, queue []events.Name, me events.Name) bool {
	if multi, ok := rule.(Multi); ok {
		return multi.usable(queue, me)
	}
	for _, c := range queue {
		if c.Check() != nil || c.Seq == me.Seq && c.Text != me.Text && !halves(c.Kind, me.Kind) {
			return false
		}
	}
	return me.Check() == nil
}

// yields reports whether the only node in the queue is that of a cached lock, which is
// given up soon unless it is in use.
func yields(queue []events.Name) bool {
	return len(queue) == 1 && events.HasMark(queue[0].Text, events.MarkCached)
}

// mixed reports whether the queue of a lock with kazoo's names has a contender with
// another name. That contender may be ours and see all others, but kazoo's locks do not
// see it, and Curator's locks see none of kazoo's names. Both break exclusion, and we can
// prevent neither:
//
//   - N, with a name of another form, holds. K, one of kazoo's, arrives and enters beside
//     it.
//   - We hold. Curator's mutex arrives and enters beside us.
//
// So a contender that was configured for kazoo's names, and sees another one, stays out
// and reports that.
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

// halves reports whether two contenders of these kinds may share a number. To become a
// reader in its own place, a writer creates one or more read nodes with the number of its
// write node.
func halves(a, b events.Kind) bool {
	half := func(k events.Kind) bool { return k == events.KindRead || k == events.KindWrite }
	return half(a) && half(b) && (a == events.KindRead || b == events.KindRead)
}

// ahead counts the contenders that block me.
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
