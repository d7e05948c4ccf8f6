package mutants

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// enough is the number of finders at which the search for a bug's finders stops. A
	// bug with so many does not depend on any single one.
	enough = 5
	// budget limits the total time of the tests for one bug, in multiples of the median
	// test. With 40, the bugs of a sample of 25 got nine tenths of the finders that they
	// got with 200.
	budget = 40
	// slowest limits the time of a test that is run for every bug it reaches, in
	// multiples of the median test. A slower test is left out.
	slowest = 25
	// batch is how many tests run in one process. If a bug makes one of them hang, the
	// process runs for a multiple of the time that all of them need.
	batch = 15
)

// Kills is the kill matrix: which tests find which bugs.
type Kills struct {
	Bugs  []*Bug
	Tests []Finder         // the tests that were run
	Left  []probe          // the tests that were left out: they do not pass without a bug, or are too slow
	By    map[int][]Finder // the tests that find a bug, sorted; by its number from 0
	Spent map[int]int      // how many tests that reach the bug were not run because the budget was spent
}

// probe is the result of running a test without a bug.
type probe struct {
	Finder
	verdict Verdict
	took    time.Duration
	reaches map[int]bool // by the bug's number from 1
}

// rank is low for a test that is quick and reaches few bugs. Such a test is likely to
// find each of them soon.
func (p probe) rank() time.Duration { return p.took * time.Duration(len(p.reaches)) }

// KillMatrix runs the tests of the lab's packages for each bug that they reach, until
// enough of them have found it or the budget is spent. Tests that are quick and reach few
// bugs run first: the less code a test reaches, the more likely that code is what it
// tests. A test that only leaks goroutines counts as passed. said is called after each
// bug with the number of bugs done.
func (l *Lab) KillMatrix(ctx context.Context, bugs []*Bug, said func(done int)) (*Kills, error) {
	probes, left, err := l.probe(ctx)
	if err != nil {
		return nil, err
	}
	k := &Kills{Bugs: bugs, Left: left, By: map[int][]Finder{}, Spent: map[int]int{}}
	for _, p := range probes {
		k.Tests = append(k.Tests, p.Finder)
	}
	var mu sync.Mutex
	done := 0
	each(len(bugs), func(i int) {
		var reach []probe
		for _, p := range probes {
			if p.reaches[i+1] {
				reach = append(reach, p)
			}
		}
		slices.SortFunc(reach, func(a, b probe) int { return cmp.Compare(a.rank(), b.rank()) })
		found, rest := l.kill(ctx, i+1, reach, budget*probes[len(probes)/2].took)
		mu.Lock()
		defer mu.Unlock()
		k.By[i], k.Spent[i] = found, rest
		done++
		said(done)
	})
	return k, ctx.Err()
}

// each calls do for the numbers from 0 to n-1, on all processors.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	var begun atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := int(begun.Add(1)); i <= n; i = int(begun.Add(1)) {
				do(i - 1)
			}
		})
	}
	all.Wait()
}

// probe runs each test alone and without a bug. It returns the tests that pass and are
// not too slow, the quickest first, and those that are left out.
func (l *Lab) probe(ctx context.Context) (probes, left []probe, _ error) {
	var tests []Finder
	for _, pkg := range slices.Sorted(maps.Keys(l.binaries)) {
		names, err := l.tree.Tests(pkg)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			tests = append(tests, Finder{Pkg: pkg, Test: name})
		}
	}
	all := make([]probe, len(tests))
	each(len(tests), func(i int) { all[i] = l.reach(ctx, tests[i]) })
	failed := func(p probe) bool { return p.verdict != Passed }
	left = slices.DeleteFunc(slices.Clone(all), func(p probe) bool { return !failed(p) })
	probes = slices.DeleteFunc(all, failed)
	if len(probes) == 0 {
		return nil, nil, fmt.Errorf("none of %d tests passes", len(tests))
	}
	slices.SortFunc(probes, func(a, b probe) int { return cmp.Compare(a.took, b.took) })
	quick, limit := len(probes), slowest*probes[len(probes)/2].took
	for probes[quick-1].took > limit {
		quick--
	}
	return probes[:quick], append(left, probes[quick:]...), nil
}

// patience is the time limit of a test that is run alone: twice the time at which the
// matrix leaves a test out, as estimated from the tests that were run so far.
func (l *Lab) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.measured); n > batch {
		return 2 * slowest * l.measured[n/2]
	}
	return time.Hour
}

// reach runs a test, and records how it ends and, if it passes, which bugs it reaches.
func (l *Lab) reach(ctx context.Context, f Finder) probe {
	into := filepath.Join(l.dir, strings.ReplaceAll(f.String(), "/", "_")+".reached")
	run := l.start(ctx, f, f.pattern(), l.patience(), Reached+"="+into)
	if run.Verdict != Passed {
		return probe{Finder: f, verdict: run.Verdict}
	}
	l.measure(run.Took)
	p := probe{f, run.Verdict, run.Took, map[int]bool{}}
	text, _ := os.ReadFile(into) // missing if no bug is reached
	for line := range strings.Lines(string(text)) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			p.reaches[n] = true
		}
	}
	return p
}

// kill runs tests until enough of them find the bug. It returns these, and how many tests
// it did not run because the time left was spent.
func (l *Lab) kill(ctx context.Context, bug int, probes []probe, left time.Duration) (found []Finder, rest int) {
	for len(probes) > 0 && len(found) < enough && ctx.Err() == nil {
		if left < 0 {
			rest = len(probes)
			break
		}
		var company []probe // the next batch of tests, all of one package
		for _, p := range probes {
			if p.Pkg == probes[0].Pkg && len(company) < batch && left >= 0 {
				company = append(company, p)
				left -= p.took
			}
		}
		ended, failed := l.together(ctx, bug, company)
		found = append(found, failed...)
		probes = slices.DeleteFunc(probes, func(p probe) bool { return ended[p.Finder] })
	}
	slices.SortFunc(found, func(a, b Finder) int { return cmp.Compare(a.String(), b.String()) })
	return found, rest
}

var result = regexp.MustCompile(`(?m)^(=== RUN|=== CONT|--- PASS:|--- FAIL:|--- SKIP:) +(Test\w+)( |$)`)

// together runs tests of one package in one process. It returns the tests that have a
// result, and those that failed. A test that ends the process, by a crash or a time
// limit, counts as failed; the tests after it have no result.
func (l *Lab) together(ctx context.Context, bug int, company []probe) (ended map[Finder]bool, failed []Finder) {
	var names []string
	var took time.Duration
	for _, p := range company {
		names, took = append(names, p.Test), took+p.took
	}
	pkg := company[0].Pkg
	run := l.start(ctx, Finder{Pkg: pkg}, "^("+strings.Join(names, "|")+")$", 6*took, fmt.Sprintf("%s=%d", Switch, bug), "-test.parallel=1")
	ended = map[Finder]bool{}
	last := ""
	for _, m := range result.FindAllStringSubmatch(run.Output, -1) {
		f := Finder{Pkg: pkg, Test: m[2]}
		switch m[1] {
		case "=== RUN", "=== CONT":
			last = m[2]
		default:
			ended[f] = true
			if m[1] == "--- FAIL:" {
				failed = append(failed, f)
			}
		}
	}
	if f := (Finder{Pkg: pkg, Test: last}); (run.Verdict == Crashed || run.Verdict == Hung) && !ended[f] {
		ended[f] = true
		failed = append(failed, f)
	}
	if len(ended) == 0 || len(ended) < len(company) && run.Verdict != Crashed && run.Verdict != Hung {
		for _, p := range company { // their results are unknown; do not run them again
			ended[p.Finder] = true
		}
	}
	return ended, failed
}

// Write prints the matrix: for each bug, the tests that find it; for each test, how many
// bugs it finds and how many of them no other test finds.
func (k *Kills) Write(to io.Writer) error {
	out := bufio.NewWriter(to)
	finds, alone := map[Finder]int{}, map[Finder]int{}
	fmt.Fprintf(out, "# Which tests find which seeded bug; up to %d tests each and those that the list names\n\n", enough)
	for i, b := range k.Bugs {
		all := k.finders(i)
		for f := range all {
			finds[f]++
			if len(all) == 1 {
				alone[f]++
			}
		}
		fmt.Fprintf(out, "%s\n", b.Name)
		for _, f := range b.Finders {
			delete(all, f.whole())
			fmt.Fprintf(out, "\t%v\n", f)
		}
		for _, f := range k.By[i] {
			if all[f] {
				fmt.Fprintf(out, "\t%v\n", f)
			}
		}
		if k.Spent[i] > 0 {
			fmt.Fprintf(out, "\t(%d slower tests reach it, and were not run)\n", k.Spent[i])
		}
	}
	fmt.Fprintf(out, "\n# What each test finds, and what no other test finds\n\n")
	for _, f := range k.Tests {
		fmt.Fprintf(out, "%4d %4d  %v\n", finds[f], alone[f], f)
	}
	fmt.Fprintf(out, "\n# Tests that were not run for each bug, and how they ended\n\n")
	fmt.Fprintf(out, "# One that passed takes more than %d times the median\n\n", slowest)
	for _, l := range k.Left {
		fmt.Fprintf(out, "%4d %4d  %v: %v\n", finds[l.Finder], alone[l.Finder], l.Finder, l.verdict)
	}
	return out.Flush()
}

// finders returns the top-level tests that find the bug with number i, from 0, whether by
// themselves or in a subtest or a world.
func (k *Kills) finders(i int) map[Finder]bool {
	all := map[Finder]bool{}
	for _, f := range slices.Concat(k.By[i], k.Bugs[i].Finders) {
		all[f.whole()] = true
	}
	return all
}

// Summary returns one line about the whole matrix.
func (k *Kills) Summary() string {
	one, runs := 0, 0
	for i := range k.Bugs {
		all := k.finders(i)
		runs += len(all)
		if len(all) == 1 {
			one++
		}
	}
	return fmt.Sprintf("%d tests tried, %d left out; %d of %d bugs are found by one test alone, "+
		"the others by %.1f or more on average", len(k.Tests), len(k.Left), one, len(k.Bugs), float64(runs-one)/float64(max(len(k.Bugs)-one, 1)))
}
