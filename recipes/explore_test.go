package recipes

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes/internal/searchtest"
)

// bigRun names the environment variable that enables more faults at a time, and visits
// the everyday worlds without leaving out what every machine ignores. For mutexes alone,
// that is 249 million worlds: eight minutes on one core, and 6 GB of memory. A
// full-length run without it visits 147 million worlds of all kinds of locks: four
// minutes on two cores, and 3.3 GB.
const bigRun = "ZKGRANT_EXPLORE_BIG"

// These bound the number of worlds of a configuration. At full length, the test fails
// beyond the bound, because an incomplete visit proves nothing. By default, a visit stops
// after the first worlds of a configuration, which are those with the fewest steps.
const (
	most      = 20_000_000
	mostBig   = 30_000_000
	mostQuick = 10_000
)

// TestExplore visits every interleaving of the configurations, two at a time.
func TestExplore(t *testing.T) {
	big := os.Getenv(bigRun) != ""
	everyday := worlds(t, "mutex", "directory", "sharing", "warm", "semaphores", "at once", "unfair", "kazoo", "revocations", "crashes", "delays")
	switch {
	case big:
		all := worlds(t, "huge")
		for _, cfg := range everyday {
			cfg.whole = true
			all = append(all, cfg)
		}
		exploreAll(t, 1, mostBig, all)
	case eventstest.Full():
		exploreAll(t, 2, most, everyday)
		t.Logf("set %s=1 for more faults at a time, and for the same worlds without simplifications", bigRun)
	default:
		exploreAll(t, 2, mostQuick, everyday)
		t.Log("set ZKGRANT_FULL=1 for the rest of the worlds")
	}
}

// TestExploreMulti visits every interleaving of multi-locks in two directories.
func TestExploreMulti(t *testing.T) {
	exploreAll(t, 2, eventstest.Amount(mostQuick, most), worlds(t, "multi"))
}

// exploreAll visits the worlds of the configurations, at most limit worlds of each.
func exploreAll(t *testing.T, workers, limit int, all []config) {
	t.Helper()
	began := time.Now()
	all = inTurn(all)
	var mu sync.Mutex
	var states, steps, left int
	atATime(workers, all, func(cfg config) {
		cfg.limit = limit
		f := explore(after, cfg)
		t.Logf("%d contenders, %-55s %v", cfg.clients, cfg.name, f)
		eventstest.Expect(t, !f.Truncated || limit == mostQuick, "%s: more than %d worlds", cfg.name, limit)
		eventstest.Expect(t, f.Violation == "",
			"%s: %s\n%s", cfg.name, f.Violation, strings.Join(f.Trace, "\n"))
		mu.Lock()
		defer mu.Unlock()
		states, steps = states+f.States, steps+f.Steps
		if f.Truncated {
			left++
		}
	})
	took := time.Since(began).Seconds()
	fmt.Printf("%s: %d worlds, %d transitions in %.1fs (%.0fk worlds/s); %d of %d configurations not to the end\n",
		t.Name(), states, steps, took, float64(states)/took/1000, left, len(all))
}

// inTurn returns the configurations that `make test` visits for its commit, one in three.
func inTurn(all []config) []config {
	return slices.DeleteFunc(slices.Clone(all), func(cfg config) bool { return !eventstest.InTurn(cfg.name) })
}

// atATime calls do for each item, for several items at a time, and returns once all calls
// have returned.
func atATime[T any](workers int, items []T, do func(T)) {
	room := make(chan struct{}, workers)
	var working sync.WaitGroup
	for _, item := range items {
		room <- struct{}{}
		working.Go(func() {
			do(item)
			<-room
		})
	}
	working.Wait()
}

// TestExploreLosesNothing checks the explorer's simplifications: with and without them,
// the machines take exactly the same steps. By default, it does not finish the largest
// worlds without simplifications.
func TestExploreLosesNothing(t *testing.T) {
	atATime(2, inTurn(worlds(t, "both ways")), func(cfg config) {
		cfg.limit = most
		simple := explore(after, cfg)
		cfg.whole, cfg.limit = true, eventstest.Amount(5*mostQuick, most)
		whole := explore(after, cfg)
		eventstest.Expect(t, simple.Violation == "" && whole.Violation == "",
			"%s: %q, %q\n%s", cfg.name, simple.Violation, whole.Violation, strings.Join(whole.Trace, "\n"))
		t.Logf("%-40s %8d worlds of %8d, %d changes", cfg.name, simple.States, whole.States, len(whole.changes))
		for c := range whole.changes {
			if !simple.changes[c] {
				t.Errorf("%s: no machine in %v is given %+v", cfg.name, c.state, c.in)
			}
		}
	})
}

func TestWorldsHaveNoPadding(t *testing.T) {
	for _, c := range []struct {
		what         string
		size, fields uintptr
	}{
		{"client", unsafe.Sizeof(client{}), 4 + 8*maxRequests + 20},
		{"world", unsafe.Sizeof(world{}), maxClients*unsafe.Sizeof(client{}) + 4*maxNodes + 4*(maxLag+1) + 6 + 3 + 4 + 16 + 3 + 4},
	} {
		eventstest.Equal(t, c.size, c.fields, "the bytes of a %s, and of its fields", c.what)
	}
}

// A finding is the result of a visit, with all steps that made a difference to a machine.
type finding struct {
	searchtest.Finding

	changes map[change]bool
}

// A change is a step of a machine that makes a difference. Steps of a machine that is
// over do not count.
type change struct {
	Machine

	in any
}

func (it *interpreter) changes() map[change]bool {
	all := map[change]bool{}
	for k, r := range it.memo {
		if len(r.effects) > 0 || r.next != k.machine && it.traits[k.machine].state != Over {
			all[change{it.machines[k.machine], k.in}] = true
		}
	}
	return all
}

func explore(machine stepFunc, cfg config) (f finding) {
	defer runtime.GC() // the next configuration needs the memory
	if cfg.memory > 0 {
		machine = remembering(cfg.memory, machine)
	}
	if cfg.single {
		machine = capped(2, machine)
	}
	e, root := cfg.begin(machine, 0)
	f.Finding = searchtest.Visit(searchtest.Model[world, step](e), root, cfg.limit)
	f.changes = e.changes()
	return f
}

// begin returns the first world of a configuration, and its environment. first is the
// number of the first node.
func (f *config) begin(machine stepFunc, first int64) (*environment, world) {
	e := &environment{interpreter: newInterpreter(machine, first), options: f.options}
	w := newWorld(f.clients, f.left, f.flags, f.roles)
	if f.places != nil {
		inDirectories(e, &w, f.places)
	}
	for c, rule := range f.rules {
		w.clients[c].machine = e.intern(NewMachine(rule))
	}
	e.open(&w)
	return e, w
}

func (e *environment) Narrate() (tell func(*world, step) []string, standing func(*world) string) {
	names := identity // which caller each client of the current world is
	tell = func(w *world, s step) []string {
		lines := []string{e.stepText(w, s, rune('a'+names[s.client]))}
		e.log = func(c int, text string) { lines = append(lines, fmt.Sprintf("%c: %s", 'a'+names[c], text)) }
		e.Take(w, s)
		e.log = nil
		before := names
		for c := range names {
			names[c] = before[e.perm[c]]
		}
		return lines
	}
	standing = func(w *world) (text string) {
		for c := range w.clients {
			text += fmt.Sprintf("%c %v, ", 'a'+names[c], e.machines[w.clients[c].machine].state)
		}
		return fmt.Sprintf("%snodes %08b, directory %02x", text, w.past[0], w.dirs[0])
	}
	return tell, standing
}
