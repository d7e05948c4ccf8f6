package recipes

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// A config is a world to explore: its contenders, and its faults.
type config struct {
	name    string
	clients int
	left    budget
	flags   []uint8
	roles   []uint8
	rules   []Rule
	memory  int         // how many contenders ahead a waiter remembers; 0: as many as in production
	places  []multiRole // the places of each client in two directories; nil if there is one directory
	limit   int         // how many worlds are visited at most
	want    violation   // that is looked for
	options
}

// remembering makes a machine remember at most so many of the contenders ahead, because no world is large enough for as many as it
// remembers.
func remembering(most int, step stepFunc) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		next, effects := step(m, in)
		if next.state == Waiting {
			clear(next.older[most:])
		}
		return next, effects
	}
}

// capped keeps machines from counting their attempts beyond a number. Where a late create leaves no node there may be many
// attempts, all the same.
func capped(most Attempt, step stepFunc) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		next, effects := step(m, in)
		if next.attempt > most {
			next.attempt = most
			for i, e := range effects {
				switch e := e.(type) {
				case Create:
					e.Attempt = most
					effects[i] = e
				case List:
					e.Attempt = min(e.Attempt, most)
					effects[i] = e
				case Pause:
					e.Attempt = most
					effects[i] = e
				}
			}
		}
		return next, effects
	}
}

// worldsFile has the worlds to explore.
const worldsFile = "testdata/worlds.txt"

// worlds returns the worlds of some sections of the file.
func worlds(t *testing.T, sections ...string) (all []config) {
	t.Helper()
	text, err := os.ReadFile(worldsFile)
	if err != nil {
		t.Fatal(err)
	}
	section, there := "", map[string]bool{}
	lines := strings.ReplaceAll(string(text), "\n\t", " ")
	for line := range strings.Lines(lines) {
		who, faults, ok := strings.Cut(strings.TrimSpace(line), ": ")
		name, begins := strings.CutPrefix(who, "== ")
		switch {
		case begins:
			section, there[name] = name, true
		case strings.HasPrefix(who, "#"), who == "", !slices.Contains(sections, section):
		case !ok:
			t.Fatalf("%s: %q has no faults behind a colon", worldsFile, line)
		default:
			for left := range strings.SplitSeq(faults, ", ") {
				all = append(all, worldOf(t, who, left))
			}
		}
	}
	for _, name := range sections {
		if !there[name] {
			t.Fatalf("%s has no section %q", worldsFile, name)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no worlds in %v", worldsFile, sections)
	}
	return all
}

// worldOf is the world with these faults, without inputs that no machine listens to.
func worldOf(t *testing.T, who, left string) config {
	t.Helper()
	f, err := parseSpec(who)
	if err != nil {
		t.Fatalf("%s: %q: %v", worldsFile, who, err)
	}
	f.name, f.whole = who+": "+left, false
	counts := fields[uint8](&f.left)
	for fault := range strings.FieldsSeq(left) {
		switch count := counts[fault]; {
		case count != nil:
			*count++
		case fault != "none":
			t.Fatalf("%s: %q: no such fault: %s", worldsFile, who, fault)
		}
	}
	return f
}
