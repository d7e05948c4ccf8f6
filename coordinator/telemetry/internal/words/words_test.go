package words_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestThePageHasEachMetric of both packages with its labels, and no other, and the
// reasons of a loss.
func TestThePageHasEachMetric(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/observability.md")
	eventstest.Must(t, err)
	prometheus, opentelemetry, _ := strings.Cut(string(text), "\n## OpenTelemetry\n")
	kinds := map[words.Kind][2]string{
		words.Histogram: {"histogram", "histogram, s"}, words.Counter: {"counter", "counter"}, words.Number: {"gauge", "up-down counter"},
		words.Gauge: {"gauge", "gauge"}, words.Seconds: {"gauge", "gauge, s"},
	}
	_, table, _ := strings.Cut(opentelemetry, "| metric |")
	var names []string
	for _, m := range words.Metrics() {
		labels := strings.Join(m.Labels, ", ")
		exported := fmt.Sprintf("| `%s` | %s | %s |", m.Prometheus(), kinds[m.Kind][0], labels)
		exported = strings.Replace(exported, "|  |", "| |", 1)
		eventstest.Expect(t, strings.Contains(prometheus, exported), "the page has no row %s", exported)
		row := regexp.MustCompile("(?m)^\\| [^|]*`zkgrant\\." + regexp.QuoteMeta(m.Name) + "`[^|]*\\| (.*) \\| (.*) \\|$").FindStringSubmatch(table)
		eventstest.Expect(t, row != nil && strings.TrimSuffix(row[1], ", By") == kinds[m.Kind][1] &&
			strings.Trim(strings.ReplaceAll(row[2], "`", ""), "–") == labels, "the row %q for %+v", row, m)
		names = append(names, m.Name)
	}
	for _, name := range regexp.MustCompile("`zkgrant\\.([a-z_.]+)`").FindAllStringSubmatch(table, -1) {
		eventstest.Expect(t, slices.Contains(names, name[1]), "the page has %s, which is no metric", name[1])
	}
	var reasons []string
	for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
		reasons = append(reasons, words.Reason(r))
	}
	row := "| reason | " + strings.Join(reasons, ", ") + " |"
	eventstest.Expect(t, strings.Contains(prometheus, row), "the page has no row %q", row)
}

// TestLabelsOfPaths: below one parent, a limited number of locks have their own labels,
// and one more replaces all of these by a common one.
func TestLabelsOfPaths(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		l := words.NewLabels(2, keeps)
		for i, step := range []struct{ path, label, replaced string }{
			{"/jobs/a", "/jobs/a", ""},
			{"/jobs/b", "/jobs/b", ""},
			{"/jobs/a", "/jobs/a", ""},
			{"/top", "/top", ""},
			{"/jobs/c", "/jobs/*", "/jobs/a /jobs/b"},
			{"/jobs/a", "/jobs/*", ""},
			{"/jobs/a/below", "/jobs/a/below", ""},
			{"/stars/*", "/stars/*", ""},
			{"/stars/a", "/stars/a", ""},
			{"/stars/b", "/stars/*", "/stars/* /stars/a"},
			{"bad", "*", ""},
			{"", "*", ""},
			{"/not\xffutf-8", "*", ""},
			{"/" + strings.Repeat("long", 100), "*", ""},
		} {
			label, replaced := l.Of(step.path)
			slices.Sort(replaced)
			eventstest.Equal(t, label, step.label, "step %d: the label of %q", i, step.path)
			if keeps {
				step.replaced = ""
			}
			eventstest.Equal(t, strings.Join(replaced, " "), step.replaced, "step %d: replaced by %q", i, step.path)
		}
	}
}

// TestLabelsAreBounded for any paths, and for any labels that a user's function chooses.
// With keeps, replaced labels still count.
func TestLabelsAreBounded(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		for most, total := range map[int]int{0: 100, 1: 100, 20: 200, 50: 500, 80: 800} {
			l, own := words.NewLabels(most, keeps), words.NewLabels(most, keeps)
			for i := range most {
				label, _ := own.Of(fmt.Sprint("/t/", i))
				eventstest.Expect(t, label != "/t/*", "of at most %d labels, lock %d has none of its own", most, i)
			}
			live, given := map[string]bool{}, map[string]bool{}
			for i := range 20_000 {
				label, replaced := l.Of(fmt.Sprintf("/users/%d/tasks/%d", i/70, i))
				live[label] = true
				for _, old := range replaced {
					delete(live, old)
				}
				given[l.Given(fmt.Sprint(i))] = true
			}
			bound := total + 1 // and one for the rest
			if keeps && most > 0 {
				bound += total / most // besides the paths, one for each parent
			}
			eventstest.Expect(t, len(live) <= bound && len(live) >= 100 && l.Parents() <= total+1,
				"with %d below a parent there are %d labels of %d, want 100 to %d", most, len(live), l.Parents(), bound)
			eventstest.Equal(t, len(given), total+1, "labels that a function chooses, with %d below one parent", most)
			eventstest.Expect(t, l.Given("0") == "0" && l.Given("\xff") == words.Rest, "given labels change")
		}
	}
}
