package recipes

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"strings"
	"time"
)

// A setting carries steps out in worlds of one kind, and checks what must hold in each of them. There are two: worlds of one
// directory, with every kind of lock, and worlds of two directories, with multi-locks. A world W is a flat value without padding.
type setting[W comparable] interface {
	enabled(w *W, steps []step) []step
	take(w *W, s step) violation // brings the world into its normal form as well
	goal(w *W) bool

	// For people.
	stepText(w *W, s step, client rune) string
	describeWorld(w *W, names permutation) string
	listen(log func(c int, text string)) // to what the machines do
	sorted() permutation                 // how the latest step sorted the clients
}

// An explorer visits every world that can be reached, breadth first, so that
// the first violation it meets has a shortest interleaving.
type explorer[W comparable] struct {
	setting[W]

	limit   int // worlds, at most
	chunks  [][]W
	count   int
	parents []uint32
	table   []slot // open hashing
	seed    maphash.Seed

	// Progress steps, for looking backwards: those of world i lead to
	// edges[starts[i]:starts[i+1]].
	starts []uint32
	edges  []uint32
	goals  []uint32
}

// A slot of the table has a world's hash, so that worlds far away in memory are looked
// at only if they are likely to be the same.
type slot struct {
	hash uint32
	ref  uint32 // 1 + index of a world; 0 is an empty slot
}

const chunk = 1 << 14

// A finding is what a visit has come to: a violation with the interleaving that
// leads to it, or none.
type finding struct {
	violation violation
	states    int
	steps     int // transitions taken
	took      time.Duration
	trace     []string
	truncated bool
	met       map[meeting]bool
	changes   map[change]bool
}

func (f finding) String() string {
	rate := float64(f.states) / max(f.took.Seconds(), 1e-3) / 1000
	text := fmt.Sprintf("%9d states %10d steps %6.2fs %5.0fk states/s", f.states, f.steps, f.took.Seconds(), rate)
	if f.truncated {
		text += " (truncated)"
	}
	if f.violation != "" {
		text += "  " + string(f.violation)
	}
	return text
}

// explore visits every world of a configuration, unless there are more than the
// limit or one breaks a promise.
func explore(step stepFunc, cfg config, limit int) (f finding) {
	began := time.Now()
	defer func() {
		f.took = time.Since(began)
		runtime.GC() // the next configuration needs the memory
	}()
	if cfg.places != nil {
		e := newMultiEnv(step, cfg)
		return search(setting[multiWorld](e), e.open(cfg.left), limit)
	}
	if cfg.memory > 0 {
		step = remembering(cfg.memory, step)
	}
	if cfg.single {
		step = capped(2, step)
	}
	e := &environment{interpreter: newInterpreter(step, 0), options: cfg.options}
	root := newWorld(cfg.clients, cfg.left, cfg.flags, cfg.roles)
	for c, rule := range cfg.rules {
		if rule != nil {
			root.clients[c].machine, root.clients[c].raise = e.intern(NewMachine(rule)), raiseOf(rule)
		}
	}
	e.open(&root)
	f = search(setting[world](e), root, limit)
	f.met, f.changes = e.meetings(), e.changes()
	return f
}

// search visits every world that can be reached from the first one.
func search[W comparable](e setting[W], root W, limit int) finding {
	x := explorer[W]{setting: e, limit: limit, seed: maphash.MakeSeed(), table: make([]slot, 1<<16)}
	x.add(&root, 0)
	f := x.run()
	f.states = x.count
	return f
}

func (x *explorer[W]) at(i uint32) *W { return &x.chunks[i/chunk][i%chunk] }

func (x *explorer[W]) run() (f finding) {
	var steps []step
	for i := uint32(0); int(i) < x.count; i++ {
		if x.count > x.limit {
			f.truncated = true
			return f
		}
		w := *x.at(i)
		x.starts = append(x.starts, uint32(len(x.edges)))
		steps = x.enabled(&w, steps[:0])
		progress := false
		for _, s := range steps {
			next := w
			f.steps++
			if bad := x.take(&next, s); bad != "" {
				f.violation, f.trace = bad, x.explain(i, &s)
				return f
			}
			j := x.add(&next, i)
			if s.progress() {
				progress = true
				x.edges = append(x.edges, j)
			}
		}
		switch {
		case x.goal(&w):
			x.goals = append(x.goals, i)
		case !progress:
			f.violation, f.trace = stuck, x.explain(i, nil)
			return f
		}
	}
	x.starts = append(x.starts, uint32(len(x.edges)))
	if i, ok := x.hopeless(); ok {
		f.violation, f.trace = noWayOut, x.explain(i, nil)
	}
	return f
}

// add returns the index of a world, which is new or has been seen before.
func (x *explorer[W]) add(w *W, parent uint32) uint32 {
	if 2*x.count >= len(x.table) {
		x.grow()
	}
	mask := uint32(len(x.table) - 1)
	hash := uint32(maphash.Bytes(x.seed, bytesOf(w)))
	for h := hash & mask; ; h = (h + 1) & mask {
		switch s := x.table[h]; {
		case s.ref == 0:
			if x.count%chunk == 0 {
				x.chunks = append(x.chunks, make([]W, chunk))
			}
			i := uint32(x.count)
			*x.at(i) = *w
			x.count++
			x.parents = append(x.parents, parent)
			x.table[h] = slot{hash, i + 1}
			return i
		case s.hash == hash && *x.at(s.ref - 1) == *w:
			return s.ref - 1
		}
	}
}

func (x *explorer[W]) grow() {
	before := x.table
	x.table = make([]slot, 2*len(before))
	mask := uint32(len(x.table) - 1)
	for _, s := range before {
		if s.ref == 0 {
			continue
		}
		h := s.hash & mask
		for x.table[h].ref != 0 {
			h = (h + 1) & mask
		}
		x.table[h] = s
	}
}

// hopeless returns the first world from which progress alone leads to no goal.
func (x *explorer[W]) hopeless() (uint32, bool) {
	n := uint32(x.count)
	into := make([]uint32, n+1)
	for _, to := range x.edges {
		into[to+1]++
	}
	for i := range n {
		into[i+1] += into[i]
	}
	from := make([]uint32, len(x.edges))
	fill := append([]uint32(nil), into[:n]...)
	for i := range n {
		for _, to := range x.edges[x.starts[i]:x.starts[i+1]] {
			from[fill[to]] = i
			fill[to]++
		}
	}
	good := make([]bool, n)
	todo := x.goals
	for _, i := range todo {
		good[i] = true
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range from[into[i]:into[i+1]] {
			if !good[j] {
				good[j] = true
				todo = append(todo, j)
			}
		}
	}
	for i, ok := range good {
		if !ok {
			return uint32(i), true
		}
	}
	return 0, false
}

// explain tells how world i was reached, and what the last step does.
func (x *explorer[W]) explain(i uint32, last *step) []string {
	path := []uint32{i}
	for i != 0 {
		i = x.parents[i]
		path = append([]uint32{i}, path...)
	}
	w := *x.at(0)
	names := identity // which caller each client of the present world is
	var lines []string
	tell := func(s step) {
		var heard []string
		x.listen(func(c int, text string) {
			heard = append(heard, fmt.Sprintf("%c: %s", 'a'+names[c], text))
		})
		before := w
		x.take(&w, s)
		x.listen(nil)
		line := x.stepText(&before, s, rune('a'+names[s.client]))
		lines = append(lines, fmt.Sprintf("%2d. %s", len(lines)+1, strings.Join(append([]string{line}, heard...), "\n      ")))
		old := names
		for c := range names {
			names[c] = old[x.sorted()[c]]
		}
	}
	for _, want := range path[1:] {
		for _, s := range x.enabled(&w, nil) {
			next := w
			x.take(&next, s)
			if next == *x.at(want) {
				tell(s)
				break
			}
		}
	}
	if last != nil {
		tell(*last)
	} else {
		lines = append(lines, "    and there it ends: "+x.describeWorld(&w, names))
	}
	return lines
}

func (e *environment) listen(log func(c int, text string)) { e.log = log }

func (e *environment) sorted() permutation { return e.perm }

func (e *environment) describeWorld(w *world, names permutation) string {
	var parts []string
	for c := range w.clients {
		parts = append(parts, fmt.Sprintf("%c %v", 'a'+names[c], e.machines[w.clients[c].machine].state))
	}
	return fmt.Sprintf("%s; nodes %08b, directory %02x", strings.Join(parts, ", "), w.past[0], w.dirs[0])
}
