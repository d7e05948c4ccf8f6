package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// goal is a limit for a figure of the subject, either as it is or divided by another
// figure.
type goal struct {
	what    string
	figure  string // a figure of the subject
	over    string // the figure to divide by; empty for none
	of      string // the library of the figure to divide by
	atLeast bool   // the limit is a minimum, not a maximum
	limit   float64
}

// ratio returns the goal that a figure is at most limit times a figure of another
// library.
func ratio(what, figure, over, of string, limit float64) goal {
	return goal{what: what, figure: figure, over: over, of: of, limit: limit}
}

// subject returns the library that the others are compared with.
func (r *Results) subject() string {
	if len(r.Libraries) == 0 {
		return keyOurs
	}
	return r.Libraries[0].Key
}

// goals returns zkgrant's goals, in the order of the table. "The longest queue" is the
// longest one measured.
func (r *Results) goals() []goal {
	long := r.longest(keyOurs)
	cycle := "uncontended cycle"
	awaited := "the same, release awaited"
	goals := []goal{
		ratio(cycle+" ÷ zk.Lock", figureCycle, figureCycle, keyStock, 0.45),
		ratio(cycle+" ÷ Curator", figureCycle, figureCycle, keyCurator, 0.45),
		ratio(cycle+" ÷ kazoo", figureCycle, figureCycle, keyKazoo, 0.25),
		ratio(cycle+" ÷ etcd", figureCycle, figureCycle, keyEtcd, 0.65),
		ratio(awaited+" ÷ zk.Lock", figureAwaited, figureCycle, keyStock, 0.75),
		ratio(awaited+" ÷ bare Multi and delete", figureAwaited, figureCycle, keyBare, 1.15),
		{what: "requests to the server, each cycle", figure: figureRequests, limit: 2},
	}
	for _, locks := range []int{64, 512} {
		goals = append(goals, goal{
			what:   fmt.Sprintf("cycles/s with %d locks in one session ÷ zk.Lock", locks),
			figure: figureRate(locks), over: figureRate(locks), of: keyStock, atLeast: true, limit: 1.9,
		})
	}
	goals = append(goals, goal{
		what:   "the same with 64, release awaited ÷ zk.Lock",
		figure: figureManyAwaited(64), over: figureRate(64), of: keyStock, atLeast: true, limit: 1.6,
	})
	for _, short := range []struct {
		queue int
		limit float64
	}{{20, 1}, {100, 1}, {1000, 0.5}, {10_000, 0.08}} {
		figure := figureHandoff(short.queue)
		goals = append(goals, ratio(fmt.Sprintf("handoff with %d waiting ÷ zk.Lock", short.queue),
			figure, figure, keyStock, short.limit))
	}
	return append(goals,
		ratio(fmt.Sprintf("handoff with %d waiting ÷ ours with 20", long),
			figureHandoff(long), figureHandoff(20), keyOurs, 1.3),
		ratio(fmt.Sprintf("bytes of a handoff with %d waiting ÷ ours with 20", long),
			figureBytes(long), figureBytes(20), keyOurs, 1.1),
		ratio("release → grant to the only waiter, in another session ÷ bare client",
			figureCross(1), figureCross(1), keyBare, 1.25),
		ratio("the same ÷ zk.Lock", figureCross(1), figureCross(1), keyStock, 0.85),
		ratio("the same after three probe intervals of waiting ÷ zk.Lock",
			figurePatient, figureCross(1), keyStock, 0.85),
		ratio("the same to one of many ÷ bare client",
			figureCross(crossCrowd), figureCross(crossCrowd), keyBare, 1.25),
		goal{what: "watches fired, each handoff with 1000 waiting", figure: figureWakeUps(1000), limit: 1},
		goal{what: "heap of a held lock, bytes", figure: figureMemory, limit: 1000},
		goal{what: "goroutines for all held locks", figure: figureGoroutines, limit: 0},
		goal{what: "session expires: last loss after the first, ms", figure: figureExpire, limit: 50},
	)
}

// measured returns the measured value, or false if a figure is missing.
func (g goal) measured(r *Results) (value float64, ok bool) {
	value, ok = r.value(r.subject(), g.figure)
	if !ok || g.over == "" {
		return value, ok
	}
	over, ok := r.value(g.of, g.over)
	return value / over, ok && over > 0
}

func (g goal) reached(value float64) bool {
	if g.atLeast {
		return value >= g.limit
	}
	return value <= g.limit
}

// longest returns the longest queue in which the library handed on the lock, or 0.
func (r *Results) longest(key string) int {
	longest := 0
	for _, queue := range r.queues() {
		if _, ok := r.value(key, figureHandoff(queue)); ok {
			longest = queue
		}
	}
	return longest
}

// queues returns the measured queue lengths, in order.
func (r *Results) queues() []int {
	var all []int
	for _, m := range r.Libraries {
		for figure := range m.Rounds {
			length, ok := strings.CutPrefix(figure, figureHandoff(0)[:len(figureHandoff(0))-1])
			if !ok {
				continue
			}
			if n, err := strconv.Atoi(length); err == nil && !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return all
}

// row is a line in the table of all figures, with one figure of each library.
type row struct {
	what, figure, unit string
}

func (r *Results) rows() []row {
	all := []row{
		{"uncontended cycle, p50", figureCycle, "µs"},
		{"uncontended cycle, p99", figureCycleTail, "µs"},
		{"release awaited, p50", figureAwaited, "µs"},
		{"release awaited, p99", figureAwaitTail, "µs"},
		{"requests per cycle", figureRequests, ""},
		{"64 locks in one session", figureRate(64), "cycles/s"},
		{"512 locks in one session", figureRate(512), "cycles/s"},
		{"the same with 64, release awaited", figureManyAwaited(64), "cycles/s"},
		{"the same with 512, release awaited", figureManyAwaited(512), "cycles/s"},
		{"processor time of the server per cycle, 64 locks, release awaited", figureAwaitedServer(64), "µs"},
		{"processor time of the client per cycle, 64 locks, release awaited", figureAwaitedClient(64), "µs"},
	}
	each := func(what string, figure func(int) string, unit, of string, numbers ...int) {
		for _, n := range numbers {
			all = append(all, row{fmt.Sprintf("%s, %d %s", what, n, of), figure(n), unit})
		}
	}
	perCycle := func(what string, figure func(int) string, unit string) {
		each(what+" per cycle", figure, unit, "lock", 1)
		each(what+" per cycle", figure, unit, "locks", 64, 512)
	}
	perCycle("processor time of the server", figureServer, "µs")
	perCycle("processor time of the client", figureClient, "µs")
	perCycle("write calls", figureWrites, "")
	perCycle("read calls", figureReads, "")
	all = append(all,
		row{"allocations per cycle, 1 lock", figureAllocs(1), ""},
		row{"handoff to the only waiter, another session", figureCross(1), "µs"},
		row{"the same after three probe intervals of waiting", figurePatient, "µs"},
		row{fmt.Sprintf("handoff to the next of %d, two sessions", crossCrowd), figureCross(crossCrowd), "µs"})
	queues := r.queues()
	each("handoff", figureHandoff, "µs", "waiting", queues...)
	each("bytes per handoff", figureBytes, "B", "waiting", queues...)
	each("requests per handoff", figureAsked, "", "waiting", queues...)
	each("watches fired per handoff", figureWakeUps, "", "waiting", queues...)
	return append(all,
		row{"memory of a held lock", figureMemory, "B"},
		row{"locks held for that", figureHeld, ""},
		row{"goroutines or threads more for that", figureGoroutines, ""},
		row{"session expires: last loss after the first", figureExpire, "ms"})
}

// title is the beginning of the page.
const title = "# Results\n\nWritten by `go run ./locks` in bench. " +
	"[locks/doc.go](locks/doc.go) says what is measured, and how.\nThe figures of each part are medians over the rounds of one run, " +
	"in which all libraries used the same servers.\n"

// write writes the sections about locks near the servers.
func (r *Results) write(b *strings.Builder) {
	b.WriteString("\n")
	r.writeRun(b)
	b.WriteString("\n## Goals\n\n")
	r.writeGoals(b, r.goals())
	b.WriteString("\n## Everything\n\n" + multiples)
	r.writeTable(b, r.rows())
	b.WriteString("\n![cycle latency](cycle.svg)\n![handoff cost](handoff.svg)\n![bytes per handoff](bytes.svg)\n" +
		"![memory per lock](memory.svg)\n")
}

func (r *Results) writeRun(b *strings.Builder) {
	length, disk, versions := figures.Run(r.Quick, r.RAMDisk, r.Versions)
	fmt.Fprintf(b, "- a %s run of %d rounds, on %d cores\n- the servers are alone, with their data %s\n- %s\n",
		length, r.Rounds, r.Cores, disk, versions)
	for _, l := range libraries() {
		if why, out := r.LeftOut[l.Key]; out {
			fmt.Fprintf(b, "- **without %s**: %s\n", l.Name, why)
		}
	}
}

func (r *Results) writeGoals(b *strings.Builder, goals []goal) {
	b.WriteString("| measure | goal | here | |\n|---|---:|---:|---|\n")
	for _, g := range goals {
		sign, verdict, here := "≤", "missed", "–"
		if g.atLeast {
			sign = "≥"
		}
		value, ok := g.measured(r)
		switch {
		case !ok:
			verdict = "not measured"
		case g.reached(value):
			verdict = "reached"
		}
		if ok {
			here = exact(value)
		}
		fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", g.what, sign, figures.Number(g.limit), here, verdict)
	}
}

// multiples explains the table that writeTable writes.
const multiples = "The first column has zkgrant's figures, the others are multiples of them: 2× is twice as much.\n" +
	"Where zkgrant has no figure, or 0, the others are shown as measured.\n\n"

// writeHead begins a table with a column for each library.
func (r *Results) writeHead(b *strings.Builder) {
	b.WriteString("| |")
	rule := "|---|"
	for _, m := range r.Libraries {
		fmt.Fprintf(b, " %s |", m.Name)
		rule += "---:|"
	}
	fmt.Fprintf(b, "\n%s\n", rule)
}

// writeTable writes the rows in which at least one library has a figure.
func (r *Results) writeTable(b *strings.Builder, rows []row) {
	r.writeHead(b)
	for _, row := range rows {
		line := "| " + row.what + " |"
		seen := false
		ours, base := r.value(r.subject(), row.figure)
		for _, m := range r.Libraries {
			value, ok := r.value(m.Key, row.figure)
			seen = seen || ok
			switch {
			case !ok:
				line += " – |"
			case m.Key == r.subject() || !base || ours == 0 || row.figure == figureHeld:
				line += " " + strings.TrimSpace(figures.Number(value)+" "+row.unit) + " |"
			default:
				line += " " + figures.Number(value/ours) + "× |"
			}
		}
		if seen {
			b.WriteString(line + "\n")
		}
	}
}

// exact is figures.Number with one more digit, for figures that are compared.
func exact(v float64) string {
	if math.Abs(v) < 10 && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return figures.Number(v)
}
