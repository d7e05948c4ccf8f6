package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cached has the measurements of cached locks from one run.
type Cached struct{ Results }

// The figures that only cached locks have, in microseconds.
const (
	figureCrowd = "crowd_us_per_cycle"
	figureWalk  = "walk_us_per_lock"
)

// The figures that exist for several numbers of goroutines or of cycles.
func figureArrival(using int) string { return "arrival_p50_us_" + strconv.Itoa(using) }
func figureLongest(using int) string { return "arrival_longest_us_" + strconv.Itoa(using) }
func figureTurns(run int) string     { return "turns_us_per_cycle_" + strconv.Itoa(run) }

// defaultCacheFor is the default time for which cached locks are kept.
const defaultCacheFor = 50 * time.Millisecond

// goals returns the goals of cached locks, in the order of the table.
func (r *Cached) goals() []goal {
	idle, _ := r.value(keyCached, figureArrival(0))
	goals := []goal{
		{what: "acquire and release, µs", figure: figureCycle, limit: 5},
		{what: "requests to the server, each cycle", figure: figureRequests, limit: 0},
		{what: "allocations, each cycle", figure: figureAllocs(1), limit: 10},
		{what: fmt.Sprintf("%d goroutines with one lock, each cycle, µs", crowded), figure: figureCrowd, limit: 10},
		ratio("another session arrives at an idle lock ÷ plain handoff",
			figureArrival(0), figureCross(1), keyOurs, 2),
		{
			what:   fmt.Sprintf("another session arrives while %d goroutines use the lock, longest wait, µs", busy),
			figure: figureLongest(busy), limit: micros(float64(defaultCacheFor)) + idle,
		},
	}
	for _, run := range runs() {
		goals = append(goals, ratio(fmt.Sprintf("two sessions, %d times each in turn ÷ not cached", run),
			figureTurns(run), figureTurns(run), keyOurs, 1.15))
	}
	return append(goals,
		ratio("locks in turn, each once ÷ not cached", figureWalk, figureWalk, keyOurs, 1.1),
		goal{what: fmt.Sprintf("cycles/s with %d locks", busy), figure: figureRate(busy), atLeast: true, limit: 200_000})
}

func (r *Cached) rows() []row {
	all := []row{
		{"acquire and release, p50", figureCycle, "µs"},
		{"acquire and release, p99", figureCycleTail, "µs"},
		{"requests per cycle", figureRequests, ""},
		{"allocations per cycle", figureAllocs(1), ""},
		{fmt.Sprintf("%d locks, a goroutine each", busy), figureRate(busy), "cycles/s"},
		{fmt.Sprintf("%d goroutines with one lock, each cycle", crowded), figureCrowd, "µs"},
		{fmt.Sprintf("handoff, %d waiting", crowded), figureHandoff(crowded), "µs"},
		{"handoff to the only waiter, another session", figureCross(1), "µs"},
		{"another session arrives at an idle lock, p50", figureArrival(0), "µs"},
		{"another session arrives at an idle lock, longest", figureLongest(0), "µs"},
		{fmt.Sprintf("another session arrives, %d goroutines, p50", busy), figureArrival(busy), "µs"},
		{fmt.Sprintf("another session arrives, %d goroutines, longest", busy), figureLongest(busy), "µs"},
	}
	for _, run := range runs() {
		all = append(all, row{fmt.Sprintf("two sessions, %d times each in turn, each cycle", run), figureTurns(run), "µs"})
	}
	return append(all, row{"locks in turn, each once", figureWalk, "µs"})
}

// write writes the section about cached locks.
func (r *Cached) write(b *strings.Builder) {
	b.WriteString("\n## Cached locks\n\n")
	r.writeRun(b)
	b.WriteString("\n### Goals of cached locks\n\n")
	r.writeGoals(b, r.goals())
	b.WriteString("\n### Cached and not\n\n" + multiples)
	r.writeTable(b, r.rows())
}

func (*Cached) draw(string) error { return nil }
