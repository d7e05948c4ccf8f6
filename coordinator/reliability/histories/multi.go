package histories

import (
	"slices"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// A multi-lock is had for all of its members at once: each of its operations stands in the history of every member, with the same
// token. So the model of that lock sees whether one of them was not held.

// mostMembers is how many locks are had together at most.
const mostMembers = 3

// choose returns a handle for the lock of the tenure: for that alone, or together with others.
func (w *worker) choose(t *tenure) acquirer {
	first := w.handle(&t.op)
	lock, single := first.(*coordinator.Lock)
	switch {
	case !single || kindAt(t.op.Path) == unfair:
		return first
	case w.random.IntN(4) == 0:
		locks := []*coordinator.Lock{lock}
		for _, i := range w.random.Perm(len(w.paths)) {
			op := operation{Path: w.paths[i]}
			if kind := kindAt(op.Path); op.Path == t.op.Path || kind != mutex && kind != readWrite || len(locks) == mostMembers {
				continue
			}
			locks = append(locks, w.handle(&op).(*coordinator.Lock))
			t.others = append(t.others, op)
		}
		if t.op.With = len(t.others); t.op.With > 0 {
			return w.coordinator.Multi(locks...)
		}
	}
	return first
}

// parts returns the tenures of the single locks that it consists of, to note something in. Its own path comes first.
func (t *tenure) parts() []*tenure {
	all := []*tenure{t}
	if len(t.others) > 0 {
		all[0] = &tenure{history: t.history, op: t.op}
	}
	for _, other := range t.others {
		op := t.op
		op.Path, op.Shares = other.Path, other.Shares
		all = append(all, &tenure{history: t.history, op: op})
	}
	return all
}

// add notes an operation in the history of each lock.
func (t *tenure) add(op operation) {
	t.history.add(op)
	for _, other := range t.others {
		op.Path, op.Shares = other.Path, other.Shares
		t.history.add(op)
	}
}

// isOf tells whether the Grant is for all members, and for nothing else.
func (t *tenure) isOf(grant events.Grant) bool {
	if len(t.others) == 0 {
		return grant.Path == t.op.Path && grant.Members == nil
	}
	return slices.EqualFunc(grant.Members, t.parts(), func(m events.Member, part *tenure) bool { return m.Path == part.op.Path })
}
