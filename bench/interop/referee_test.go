package interop

import (
	"fmt"
	"slices"
)

// entry is a contender that has acquired its lock.
type entry struct {
	contender string
	family    family
	form      form
	node      string // its path
	czxid     int64  // of the node
}

// String names it, for messages.
func (e entry) String() string {
	return fmt.Sprintf("%s (%s %s, %s of zxid 0x%x)", e.contender, e.family, e.form, e.node, e.czxid)
}

// referee judges the entries of contenders at one lock. It is told of everything in the order in which it happened,
// and asks nobody; it belongs to one goroutine.
type referee struct {
	permits int // how many may be taken at once, in anybody's opinion; 0 if it is no semaphore but a queue

	// blind is the family that cannot see who comes before it, and enters beside anybody; empty if there is none. What
	// that leads to is counted as ignored. A violation is then only who enters beside an older one of the blind family
	// without being of it, for that is what the others are able to avoid, and what happens within either of the two.
	blind family

	inside []entry // those who were killed, too, until their nodes are gone
	killed map[string]bool
	latest map[bool]*latest // in the order of arrival: of the blind family, and of the others

	entries    map[family]int
	violations []string
	inversions []string
	ignored    int
}

// latest is whose number was the greatest so far.
type latest struct{ any, exclusive entry }

func newReferee(permits int, blind family) *referee {
	return &referee{
		permits: permits, blind: blind,
		killed: make(map[string]bool), entries: make(map[family]int),
		latest: map[bool]*latest{false: {}, true: {}},
	}
}

// sections is how many there were, those of the blind family aside.
func (r *referee) sections() (n int) {
	for f, entries := range r.entries {
		if r.blind == "" || f != r.blind {
			n += entries
		}
	}
	return n
}

// isBlind tells whether a contender is of the family that cannot see.
func (r *referee) isBlind(e entry) bool { return r.blind != "" && e.family == r.blind }

// enter notes that somebody is inside.
func (r *referee) enter(e entry) {
	r.entries[e.family]++
	if r.permits > 0 {
		r.countPermits(e)
	} else {
		r.judge(e)
		r.order(e)
	}
	r.inside = append(r.inside, e)
}

// countPermits counts who else is inside. Where opinions differ of how many may be, somebody may have come in behind e
// before that was noted; so its own opinion only counts for those who came before.
func (r *referee) countPermits(e entry) {
	own, takes := e.form.permits()
	older, all := takes, takes
	for _, other := range r.inside {
		_, taken := other.form.permits()
		all += taken
		if other.czxid < e.czxid {
			older += taken
		}
	}
	if all > r.permits || older > own {
		r.violations = append(r.violations, fmt.Sprintf("%v is inside beside %v, with %d permits", e, r.inside, own))
	}
}

// taken is how many permits are.
func (r *referee) taken() (n int) {
	for _, e := range r.inside {
		_, takes := e.form.permits()
		n += takes
	}
	return n
}

// judge looks who else is inside.
func (r *referee) judge(e entry) {
	for _, other := range r.inside {
		younger := e
		if other.czxid > e.czxid {
			younger = other
		}
		switch {
		case e.form.shared() && other.form.shared():
		case r.isBlind(e) != r.isBlind(other) && r.isBlind(younger):
			r.ignored++
		default:
			r.violations = append(r.violations, fmt.Sprintf("%v is inside beside %v", e, other))
		}
	}
}

// order looks who was inside before, and compares who came first.
func (r *referee) order(e entry) {
	before := r.latest[r.isBlind(e)]
	overtaken := before.any
	if e.form.shared() {
		overtaken = before.exclusive
	}
	if e.czxid < overtaken.czxid {
		r.inversions = append(r.inversions, fmt.Sprintf("%v was inside after %v", e, overtaken))
	}
	if e.czxid > before.any.czxid {
		before.any = e
	}
	if !e.form.shared() && e.czxid > before.exclusive.czxid {
		before.exclusive = e
	}
}

// share notes that a writer has become a reader.
func (r *referee) share(contender string) {
	for i := range r.inside {
		if r.inside[i].contender == contender {
			r.inside[i].form = formRead
		}
	}
}

// leave notes that somebody is outside again, or that the node of somebody who was killed is gone.
func (r *referee) leave(contender string) {
	r.inside = slices.DeleteFunc(r.inside, func(e entry) bool { return e.contender == contender })
	delete(r.killed, contender)
}

// kill notes that somebody who is inside was killed there. It stays until leave says that its node is gone.
func (r *referee) kill(contender string) { r.killed[contender] = true }

// dead are those who were killed and whose nodes were there when somebody looked last.
func (r *referee) dead() (dead []entry) {
	for _, e := range r.inside {
		if r.killed[e.contender] {
			dead = append(dead, e)
		}
	}
	return dead
}
