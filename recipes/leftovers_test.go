package recipes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// dueBy does what the words say to one directory, and returns the directories that become
// due, one after the other. "wait" advances the clock by LeftoverAfter.
func dueBy(words string) (due []Leftover) {
	var l Leftovers
	fates := map[string]Fate{"used": FateUsed, "gone": FateGone, "unknown": FateUnknown, "other": FateOther}
	now := time.Unix(1000, 0)
	const dir = "/locks/a"
	all := strings.Fields(words + " .")
	for i, word := range all[:len(all)-1] {
		switch word {
		case "made":
			l.Made(dir, int64(i+1), now)
		case "entered":
			l.Entered(dir)
		case "filled":
			l.Filled(dir)
		case "left":
			l.Left(dir, now)
		case "wait":
			now = now.Add(LeftoverAfter)
		case "less":
			now = now.Add(LeftoverAfter - 1)
		}
		if x, ok := l.Next(now); ok {
			f, named := fates[all[i+1]]
			if !named {
				f = FateRemoved
			}
			l.Ended(x, f, now)
			due = append(due, x)
		}
	}
	return due
}

func TestWhenALeftoverIsDue(t *testing.T) {
	for _, c := range []struct {
		name  string
		words string
		due   int
		bare  bool
	}{
		{"its contender has left", "made filled left wait", 1, false},
		{"not at once", "made filled left less", 0, false},
		{"not while it is used", "made filled wait wait", 0, false},
		{"not while another contender is there", "made filled entered left wait", 0, false},
		{"when the last one has left", "made filled entered left wait left wait", 1, false},
		{"not if it is used again in time", "made filled left less entered wait", 0, false},
		{"a loop", "made filled left less entered left less entered left less", 0, false},
		{"it has stayed bare", "made wait", 1, true},
		{"it has stayed bare, and its contender has left", "made less left less wait", 1, true},
		{"it has stayed bare, and contenders came and left", "made left entered left wait", 1, true},
		{"never one of another client", "entered filled left wait", 0, false},
		{"once for each path", "made filled left wait made filled left wait wait", 1, false},
		{"again if it stays bare", "made filled left wait made wait", 2, true},
		{"another client uses it", "made filled left wait used wait wait", 1, false},
		{"another client used it, and this one again", "made filled left wait used entered left wait", 2, false},
		{"it was gone already", "made filled left wait gone made filled left wait", 2, false},
		{"no answer", "made filled left wait unknown wait", 2, false},
		{"no answer, and bare", "made wait unknown wait", 2, true},
		{"it may not be removed", "made filled left wait other wait left wait", 1, false},
	} {
		due := dueBy(c.words)
		eventstest.Expect(t, len(due) == c.due && (c.due <= 0 || due[c.due-1].Bare == c.bare),
			"%s: %+v are due, want %d, the last one bare %v", c.name, due, c.due, c.bare)
	}
}

// TestAParentIsDueAfterItsLastChild, and not while it has another one.
func TestAParentIsDueAfterItsLastChild(t *testing.T) {
	var l Leftovers
	now := time.Unix(1000, 0)
	l.Made("/a", 1, now)
	l.Made("/a/b", 2, now)
	l.Filled("/a/b")
	l.Left("/a/b", now)
	for i, want := range []string{"/a/b", "/a"} {
		now = now.Add(LeftoverAfter)
		x, ok := l.Next(now)
		if _, second := l.Next(now); x.Dir != want || second {
			t.Fatalf("after %d waits %q (%v) is due, and another one %v; want %s alone", i+1, x.Dir, ok, second, want)
		}
		l.Ended(x, FateRemoved, now)
	}
	eventstest.Equal(t, len(l.known), 0, "known directories")
}

func TestWhatALeftoverMayBe(t *testing.T) {
	for _, c := range []struct {
		stat   LeftoverStat
		fate   Fate
		remove bool
	}{
		{LeftoverStat{Czxid: 7, Changes: 2, Version: 5}, FateUnknown, true},
		{LeftoverStat{Czxid: 7}, FateUnknown, true},
		{LeftoverStat{Czxid: 7, Children: 1, Changes: 1}, FateUsed, false},
		{LeftoverStat{Czxid: 8, Changes: 2}, FateOther, false},
		{LeftoverStat{Czxid: 6}, FateOther, false},
		{LeftoverStat{Czxid: 7, Version: 1}, FateOther, false}, // data were written to it, and it has had no child
	} {
		fate, remove := Leftover{Dir: "/a", czxid: 7}.Judge(c.stat)
		eventstest.Expect(t, fate == c.fate && remove == c.remove,
			"%+v: fate %d, to be removed %v; want %d, %v", c.stat, fate, remove, c.fate, c.remove)
	}
}

// TestLeftoversKeepToTheirRate of 1,000 in any second, however fast the answers come, and
// to a bound on those in progress if none comes.
func TestLeftoversKeepToTheirRate(t *testing.T) {
	const all, most = 5000, 1000
	var l Leftovers
	now := time.Unix(1000, 0)
	for i := range all {
		l.Made(fmt.Sprintf("/locks/%d", i), int64(i+1), now)
	}
	var begun []time.Time
	for len(begun) < all {
		wait, ok := l.Wait(now)
		if !ok {
			t.Fatalf("after %d of %d nothing is waited for", len(begun), all)
		}
		now = now.Add(wait)
		for x, ok := l.Next(now); ok; x, ok = l.Next(now) {
			begun = append(begun, now)
			l.Ended(x, FateRemoved, now)
		}
	}
	for i := most; i < all; i++ {
		if took := begun[i].Sub(begun[i-most]); took < time.Second {
			t.Fatalf("removals %d to %d take %v, want at least a second", i-most, i, took)
		}
	}
	took := begun[all-1].Sub(begun[0])
	eventstest.Expect(t, took <= all*time.Second/900, "%d removals take %v, want 900 a second", all, took)
	for i := range all {
		l.Made(fmt.Sprintf("/again/%d", i), int64(all+i+1), now)
	}
	underWay := 0
	for range all {
		now = now.Add(LeftoverAfter)
		if _, ok := l.Next(now); ok {
			underWay++
		}
	}
	if _, ok := l.Wait(now); underWay != leftoverBurst || ok {
		t.Errorf("%d removals are under way, and the next one is waited for %v; want %d, and not", underWay, ok, leftoverBurst)
	}
}

// TestBareLeftoversGoFirst: servers do not remove them.
func TestBareLeftoversGoFirst(t *testing.T) {
	var l Leftovers
	now := time.Unix(1000, 0)
	for i, dir := range []string{"/a", "/b", "/c"} {
		l.Made(dir, int64(i+1), now)
	}
	for _, dir := range []string{"/a", "/c"} {
		l.Filled(dir)
		l.Left(dir, now)
	}
	l.Made("/d", 4, now)
	l.Entered("/d")
	eventstest.Equal(t, l.Bare(10), []Leftover{{"/b", 2, true}, {"/d", 4, true}}, "bare directories")
	eventstest.Equal(t, len(l.Bare(1)), 1, "bare directories, at most one")
	var order string
	now = now.Add(LeftoverAfter)
	for x, ok := l.Next(now); ok; x, ok = l.Next(now) {
		order += x.Dir
	}
	eventstest.Equal(t, order, "/b/a/c", "due are")
}

// TestLeftoversAreBounded, and so are the paths that were removed. A bare directory is
// forgotten last.
func TestLeftoversAreBounded(t *testing.T) {
	var l Leftovers
	now := time.Unix(1000, 0)
	l.Made("/bare", 1, now)
	for i := range 2 * mostLeftovers {
		dir := fmt.Sprintf("/locks/%d", i)
		l.Made(dir, int64(i+2), now)
		l.Filled(dir)
		if i%2 == 0 {
			l.Left(dir, now)
		}
	}
	if n := len(l.known); n > mostLeftovers || l.known["/bare"] == nil {
		t.Errorf("%d directories are known, the bare one %v; want at most %d, and it among them", n, l.known["/bare"] != nil, mostLeftovers)
	}
	for i := range 3 * mostRemoved {
		l.remember(fmt.Sprintf("/locks/%d", i))
	}
	if n := len(l.removed) + len(l.removedBefore); n > 2*mostRemoved || !l.returned(fmt.Sprintf("/locks/%d", 2*mostRemoved)) {
		t.Errorf("%d paths are remembered, want at most %d, the latest ones", n, 2*mostRemoved)
	}
}
