package recipes

import (
	"strconv"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// Multi admits contenders that want several locks at once, all or none. Each member is a mutex's, a writer's or a reader's place in
// a directory of its own. The value has the kinds of those places in order, one byte for each member.
//
// All places are taken in one transaction. So of two contenders one is the older in every queue where they meet, and no circle of
// contenders can wait for each other: one of them is the oldest of all. That is lost if one place is taken apart from the others:
//
//  1. A stands in p and q, and B behind it in both.
//  2. Another process deletes A's place in q.
//  3. A takes another one there, behind B.
//  4. A is the first in p, and waits for B in q. B is the first in q, and waits for A in p.
//
// So a contender that has lost one of its places gives up the others, and takes all of them anew.
//
// Being the first in a queue is stable, so it is enough to look at one member after the other. The witness is of the first member
// with a blocker, and when that is gone all queues are listed again. The listings need not be of the same moment. Before the grant
// all nodes are checked in one transaction.
//
// A holder of a multi-lock leaves no floor. A contender does not use one either, because a listing tells as much, and a floor is
// about one directory only.
//
// The machine knows a node of member i by the name `i/<name>`. The names of all nodes of an attempt begin with the same GUID.
type Multi string

// MultiOf returns the rule of a multi-lock whose members are places of these kinds.
func MultiOf(kinds ...events.Kind) Multi {
	rule := make([]byte, len(kinds))
	for i, k := range kinds {
		rule[i] = byte(k)
	}
	return Multi(rule)
}

// MemberName returns the name by which a machine knows a node of a multi-lock's member.
func MemberName(member int, name string) string { return strconv.Itoa(member) + "/" + name }

// ParseMember takes such a name apart. It reports false if the name is not of that form.
func ParseMember(name string) (member int, node string, ok bool) {
	head, node, ok := strings.Cut(name, "/")
	member, err := strconv.Atoi(head)
	return member, node, ok && err == nil && member >= 0
}

// Kind is the first member's.
func (m Multi) Kind() events.Kind {
	if m == "" {
		return 0
	}
	return events.Kind(m[0])
}

// Exclusive is false: a multi-lock leaves no floor.
func (Multi) Exclusive() bool { return false }

// Blockers returns the blockers in the first member that has any. The queue has the queues of all members. My place in each is the
// node with my GUID; in a member without one, every contender stands ahead.
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

// apart returns the members' queues. Neighbours in the queue of all are not copied, because of a long one that takes the most time.
func (m Multi) apart(queue []events.Name) [][]events.Name {
	all := make([][]events.Name, len(m))
	for len(queue) > 0 {
		member, node, ok := ParseMember(queue[0].Text)
		head := queue[0].Text[:len(queue[0].Text)-len(node)]
		n := 1
		for n < len(queue) && ok && strings.HasPrefix(queue[n].Text, head) {
			n++
		}
		switch {
		case !ok || member >= len(m):
		case all[member] == nil:
			all[member] = queue[:n:n]
		default:
			all[member] = append(all[member], queue[:n]...)
		}
		queue = queue[n:]
	}
	return all
}

// ahead counts the contenders in my way, in all members.
func (m Multi) ahead(queue []events.Name, me events.Name) (n int) {
	for i, q := range m.apart(queue) {
		n += ahead(m.rule(i), q, placeOf(q, me))
	}
	return n
}

// usable tells whether the numbers of each queue say which contender is first there.
func (m Multi) usable(queue []events.Name, me events.Name) bool {
	for _, q := range m.apart(queue) {
		if !usable(q, placeOf(q, me)) {
			return false
		}
	}
	return true
}

// placeOf returns which of a member's contenders is mine. Without a place I come behind every contender.
func placeOf(queue []events.Name, me events.Name) events.Name {
	id := guidOf(me)
	if id == "" {
		return newcomer
	}
	for _, c := range queue {
		if _, node, _ := strings.Cut(c.Text, "/"); strings.HasPrefix(node, id) && guidOf(c) == id {
			return c
		}
	}
	return newcomer
}

// guidOf returns the common part of the names of an attempt's nodes: what stands between the member and the kind's marker.
func guidOf(c events.Name) string {
	const digits = 10
	_, node, ok := ParseMember(c.Text)
	if !ok || len(node) < digits {
		return ""
	}
	head, ok := strings.CutSuffix(node[:len(node)-digits], c.Kind.Marker())
	if !ok {
		return ""
	}
	return head
}

// usable tells whether the numbers in the queue say which contender is first.
func (m *Machine) usable(queue []events.Name) bool {
	if rule, ok := m.rule.(Multi); ok {
		return rule.usable(queue, m.own.Name)
	}
	return usable(queue, m.own.Name)
}

// enqueuePlan makes all nodes in one transaction. If all directories are ours, and were empty when last seen, their markers tell
// whether each node is alone. A contender that is not known to be alone everywhere lists.
func (e Errand) enqueuePlan(v View, create Operation) Plan {
	p := planOf(0, create)
	if v.All {
		p = p.and(Operation{Do: DoSet, On: OnDirectory, With: WithMarker})
	}
	return p
}

// enqueued takes the answer to a create. All of it is of one transaction: at the moment when all nodes were made, a directory had
// one child, and the zxid was this one.
func (e Errand) enqueued(a Answer) Meaning {
	if len(a.Nodes) == 0 {
		return e.unknown() // the nodes were made, and a look-up finds their names
	}
	in := Enqueued{Epoch: e.Epoch, Nodes: a.Nodes, Alone: len(a.Known) > 0}
	for i, dir := range a.Known {
		in.Alone = in.Alone && a.Stats[i].alone(dir)
	}
	if in.Alone {
		in.Token = a.Stats[0].Mzxid
	}
	return tell(in)
}
