package interop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/goldentest"
)

// entry is a contender that has acquired its lock.
type entry struct {
	contender string
	family    family
	form      form
	node      string // its path
	czxid     int64  // of the node
}

// String names the contender in messages.
func (e entry) String() string {
	return fmt.Sprintf("%s (%s %s, %s of zxid 0x%x)", e.contender, e.family, e.form, e.node, e.czxid)
}

// referee judges the entries of contenders at one lock. It is told of every event in order, and asks nothing. It belongs to one goroutine.
type referee struct {
	permits int // the most that any contender takes for the limit; 0 for a queue

	// blind is the family that does not see the contenders before it, and enters beside any of them; empty if there is none. A blind
	// contender beside an older one of another family is ignored, as no other family can avoid it. Everything else is a violation: within
	// the blind family, among the others, and a seeing contender beside an older blind one.
	blind family

	inside []entry // with those that were killed, until their nodes are gone
	killed map[string]bool
	latest map[bool]*latest // in the order of arrival, by whether the family is blind

	entries    map[family]int
	violations []string
	inversions []string
	ignored    int
}

// latest is the contender with the greatest number so far.
type latest struct{ any, exclusive entry }

func newReferee(permits int, blind family) *referee {
	return &referee{
		permits: permits, blind: blind,
		killed: make(map[string]bool), entries: make(map[family]int),
		latest: map[bool]*latest{false: {}, true: {}},
	}
}

// sections is the number of entries, without those of the blind family.
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

// enter notes that a contender is inside.
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

// countPermits counts the permits taken inside. If contenders differ about the size, one that came behind e may have been noted before e.
// So e's own size counts only for older contenders.
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

// taken is the number of permits taken.
func (r *referee) taken() (n int) {
	for _, e := range r.inside {
		_, takes := e.form.permits()
		n += takes
	}
	return n
}

// judge compares an entry with the contenders inside.
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

// order compares an entry with earlier ones by the order of arrival.
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

// leave notes that a contender is outside again, or that the node of a killed contender is gone.
func (r *referee) leave(contender string) {
	r.inside = slices.DeleteFunc(r.inside, func(e entry) bool { return e.contender == contender })
	delete(r.killed, contender)
}

// kill notes that a contender was killed inside. It stays there until leave reports its node gone.
func (r *referee) kill(contender string) { r.killed[contender] = true }

// dead returns the killed contenders of which the nodes existed at the last look.
func (r *referee) dead() (dead []entry) {
	for _, e := range r.inside {
		if r.killed[e.contender] {
			dead = append(dead, e)
		}
	}
	return dead
}

// TestTheReferee plays testdata/referee.txt, which needs no server: what is allowed, and each violation. What the referee found follows
// the dashes. With -update the test writes that.
//
//	lock [permits=n] [blind=family]  it is a semaphore, or one family cannot see the others
//	a enters form zxid               a, of a seeing family, is inside; its node has this zxid
//	a intrudes form zxid             a, of the blind family, is inside
//	a shares, leaves, dies           a becomes a reader, is outside again, is killed inside
func TestTheReferee(t *testing.T) {
	t.Parallel()
	const file = "testdata/referee.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for scene := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		play, _, _ := strings.Cut(scene, "\n----")
		r := newReferee(0, "")
		for line := range strings.Lines(play) {
			if err := r.act(strings.Fields(line)); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		found := fmt.Sprintf("---- %d violations, %d inversions, %d ignored", len(r.violations), len(r.inversions), r.ignored)
		lines := slices.Concat([]string{strings.TrimSpace(play), found}, r.violations, r.inversions)
		all = append(all, strings.Join(lines, "\n"))
	}
	goldentest.Compare(t, file, strings.Join(all, "\n\n")+"\n")
}

// act tells the referee a line of a play.
func (r *referee) act(words []string) (err error) {
	who, what := words[0], words[1]
	switch {
	case who == "#":
	case who == "lock":
		var permits int
		var blind family
		for _, word := range words[1:] {
			if n, ok := strings.CutPrefix(word, "permits="); ok {
				permits, err = strconv.Atoi(n)
			} else {
				blind = family(strings.TrimPrefix(word, "blind="))
			}
		}
		*r = *newReferee(permits, blind)
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
		if dead := r.dead(); len(dead) != 1 || dead[0].contender != who {
			err = fmt.Errorf("the dead are %v, want %s", dead, who)
		}
	default:
		err = errors.New("no line of a play")
	}
	return err
}

func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form           form
		permits, takes int
		shared         bool
	}{
		{formMutex, 0, 1, false}, {formLock, 0, 1, false}, {formWrite, 0, 1, false}, {formDowngrade, 0, 1, false},
		{formRead, 0, 1, true}, {"read-kazoo", 0, 1, true}, {semaphore(4), 4, 1, false}, {several(2, 5), 5, 2, false},
		{formSemaphoreMutex, 1, 1, false}, {"semaphore:x", 0, 1, false},
	} {
		permits, takes := c.form.permits()
		if permits != c.permits || takes != c.takes || c.form.shared() != c.shared {
			t.Errorf("%s takes %d of %d permits, shared %v; want %d of %d, %v",
				c.form, takes, permits, c.form.shared(), c.takes, c.permits, c.shared)
		}
	}
}
