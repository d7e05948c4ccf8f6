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

// TestTheReferee plays testdata/referee.txt, which needs no server: what is allowed, and each thing that is not. Behind
// the dashes stands what the referee found. With -update the test writes that.
//
//	lock [permits=n] [blind=family]  it is a semaphore, or one family cannot see the others
//	a enters form zxid               a, of the family that sees, is inside; its node has this zxid
//	a intrudes form zxid             a, of the family unseeing, is inside
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

func TestNews(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]news{
		"enter a":            {word: newsEnter, contender: "a"},
		"opened a -12":       {word: newsOpened, contender: "a", text: "-12"},
		"fail a two  spaces": {word: newsFail, contender: "a", text: "two  spaces"},
	} {
		got, err := parseNews(line)
		if err != nil || got != want {
			t.Errorf("parseNews(%q) = %+v, %v; want %+v", line, got, err, want)
		}
	}
	if _, err := parseNews("alone"); err == nil {
		t.Error("one word is taken for news")
	}
}
