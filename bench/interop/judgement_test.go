package interop

import (
	"testing"
)

// act is something that happens at the referee's lock.
type act struct {
	what  string // enter, leave, kill, share
	who   string
	form  form
	zxid  int64
	blind bool
}

// TestTheReferee judges plays that need no server: what is allowed, and each thing that is not.
func TestTheReferee(t *testing.T) {
	t.Parallel()
	const seeing, unseeing family = "seeing", "unseeing"
	enter := func(who string, f form, zxid int64) act { return act{what: "enter", who: who, form: f, zxid: zxid} }
	intrude := func(who string, zxid int64) act {
		return act{what: "enter", who: who, form: formMutex, zxid: zxid, blind: true}
	}
	leave := func(who string) act { return act{what: "leave", who: who} }
	kill := func(who string) act { return act{what: "kill", who: who} }
	share := func(who string) act { return act{what: "share", who: who} }

	for _, c := range []struct {
		name                            string
		permits                         int
		blind                           family
		play                            []act
		violations, inversions, ignored int
	}{
		{name: "one after the other", play: []act{
			enter("a", formMutex, 1), leave("a"), enter("b", formLock, 2), leave("b"), enter("a", formMutex, 3),
		}},
		{name: "two at once", play: []act{enter("a", formMutex, 1), enter("b", formLock, 2)}, violations: 1},
		{name: "three at once", play: []act{
			enter("a", formMutex, 1), enter("b", formMutex, 2), enter("c", formMutex, 3),
		}, violations: 3},
		{name: "the younger first", play: []act{
			enter("b", formMutex, 2), leave("b"), enter("a", formMutex, 1),
		}, inversions: 1},
		{name: "long before", play: []act{
			enter("c", formMutex, 3), leave("c"), enter("a", formMutex, 1), leave("a"), enter("b", formMutex, 2),
		}, inversions: 2},
		{name: "beside an older one who does not see, noted the other way round", blind: unseeing, play: []act{
			enter("ours", formMutex, 7), intrude("theirs", 5),
		}, violations: 1},
		{name: "readers together, in any order", play: []act{
			enter("b", formRead, 2), enter("a", formRead, 1), leave("b"), leave("a"), enter("w", formWrite, 3),
		}},
		{name: "a writer beside a reader", play: []act{
			enter("a", formRead, 1), enter("w", formWrite, 2),
		}, violations: 1},
		{name: "a reader beside a writer", play: []act{
			enter("w", formWrite, 1), enter("a", formRead, 2),
		}, violations: 1},
		{name: "a reader before the writer who came first", play: []act{
			enter("b", formRead, 3), leave("b"), enter("w", formWrite, 2),
		}, inversions: 1},
		{name: "a reader behind a writer who came later", play: []act{
			enter("w", formWrite, 2), leave("w"), enter("a", formRead, 1),
		}, inversions: 1},
		{name: "a writer that becomes a reader lets readers in", play: []act{
			enter("w", formDowngrade, 1), share("w"), enter("a", formRead, 2), leave("w"), leave("a"),
			enter("v", formWrite, 3),
		}},
		{name: "and no writer", play: []act{
			enter("w", formDowngrade, 1), share("w"), enter("v", formWrite, 2),
		}, violations: 1},
		{name: "nor readers before", play: []act{
			enter("w", formDowngrade, 1), enter("a", formRead, 2),
		}, violations: 1},
		{name: "the dead are inside", play: []act{
			enter("a", formMutex, 1), kill("a"), enter("b", formMutex, 2),
		}, violations: 1},
		{name: "until their nodes are gone", play: []act{
			enter("a", formMutex, 1), kill("a"), leave("a"), enter("b", formMutex, 2),
		}},
		{name: "two permits", permits: 2, play: []act{
			enter("a", semaphore(2), 5), enter("b", semaphore(2), 1), leave("a"), enter("c", semaphore(2), 3),
		}},
		{name: "two permits and three inside", permits: 2, play: []act{
			enter("a", semaphore(2), 1), enter("b", semaphore(2), 2), enter("c", semaphore(2), 3),
		}, violations: 1},
		{name: "two permits, and the youngest is noted first", permits: 2, play: []act{
			enter("c", semaphore(2), 3), enter("b", semaphore(2), 2), enter("a", semaphore(2), 1),
		}, violations: 1},
		{name: "one permit in one opinion, and two in another", permits: 2, play: []act{
			enter("a", semaphore(1), 1), enter("b", semaphore(2), 2),
		}},
		{name: "and the younger is noted first", permits: 2, play: []act{
			enter("b", semaphore(2), 2), enter("a", semaphore(1), 1),
		}},
		{name: "one permit in one's own opinion, and that is taken", permits: 2, play: []act{
			enter("b", semaphore(2), 1), enter("a", semaphore(1), 2),
		}, violations: 1},
		{name: "several permits at once", permits: 4, play: []act{
			enter("a", several(2, 4), 1), enter("b", several(2, 4), 2), leave("a"),
			enter("c", semaphore(4), 3), enter("d", semaphore(4), 4),
		}},
		{name: "more than there are", permits: 4, play: []act{
			enter("a", several(2, 4), 1), enter("b", semaphore(4), 2), enter("c", several(2, 4), 3),
		}, violations: 1},
		{name: "the dead hold permits", permits: 1, play: []act{
			enter("a", formSemaphoreMutex, 1), kill("a"), enter("b", semaphore(1), 2),
		}, violations: 1},
		{name: "who cannot see comes beside", blind: unseeing, play: []act{
			enter("a", formMutex, 1), intrude("x", 2), leave("a"), enter("b", formMutex, 3),
		}, ignored: 1, violations: 1},
		{name: "and the one it overtook comes beside it", blind: unseeing, play: []act{
			enter("a", formMutex, 1), intrude("x", 3), leave("a"), enter("b", formMutex, 2),
		}, ignored: 2},
		{name: "but they see each other", blind: unseeing, play: []act{
			intrude("x", 1), intrude("y", 2),
		}, violations: 1},
		{name: "and keep their own order, and nobody else's", blind: unseeing, play: []act{
			intrude("x", 5), leave("x"), enter("a", formMutex, 1), leave("a"), enter("b", formMutex, 2), leave("b"),
			intrude("y", 4),
		}, inversions: 1},
	} {
		r := newReferee(c.permits, c.blind)
		for _, a := range c.play {
			switch a.what {
			case "enter":
				e := entry{contender: a.who, family: seeing, form: a.form, czxid: a.zxid}
				if a.blind {
					e.family = unseeing
				}
				r.enter(e)
			case "leave":
				r.leave(a.who)
			case "kill":
				r.kill(a.who)
				if dead := r.dead(); len(dead) != 1 || dead[0].contender != a.who {
					t.Errorf("%s: the dead are %v", c.name, dead)
				}
			case "share":
				r.share(a.who)
			}
		}
		if len(r.violations) != c.violations || len(r.inversions) != c.inversions || r.ignored != c.ignored {
			t.Errorf("%s: violations %q, inversions %q, %d ignored", c.name, r.violations, r.inversions, r.ignored)
		}
	}
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
			t.Errorf("%s: %d of %d permits; shared %v", c.form, takes, permits, c.form.shared())
		}
	}
}

func TestNews(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]news{
		"enter a":            {word: newsEnter, contender: "a"},
		"opened a -12":       {word: newsOpened, contender: "a", text: "-12"},
		"fail a two  spaces": {word: newsFail, contender: "a", text: "two  spaces"},
	} {
		got, err := parseNews(line)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
	if _, err := parseNews("alone"); err == nil {
		t.Error("one word is taken for news")
	}
}
