package recipes

import "github.com/zkgrant/zkgrant/events"

// Rule is what makes one kind of lock differ from another. It is a comparable value.
type Rule interface {
	// Kind is what the names of its own contenders say that they are.
	Kind() events.Kind

	// Exclusive tells whether a holder is the only one. Then nobody older is left when it
	// leaves; beside one that shares the lock older ones may still hold it.
	Exclusive() bool

	// Blockers returns a witness: while every contender in it exists, me stays
	// blocked. An empty answer means that nothing in the queue blocks me. So
	// whoever watches exactly the answer misses no wake-up. The queue is in any
	// order and may or may not contain me.
	Blockers(queue []events.Name, me events.Name) []events.Name
}

// Mutex admits one contender at a time, in the order in which they came.
type Mutex struct {
	Kazoo bool // it bears kazoo's names; see mixed
}

// Kind is that of a mutex.
func (m Mutex) Kind() events.Kind {
	if m.Kazoo {
		return events.KindKazooLock
	}
	return events.KindLock
}

// Exclusive is true.
func (Mutex) Exclusive() bool { return true }

// Blockers returns the nearest older contender of whatever kind: in a mutex's
// queue every foreign lock is exclusive, too.
func (Mutex) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(events.Kind) bool { return true })
}

// Write is the side of a read/write lock that is held by one alone.
type Write struct {
	Kazoo bool // it bears kazoo's names, in which a writer's is that of a mutex; see mixed
}

// Kind is that of a writer.
func (w Write) Kind() events.Kind {
	if w.Kazoo {
		return events.KindKazooLock
	}
	return events.KindWrite
}

// Exclusive is true.
func (Write) Exclusive() bool { return true }

// Blockers returns the nearest older contender, whether it reads or writes.
func (Write) Blockers(queue []events.Name, me events.Name) []events.Name {
	return Mutex{}.Blockers(queue, me)
}

// Read is the side of a read/write lock that is held by any number together. A reader
// comes behind every writer who came before it, so writers do not starve.
type Read struct {
	Kazoo bool // it bears kazoo's names; see mixed
}

// Kind is that of a reader.
func (r Read) Kind() events.Kind {
	if r.Kazoo {
		return events.KindKazooRead
	}
	return events.KindRead
}

// Exclusive is false.
func (Read) Exclusive() bool { return false }

// Blockers returns the nearest older contender that does not read. Foreign locks are
// writers unless their names say that they read.
func (Read) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(k events.Kind) bool { return !k.Reads() })
}

// Unfair admits whoever is quick: the lock is one node, and who makes it has it. There is no
// queue and no order; who waits has no node.
type Unfair struct{}

// Kind is that of an unfair lock.
func (Unfair) Kind() events.Kind { return events.KindUnfair }

// Exclusive is true.
func (Unfair) Exclusive() bool { return true }

// Blockers returns whoever has the node, if that is not me.
func (Unfair) Blockers(queue []events.Name, me events.Name) []events.Name {
	for i, c := range queue {
		if c.Text != me.Text {
			return queue[i : i+1 : i+1]
		}
	}
	return nil
}

// Single tells whether a lock with the rule is one node, at its path, and not a queue of nodes
// in a directory.
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
	if multi, ok := rule.(Multi); ok { // which lists again behind each
		n[0] = multi.Blockers(queue, me)[0].Text
		return n
	}
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

// newcomer comes behind everybody.
//
//nolint:gochecknoglobals // a value that nobody writes to
var newcomer = events.Name{Seq: events.SeqEnd}

// replaceable tells whether the contender's place may be taken by another one that
// blocks me, without anything that I could see. The owner of a write node may trade it for a
// read node that bears the same number, our own as well as Curator's: 1. W holds, and
// B behind it has listed W alone; 2. W creates its read node, and deletes its write
// node; 3. B hears that the only one ahead is gone, and would enter beside the reader.
// A reader may.
func replaceable(rule Rule, k events.Kind) bool {
	if _, ok := rule.(Multi); ok { // of which the member may be one that does not read
		return k == events.KindWrite
	}
	return k == events.KindWrite && rule.Exclusive()
}

// kindOf returns the kind of a contender that was remembered.
func kindOf(name string) events.Kind {
	n, _ := events.ParseName(name)
	return n.Kind
}

// usable tells whether the numbers in the queue say who is first: all are in the
// range that servers hand out once and in order, and nobody else bears mine, but for
// the other half of a downgrade.
func usable(queue []events.Name, me events.Name) bool {
	for _, c := range queue {
		if c.Check() != nil || c.Seq == me.Seq && c.Text != me.Text && !halves(c.Kind, me.Kind) {
			return false
		}
	}
	return me.Check() == nil
}

// yields tells whether one node stands in the way, of a cached lock, which goes soon if nobody holds.
func yields(queue []events.Name) bool {
	if len(queue) != 1 {
		return false
	}
	marks, ours := events.MarksOf(queue[0].Text)
	return ours && marks&events.MarkCached != 0
}

// mixed tells whether somebody is in the queue of a lock with kazoo's names who does not bear one. He may be
// one of ours, who sees everybody; but kazoo's locks do not see him, and Curator's see none of kazoo's names:
// 1. N, with a name of another form, holds, and K, one of kazoo's, comes and enters beside it; or 1. we hold, and 2.
// Curator's mutex comes and enters beside us. We could prevent neither. So whoever was promised that kazoo
// lives alone there, and sees that it does not, stays out and says so.
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

// halves tells whether two contenders of these kinds may share a number: a writer's read
// nodes, which it made to become a reader in its own place, or several of them, bear that of
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
