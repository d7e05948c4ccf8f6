package words_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachResultOfARequestHasAWord(t *testing.T) {
	for err, want := range map[error]string{
		nil: "ok", zk.ErrNoNode: "no_node", fmt.Errorf("multi: %w", zk.ErrNodeExists): "node_exists", zk.ErrConnectionClosed: "connection_closed",
		errors.New("transaction refused"): "error",
	} {
		if got := words.Result(err); got != want {
			t.Errorf("a request with %v has the result %s, want %s", err, got, want)
		}
	}
	for op, want := range map[string]string{"create": "create", words.Closing: "closeSession", "operation 77": "other"} {
		if got := words.Op(op); got != want {
			t.Errorf("the request %s is called %s, want %s", op, got, want)
		}
	}
}

// TestThePageHasEachMetric with its labels, of both packages, and no other one; and the reasons of a loss.
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
		if row := fmt.Sprintf("| `%s` | %s | %s |", m.Prometheus(), kinds[m.Kind][0], labels); !strings.Contains(prometheus, strings.Replace(row, "|  |", "| |", 1)) {
			t.Errorf("the page has no row %s", row)
		}
		row := regexp.MustCompile("(?m)^\\| [^|]*`zkgrant\\." + regexp.QuoteMeta(m.Name) + "`[^|]*\\| (.*) \\| (.*) \\|$").FindStringSubmatch(table)
		if row == nil || strings.TrimSuffix(row[1], ", By") != kinds[m.Kind][1] || strings.Trim(strings.ReplaceAll(row[2], "`", ""), "–") != labels {
			t.Errorf("the page has the row %q for %+v", row, m)
		}
		names = append(names, m.Name)
	}
	for _, name := range regexp.MustCompile("`zkgrant\\.([a-z_.]+)`").FindAllStringSubmatch(table, -1) {
		if !slices.Contains(names, name[1]) {
			t.Errorf("the page has %s, which is no metric", name[1])
		}
	}
	var reasons []string
	for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
		reasons = append(reasons, words.Reason(r))
	}
	if row := "| reason | " + strings.Join(reasons, ", ") + " |"; !strings.Contains(prometheus, row) {
		t.Errorf("the page has no row %q", row)
	}
}

// TestLabelsOfPaths: below one parent so many locks have their own label, and one more makes one label of them all.
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
			if got := strings.Join(replaced, " "); label != step.label || got != step.replaced && !keeps || keeps && got != "" {
				t.Errorf("step %d: the label of %q is %q and replaces %q, want %q and %q", i, step.path, label, got, step.label, step.replaced)
			}
		}
	}
}

// TestLabelsAreBounded whatever the paths are, and whatever a user's function makes of them. Labels that are kept count on.
func TestLabelsAreBounded(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		for most, total := range map[int]int{0: 100, 1: 100, 20: 200, 50: 500, 80: 800} {
			l, own := words.NewLabels(most, keeps), words.NewLabels(most, keeps)
			for i := range most {
				if label, _ := own.Of(fmt.Sprint("/t/", i)); label == "/t/*" {
					t.Errorf("of at most %d labels, lock %d has none of its own", most, i)
				}
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
				bound += total / most // beside the paths one for each parent
			}
			if len(live) > bound || len(live) < 100 || len(given) != total+1 || l.Parents() > total+1 || l.Given("0") != "0" || l.Given("\xff") != words.Rest {
				t.Errorf("with %d below one parent, 20,000 paths have %d labels of %d parents, and %d if a function chooses; want at least 100, at most %d and %d",
					most, len(live), l.Parents(), len(given), bound, total+1)
			}
		}
	}
}
