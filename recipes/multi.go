package recipes

import (
	"path"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// Multi admits contenders that need several locks at once, all or none. Each member is
// the place of a mutex, a writer or a reader in its own directory. The string has the
// kinds of these places in order, one byte per member.
//
// All places are taken in one transaction. So of two contenders, one is older in every
// queue where they meet, and no cycle of contenders can wait for each other: one of them
// is the oldest of all. That would not hold if one place were taken separately from the
// others:
//
//  1. A is in p and q, and B after it in both.
//  2. Another process deletes A's place in q.
//  3. A takes another one there, after B.
//  4. A is first in p, and waits for B in q. B is first in q, and waits for A in p.
//
// So a contender that has lost one of its places gives up the others, and takes all of
// them again.
//
// Being first in a queue is stable, so it is enough to look at one member after the
// other. The witness is that of the first member with a blocker; when it is gone, all
// queues are listed again. The listings need not be from the same moment. Before the
// grant, one transaction checks all nodes.
//
// A holder of a multi-lock leaves no floor. Contenders do not use one either, because a
// floor concerns only one directory, and they list anyway.
//
// The names of all nodes of an attempt begin with the same GUID. Each name contains the
// index of its member.
type Multi string

// MultiOf returns the rule of a multi-lock with members of these kinds.
func MultiOf(kinds ...events.Kind) Multi { return Multi(kinds) }

// Kind returns the kind of the first member.
func (m Multi) Kind() events.Kind {
	if m == "" {
		return 0
	}
	return events.Kind(m[0])
}

// Exclusive returns false: a multi-lock leaves no floor.
func (Multi) Exclusive() bool { return false }

// Blockers returns the blockers in the first member that has any. queue has the queues of
// all members. My place in each is the node with my GUID; in a member without one, every
// contender is ahead of me.
func (m Multi) Blockers(queue []events.Name, me events.Name) []events.Name {
	for i, q := range m.apart(queue) {
		if blockers := m.rule(i).Blockers(q, placeOf(q, me)); len(blockers) > 0 {
			return blockers
		}
	}
	return nil
}

// rule returns the rule of a member.
func (m Multi) rule(member int) Rule {
	switch kind := events.Kind(m[member]); {
	case kind.Reads():
		return Read{}
	case kind == events.KindWrite:
		return Write{}
	default:
		return Mutex{}
	}
}

// apart returns the members' queues. A queue that is contiguous in the combined one is
// not copied, because with long queues copying would take most of the time.
func (m Multi) apart(queue []events.Name) [][]events.Name {
	all := make([][]events.Name, len(m))
	for len(queue) > 0 {
		member, n := int(queue[0].Member), 1
		for n < len(queue) && queue[n].Member == queue[0].Member {
			n++
		}
		if all[member] == nil {
			all[member] = queue[:n:n]
		} else {
			all[member] = append(all[member], queue[:n]...)
		}
		queue = queue[n:]
	}
	return all
}

// ahead counts the contenders that block me, in all members.
func (m Multi) ahead(queue []events.Name, me events.Name) (n int) {
	for i, q := range m.apart(queue) {
		n += ahead(m.rule(i), q, placeOf(q, me))
	}
	return n
}

// usable reports whether the numbers in each queue give a total order.
func (m Multi) usable(queue []events.Name, me events.Name) bool {
	for i, q := range m.apart(queue) {
		if !usable(m.rule(i), q, placeOf(q, me)) {
			return false
		}
	}
	return true
}

// placeOf returns my node in a member's queue, or else one that comes after every
// contender.
func placeOf(queue []events.Name, me events.Name) events.Name {
	id := guidOf(me)
	if id == "" {
		return newcomer
	}
	for _, c := range queue {
		if strings.HasPrefix(c.Text, id) && guidOf(c) == id {
			return c
		}
	}
	return newcomer
}

// guidOf returns what the names of an attempt's nodes have in common: the part before the
// kind's marker.
func guidOf(c events.Name) string {
	const digits = 10
	if len(c.Text) < digits {
		return ""
	}
	head, ok := strings.CutSuffix(c.Text[:len(c.Text)-digits], c.Kind.Marker())
	if !ok {
		return ""
	}
	return head
}

// enqueued handles the answer to the creates of all nodes and, if all directories could
// be marked, to the markers. It is a single transaction, so the Stats are from the moment
// at which all nodes were created, and its zxid is their token. A contender that is not
// proven to be alone in every directory lists.
func (e *Errand) enqueued(p Plan, a Answer) Meaning {
	in := Enqueued{Epoch: e.Epoch, Alone: len(a.Stats) > 0}
	for i, node := range a.Nodes {
		name, _ := events.ParseName(path.Base(node))
		name.Member = int32(i)
		in.Nodes = append(in.Nodes, name)
	}
	if len(in.Nodes) == 0 || in.Nodes[0].Text == "" {
		return e.unknown() // the nodes were created; a look-up finds their names
	}
	for i, stat := range a.Stats {
		in.Alone = in.Alone && stat.alone(p[len(p)-len(a.Stats)+i].dir)
	}
	if in.Alone {
		in.Token = a.Stats[0].Mzxid
	}
	return Meaning{In: in}
}

// WithMembers returns the answer for a multi-lock that has these nodes, one per member,
// in order. A zero Own means that the node was not found.
func (l Listed) WithMembers(own []Own) Listed {
	found := 0
	for _, o := range own {
		if o == (Own{}) {
			continue
		}
		if found++; found == 1 {
			l.Own = o
		}
	}
	l.Parted = 0 < found && found < len(own)
	return l
}
