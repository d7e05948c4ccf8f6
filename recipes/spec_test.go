package recipes

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// specVariable names the environment variable that says which world TestExploreFinds
// explores, and which violation it looks for:
//
//	clients=3 withdraw=1 cut=1 plain eager -> two holders
//
// A spec has these words, each at most once, in any order:
//
//	clients=2                    how many contenders there are
//	cut=1 expire=2 ...           how many faults of a kind may happen; see budget in world_test.go
//	plain eager late ...         what else differs; see options in environment_test.go
//	dir=alien                    the directory at first: known, unknown, alien, none
//	memory=1                     how many contenders ahead a waiter remembers
//	flags=keep,try+strict,-      of each contender; - is none
//	roles=writer,reader,shares   of each contender
//	rules=semaphore:4:3,unfair   of each contender;
//	                             semaphore:2:1:adopt accepts any size
//	places=pq,qp:rw,p            of each contender in two directories, with the kinds
//	                             lock, read, write; the first letters name the directories
//	                             in order; with one directory it is not a multi-lock
//	worlds=1000                  the maximum number of worlds to visit
//	simple                       leaves out what machines ignore, which is correct if the
//	                             machines are
const specVariable = "ZKGRANT_EXPLORE"

// mostFind is the maximum number of worlds to visit if the spec does not set one.
const mostFind = 400_000

func parseSpec(spec string) (f config, err error) {
	f.limit, f.whole = mostFind, true
	words, want, _ := strings.Cut(spec, "->")
	f.name, f.want = spec, violation(strings.TrimSpace(want))
	counts, switches := fields[uint8](&f.left), fields[bool](&f.options)
	counts["clients"], counts["memory"] = new(uint8), new(uint8)
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		key, value, valued := strings.Cut(word, "=")
		head := strings.TrimSuffix(word, value) // late and late=1 are two words
		if seen[head] {
			return f, fmt.Errorf("%s stands twice", head)
		}
		seen[head] = true
		n, notNumber := strconv.Atoi(value)
		switch {
		case valued && counts[key] != nil && notNumber == nil && n >= 0 && n <= math.MaxUint8:
			*counts[key] = uint8(n)
		case !valued && switches[key] != nil:
			*switches[key] = true
		case key == "simple" && !valued:
			f.whole = false
		case key == "worlds" && notNumber == nil && n > 0:
			f.limit = n
		case valued:
			err = f.list(key, strings.Split(value, ","))
		default:
			err = fmt.Errorf("no such word: %s", word)
		}
		if err != nil {
			return f, err
		}
	}
	f.clients, f.memory = int(*counts["clients"]), int(*counts["memory"])
	for c := range min(len(f.flags), len(f.places)) {
		f.places[c].flags = f.flags[c]
	}
	most := max(len(f.roles), len(f.rules), len(f.places), len(f.flags))
	if f.clients == 0 {
		f.clients = most
	}
	if f.clients < most {
		return f, fmt.Errorf("%d clients, and words for %d", f.clients, most)
	}
	return f, nil
}

// list parses a word of a spec that has a value for each contender.
func (f *config) list(key string, values []string) error {
	for _, value := range values {
		var bits uint8
		names := map[string]map[string]uint8{"flags": flagNames, "roles": roleNames}[key]
		for word := range strings.SplitSeq(value, "+") {
			bit, ok := names[word]
			if names != nil && !ok && word != "-" {
				return fmt.Errorf("no such word in %s: %s", key, word)
			}
			bits |= bit
		}
		switch key {
		case "flags":
			f.flags = append(f.flags, bits)
		case "roles":
			f.roles = append(f.roles, bits)
		case "rules":
			rule, err := ruleNamed(value)
			if err != nil {
				return err
			}
			f.rules = append(f.rules, rule)
		case "places":
			place, err := placesNamed(value)
			if err != nil {
				return err
			}
			f.places = append(f.places, place)
		case "dir":
			dir := slices.Index([]string{"known", "unknown", "alien", "none"}, value)
			if dir < 0 || len(values) > 1 {
				return fmt.Errorf("no such directory: %s", strings.Join(values, ","))
			}
			f.dir = start(dir)
		default:
			return fmt.Errorf("no such word: %s", key)
		}
	}
	return nil
}

var (
	flagNames = map[string]uint8{"try": flagTry, "keep": flagKeep, "strict": flagStrict, "detect": flagDetect}
	roleNames = map[string]uint8{
		"reader": roleRead, "writer": roleWrite, "shares": roleShares, "kazoo": roleKazoo, "delays": roleDelays,
		"trades": roleWrite | roleShares | roleTrades, "takes": roleRead | roleShares | roleTakes,
	}
)

func ruleNamed(name string) (Rule, error) {
	var s Semaphore
	if name == "unfair" {
		return Unfair{}, nil
	}
	head, adopt := strings.CutSuffix(name, ":adopt")
	s.Adopt = adopt
	_, _ = fmt.Sscanf(head, "semaphore:%d:%d", &s.Size, &s.Permits)
	if head != fmt.Sprintf("semaphore:%d:%d", s.Size, s.Permits) {
		return nil, fmt.Errorf("no such rule: %s", name)
	}
	return s, nil
}

var placeName = regexp.MustCompile(`^([pq]|pq|qp)(?::([lrw]+))?$`)

func placesNamed(name string) (r multiRole, err error) {
	parts := placeName.FindStringSubmatch(name)
	if parts == nil || parts[2] != "" && len(parts[2]) != len(parts[1]) {
		return r, fmt.Errorf("no such place: %s", name)
	}
	r.plain = len(parts[1]) == 1
	for i, d := range parts[1] {
		kind := events.KindLock
		if parts[2] != "" {
			kind = map[byte]events.Kind{'l': events.KindLock, 'r': events.KindRead, 'w': events.KindWrite}[parts[2][i]]
		}
		r.dirs, r.kinds = append(r.dirs, uint8(d-'p')), append(r.kinds, kind)
	}
	return r, nil
}

// fields returns the fields of a struct that have the type, by name.
func fields[T any](of any) map[string]*T {
	all, v := map[string]*T{}, reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if v.Field(i).Type() == reflect.TypeFor[T]() {
			all[v.Type().Field(i).Name] = (*T)(unsafe.Pointer(v.Field(i).UnsafeAddr()))
		}
	}
	return all
}

// TestExploreFinds explores the world of one spec. It fails with the line "violation:
// ..." if it finds the violation that the spec names, and with "other violation: ..." if
// it finds another one.
func TestExploreFinds(t *testing.T) {
	spec := cmp.Or(os.Getenv(specVariable), "clients=2 withdraw=1 cut=1 worlds=5000")
	s, err := parseSpec(spec)
	if err != nil {
		t.Fatalf("%q: %v", spec, err)
	}
	f := explore(after, s)
	t.Log(f)
	switch f.Violation {
	case "":
	case s.want:
		t.Errorf("violation: %s\n%s", f.Violation, strings.Join(f.Trace, "\n"))
	default:
		t.Errorf("other violation: %s\n%s", f.Violation, strings.Join(f.Trace, "\n"))
	}
}

type config struct {
	name    string
	clients int
	left    budget
	flags   []uint8
	roles   []uint8
	rules   []Rule
	memory  int         // how many contenders ahead a waiter remembers; 0: as many as in production
	places  []multiRole // the places of each client in two directories; nil if there is one directory
	limit   int         // the maximum number of worlds to visit
	want    violation   // the violation to look for
	options
}

// remembering makes a machine remember at most this many contenders ahead, because no
// world is large enough for the number that it remembers in production.
func remembering(most int, step stepFunc) stepFunc {
	return func(m Machine, in Input) (Machine, []Effect) {
		next, effects := step(m, in)
		if next.state == Waiting {
			clear(next.older[most:])
		}
		return next, effects
	}
}

// capped keeps machines from counting their attempts beyond a number. If a late create
// leaves no node, there may be many attempts, all alike.
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

const worldsFile = "testdata/worlds.txt"

// worlds returns the worlds in these sections of the file.
func worlds(t *testing.T, sections ...string) (all []config) {
	t.Helper()
	text, err := os.ReadFile(worldsFile)
	eventstest.Must(t, err)
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

// worldOf returns the world with these faults, without the inputs that machines ignore.
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
