package interop

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// entry is a contender that has acquired its lock.
type entry struct {
	contender string
	family    family
	form      form
	node      string // its path
	czxid     int64  // of the node
}

func (e entry) String() string {
	return fmt.Sprintf("%s (%s %s, %s of zxid 0x%x)", e.contender, e.family, e.form, e.node, e.czxid)
}

// referee judges the entries of contenders at one lock. It only receives events, in
// order. It is not safe for concurrent use.
type referee struct {
	permits int // the largest limit that any contender uses; 0 for a queue

	// blind is the family that does not see the contenders ahead of it, and enters beside
	// any of them; empty if there is none. A blind contender beside an older one of
	// another family is ignored, because no other family can prevent it. All other
	// overlaps are violations: within the blind family, among the others, and of a seeing
	// contender with an older blind one.
	blind family

	inside []entry // including killed ones, until their nodes are gone
	killed map[string]bool
	latest map[bool]*latest // by whether the family is blind

	entries    map[family]int
	violations []string
	inversions []string
	ignored    int
}

// latest is the contender with the greatest zxid so far.
type latest struct{ any, exclusive entry }

func newReferee(permits int, blind family) *referee {
	return &referee{
		permits: permits, blind: blind,
		killed: make(map[string]bool), entries: make(map[family]int),
		latest: map[bool]*latest{false: {}, true: {}},
	}
}

// sections returns the number of entries, except those of the blind family.
func (r *referee) sections() (n int) {
	for f, entries := range r.entries {
		if r.blind == "" || f != r.blind {
			n += entries
		}
	}
	return n
}

// isBlind reports whether a contender belongs to the blind family.
func (r *referee) isBlind(e entry) bool { return r.blind != "" && e.family == r.blind }

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

// countPermits counts the permits that are taken. If contenders use different sizes, one
// that came after e may have been recorded before e. So e's own size counts only for
// older contenders.
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

func (r *referee) taken() (n int) {
	for _, e := range r.inside {
		_, takes := e.form.permits()
		n += takes
	}
	return n
}

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

// order checks an entry against earlier ones for the order of arrival.
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

func (r *referee) share(contender string) {
	for i := range r.inside {
		if r.inside[i].contender == contender {
			r.inside[i].form = formRead
		}
	}
}

// leave records that a contender has left, or that the node of a killed contender is
// gone.
func (r *referee) leave(contender string) {
	r.inside = slices.DeleteFunc(r.inside, func(e entry) bool { return e.contender == contender })
	delete(r.killed, contender)
}

// kill records that a contender was killed inside. It counts as inside until leave.
func (r *referee) kill(contender string) { r.killed[contender] = true }

// dead returns the killed contenders whose nodes still existed when last checked.
func (r *referee) dead() (dead []entry) {
	for _, e := range r.inside {
		if r.killed[e.contender] {
			dead = append(dead, e)
		}
	}
	return dead
}

// TestTheReferee tests the referee without a server, with allowed entries and each
// violation.
//
//	lock [permits=n] [blind=family]  a semaphore, or one family cannot see the others
//	a enters form zxid               a, of the seeing family, enters with this zxid
//	a intrudes form zxid             a, of the blind family, enters
//	a shares, leaves, dies           a becomes a reader, leaves, is killed inside
func TestTheReferee(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, play                      string
		violations, inversions, ignored int
	}{
		{"one after the other", "a enters mutex 1; a leaves; b enters lock 2; b leaves; a enters mutex 3", 0, 0, 0},
		{"two at once", "a enters mutex 1; b enters lock 2", 1, 0, 0},
		{"three at once", "a enters mutex 1; b enters mutex 2; c enters mutex 3", 3, 0, 0},
		{"the younger first", "c enters mutex 3; c leaves; a enters mutex 1; a leaves; b enters mutex 2", 0, 2, 0},
		{"readers together, in any order", "b enters read 2; a enters read 1; b leaves; a leaves; w enters write 3", 0, 0, 0},
		{"a writer beside a reader", "a enters read 1; w enters write 2", 1, 0, 0},
		{"a reader beside a writer", "w enters write 1; a enters read 2", 1, 0, 0},
		{"a reader before the writer that came first", "b enters read 3; b leaves; w enters write 2", 0, 1, 0},
		{"a reader after a writer that came later", "w enters write 2; w leaves; a enters read 1", 0, 1, 0},
		{
			"a writer that becomes a reader lets readers in",
			"w enters downgrade 1; w shares; a enters read-kazoo 2; w leaves; a leaves; v enters write 3", 0, 0, 0,
		},
		{"and no writer", "w enters downgrade 1; w shares; v enters write 2", 1, 0, 0},
		{"nor readers before", "w enters downgrade 1; a enters read 2", 1, 0, 0},
		{"the dead are inside", "a enters mutex 1; a dies; b enters mutex 2", 1, 0, 0},
		{"until their nodes are gone", "a enters mutex 1; a dies; a leaves; b enters mutex 2", 0, 0, 0},
		{"two permits", "lock permits=2; a enters semaphore:2 5; b enters semaphore:2 1; a leaves; c enters semaphore:2 3", 0, 0, 0},
		{"two permits and three inside", "lock permits=2; a enters semaphore:2 1; b enters semaphore:2 2; c enters semaphore:2 3", 1, 0, 0},
		{"and the youngest is noted first", "lock permits=2; c enters semaphore:2 3; b enters semaphore:2 2; a enters semaphore:2 1", 1, 0, 0},
		{"one permit in one opinion, and two in another", "lock permits=2; a enters semaphore:1 1; b enters semaphore:2 2", 0, 0, 0},
		{"and the younger is noted first", "lock permits=2; b enters semaphore:2 2; a enters semaphore:1 1", 0, 0, 0},
		{"one permit in one's own opinion, and that is taken", "lock permits=2; b enters semaphore:2 1; a enters semaphore:1 2", 1, 0, 0},
		{
			"several permits at once",
			"lock permits=4; a enters semaphore:4x2 1; b enters semaphore:4x2 2; a leaves; c enters semaphore:4 3; d enters semaphore:4 4", 0, 0, 0,
		},
		{"more than there are", "lock permits=4; a enters semaphore:4x2 1; b enters semaphore:4 2; c enters semaphore:4x2 3", 1, 0, 0},
		{
			"one of the blind family comes beside",
			"lock blind=unseeing; a enters mutex 1; x intrudes mutex 2; a leaves; b enters mutex 3", 1, 0, 1,
		},
		{
			"and the one that it overtook comes beside it",
			"lock blind=unseeing; a enters mutex 1; x intrudes mutex 3; a leaves; b enters mutex 2", 0, 0, 2,
		},
		{"beside an older one of the blind family", "lock blind=unseeing; ours enters mutex 7; theirs intrudes mutex 5", 1, 0, 0},
		{"but they see each other", "lock blind=unseeing; x intrudes mutex 1; y intrudes mutex 2", 1, 0, 0},
		{
			"and keep their own order only",
			"lock blind=unseeing; x intrudes mutex 5; x leaves; a enters mutex 1; a leaves; b enters mutex 2; b leaves; y intrudes mutex 4", 0, 1, 0,
		},
	} {
		r := newReferee(0, "")
		for line := range strings.SplitSeq(c.play, "; ") {
			if err := r.act(strings.Fields(line)); err != nil {
				t.Fatalf("%s: %q: %v", c.name, line, err)
			}
		}
		if len(r.violations) != c.violations || len(r.inversions) != c.inversions || r.ignored != c.ignored {
			t.Errorf("%s: %q, %q, %d ignored; want %d, %d, %d", c.name, r.violations, r.inversions, r.ignored, c.violations, c.inversions, c.ignored)
		}
	}
}

// act passes a line of a play to the referee.
func (r *referee) act(words []string) (err error) {
	who, what := words[0], words[1]
	switch {
	case who == "lock":
		*r = *newReferee(0, "")
		if n, ok := strings.CutPrefix(what, "permits="); ok {
			r.permits, err = strconv.Atoi(n)
		} else {
			r.blind = family(strings.TrimPrefix(what, "blind="))
		}
	case what == "enters", what == "intrudes":
		e := entry{contender: who, family: "seeing", form: form(words[2]), node: "a node"}
		if what == "intrudes" {
			e.family = "unseeing"
		}
		e.czxid, err = strconv.ParseInt(words[3], 10, 64)
		r.enter(e)
	case what == "shares":
		r.share(who)
	case what == "leaves":
		r.leave(who)
	case what == "dies":
		r.kill(who)
	default:
		err = errors.New("no line of a play")
	}
	return err
}
