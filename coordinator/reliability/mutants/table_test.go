package mutants

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// line is what a run has shown about one mutant.
type line struct {
	mutant mutant
	runs   []run // one for each of its finders
}

// count returns how many were found by all tests that were run.
func count(lines []line) int {
	n := 0
	for _, l := range lines {
		found := len(l.runs) > 0
		for _, r := range l.runs {
			switch r.verdict {
			case failed, leaked, crashed, hung:
			default:
				found = false
			}
		}
		if found {
			n++
		}
	}
	return n
}

// how says in a table's cell how long a run took, and how it ended if that was not by
// a test that failed.
func (r run) how() string {
	text := fmt.Sprintf("%.2f s", r.took.Seconds())
	if r.verdict != failed {
		text += " (" + r.verdict.String() + ")"
	}
	return text
}

// render is the table as text, for whoever reads the log.
func render(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%-42s", l.mutant.name)
		for i, r := range l.runs {
			fmt.Fprintf(&b, "  %-70s %s", l.mutant.finders()[i], r.how())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// page is the table in Markdown.
func page(tb testing.TB, tr tree, lines []line) string {
	tb.Helper()
	files := map[string]map[string]string{}
	link := func(f finder) string {
		if files[f.pkg] == nil {
			files[f.pkg] = tr.tests(tb, f.pkg)
		}
		return fmt.Sprintf("[%s](../../../%s)", f.test, files[f.pkg][f.test])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Which test finds which bug

Written by the tests, with %s=%s; not to be edited. Each of these %d bugs was put into the library,
alone, and each test named here has failed because of it. The seconds are those of the test, without the building. A test
that did not fail by its own checks has crashed, has left a goroutine, or was ended by its time limit, and the table says
which.

| bug: a library that | found by | in | higher up by | in |
|---|---|---|---|---|
`, switchName, writeTable, len(lines))
	for _, l := range lines {
		what := fmt.Sprintf("**%s**: %s", l.mutant.name, l.mutant.breaks)
		if l.mutant.note != "" {
			what += ". *" + l.mutant.note + "*"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |", what, link(l.mutant.found), l.runs[0].how())
		if len(l.runs) > 1 {
			fmt.Fprintf(&b, " %s | %s |\n", link(l.mutant.also), l.runs[1].how())
		} else {
			b.WriteString(" | |\n")
		}
	}
	return b.String()
}

func TestTheTableSaysHowItEnded(t *testing.T) {
	m := mutant{name: "no brakes", breaks: "does not stop", note: "downhill"}
	m.found, m.also = finder{"a", "TestStop"}, finder{"b", "TestRoad"}
	lines := []line{
		{m, []run{{verdict: failed, took: 1234 * time.Millisecond}, {verdict: hung, took: time.Minute}}},
		{m, []run{{verdict: failed, took: time.Millisecond}, {verdict: passed}}},
		{m, []run{}},
	}
	if n := count(lines); n != 1 {
		t.Errorf("%d lines count as found", n)
	}
	text := render(lines[:1])
	for _, want := range []string{"no brakes", "a TestStop", "1.23 s  b TestRoad", "60.00 s (time limit)\n"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " ")+"\n", strings.Join(strings.Fields(want), " ")) {
			t.Errorf("the table has no %q:\n%s", want, text)
		}
	}
}
