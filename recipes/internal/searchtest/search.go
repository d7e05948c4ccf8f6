// Package searchtest visits every world of a model, breadth first, so the interleaving of
// the first violation is a shortest one. It knows nothing about locks. It is for tests
// only.
package searchtest

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"
	"unsafe"
)

// A Violation says which promise a world breaks; "" is none.
type Violation string

// The violations that only a search can find.
const (
	Stuck    Violation = "stuck"             // no progress is possible
	NoWayOut Violation = "no way to the end" // no progress leads to a goal
)

// A Model defines what may happen in worlds of one kind. A world W is a flat value
// without padding, so that its bytes identify it. A step S leads from one world to the
// next.
type Model[W comparable, S any] interface {
	// Enabled appends every step that may come next.
	Enabled(w *W, steps []S) []S
	// Take executes a step, checks the new world and brings it into its normal form.
	Take(w *W, s S) Violation
	// Progress reports whether a step happens by itself sooner or later.
	Progress(s S) bool
	// Goal reports whether everything has ended well.
	Goal(w *W) bool
	// Narrate describes one interleaving to people, from its start: tell takes a step, and
	// describes what happens; standing describes a world.
	Narrate() (tell func(w *W, s S) []string, standing func(w *W) string)
}

// A Finding is the result of a search: a violation with the interleaving that leads to
// it, or none.
type Finding struct {
	Violation Violation
	States    int
	Steps     int // transitions taken
	Took      time.Duration
	Trace     []string
	Truncated bool // there are more worlds than the limit
}

// String says how much was visited, how quickly, and what was found.
func (f Finding) String() string {
	rate := float64(f.States) / max(f.Took.Seconds(), 1e-3) / 1000
	text := fmt.Sprintf("%9d states %10d steps %6.2fs %5.0fk states/s", f.States, f.Steps, f.Took.Seconds(), rate)
	if f.Truncated {
		text += " (truncated)"
	}
	if f.Violation != "" {
		text += "  " + string(f.Violation)
	}
	return text
}

// Bytes returns the memory of a value without padding.
func Bytes[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

type search[W comparable, S any] struct {
	Model[W, S]

	limit   int // worlds, at most
	chunks  [][]W
	count   int
	parents []uint32
	table   []slot // open hashing
	seed    maphash.Seed

	// Progress steps, for the search backwards: those of world i lead to
	// edges[starts[i]:starts[i+1]].
	starts []uint32
	edges  []uint32
	goals  []uint32
}

// A slot of the table has a world's hash, so that a world elsewhere in memory is compared
// only if it is likely to be the same.
type slot struct {
	hash uint32
	ref  uint32 // 1 + index of a world; 0 is an empty slot
}

const chunk = 1 << 14

// Visit visits every world that can be reached from the first one. It stops at the limit,
// or if a promise is broken.
func Visit[W comparable, S any](m Model[W, S], first W, limit int) Finding {
	began := time.Now()
	x := search[W, S]{Model: m, limit: limit, seed: maphash.MakeSeed(), table: make([]slot, 1<<16)}
	x.add(&first, 0)
	f := x.run()
	f.States, f.Took = x.count, time.Since(began)
	return f
}

func (x *search[W, S]) at(i uint32) *W { return &x.chunks[i/chunk][i%chunk] }

func (x *search[W, S]) run() (f Finding) {
	var steps []S
	for i := uint32(0); int(i) < x.count; i++ {
		if x.count > x.limit {
			f.Truncated = true
			return f
		}
		w := *x.at(i)
		x.starts = append(x.starts, uint32(len(x.edges)))
		steps = x.Enabled(&w, steps[:0])
		progress := false
		for _, s := range steps {
			next := w
			f.Steps++
			if bad := x.Take(&next, s); bad != "" {
				f.Violation, f.Trace = bad, x.explain(i, &s)
				return f
			}
			j := x.add(&next, i)
			if x.Progress(s) {
				progress = true
				x.edges = append(x.edges, j)
			}
		}
		switch {
		case x.Goal(&w):
			x.goals = append(x.goals, i)
		case !progress:
			f.Violation, f.Trace = Stuck, x.explain(i, nil)
			return f
		}
	}
	x.starts = append(x.starts, uint32(len(x.edges)))
	if i, ok := x.hopeless(); ok {
		f.Violation, f.Trace = NoWayOut, x.explain(i, nil)
	}
	return f
}

// add returns the index of a world, new or seen before.
func (x *search[W, S]) add(w *W, parent uint32) uint32 {
	if 2*x.count >= len(x.table) {
		x.grow()
	}
	mask := uint32(len(x.table) - 1)
	hash := uint32(maphash.Bytes(x.seed, Bytes(w)))
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

func (x *search[W, S]) grow() {
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
func (x *search[W, S]) hopeless() (uint32, bool) {
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

// explain describes how world i was reached, and what the last step does.
func (x *search[W, S]) explain(i uint32, last *S) (lines []string) {
	path := []uint32{i}
	for i != 0 {
		i = x.parents[i]
		path = append([]uint32{i}, path...)
	}
	w := *x.at(0)
	describe, standing := x.Narrate()
	tell := func(s S) {
		lines = append(lines, fmt.Sprintf("%2d. %s", len(lines)+1, strings.Join(describe(&w, s), "\n      ")))
	}
	for _, want := range path[1:] {
		for _, s := range x.Enabled(&w, nil) {
			next := w
			x.Take(&next, s)
			if next == *x.at(want) {
				tell(s)
				break
			}
		}
	}
	if last != nil {
		tell(*last)
	} else {
		lines = append(lines, "    and there it ends: "+standing(&w))
	}
	return lines
}
