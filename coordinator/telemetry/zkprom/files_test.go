package zkprom

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestRules lets promtool check the alert rules and play the histories in rules_test.yml.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := installed(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		said, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		eventstest.Expect(t, err == nil, "promtool %s: %v\n%s", strings.Join(args, " "), err, said)
	}
}

// TestEachRuleIsTested both where it fires and where it does not.
func TestEachRuleIsTested(t *testing.T) {
	rules, tests := read(t, "rules.yml"), read(t, "rules_test.yml")
	alerts, exported := all(rules, `alert: (\w+)`), names()
	eventstest.Expect(t, len(alerts) >= 6, "there are %d alerts, want 6 or more", len(alerts))
	for alert := range alerts {
		for _, each := range []string{", exp_alerts: []", "\n        exp_alerts:\n          - exp_labels"} {
			eventstest.Expect(t, strings.Contains(tests, "alertname: "+alert+each), "%s: no test with %q", alert, each)
		}
	}
	for name := range all(rules, used) {
		eventstest.Expect(t, exported[name], "the rules use %s, which is not exported", name)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	return string(text)
}

// names returns the exported metrics.
func names() map[string]bool {
	text := ""
	for _, metrics := range []map[string]described{descriptions, queueDescriptions} {
		for _, desc := range metrics {
			text += desc.String()
		}
	}
	return all(text, `fqName: "(\w+)"`)
}

// used matches metrics, without the suffixes of a histogram.
const used = `\b(zkgrant_\w+?)(?:_bucket|_count|_sum)?\b`

// all returns the set of matches of the pattern's group.
func all(text, pattern string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

const page = "../../../docs/observability.md"

// TestDocsHaveEachMetric in their tables, and no other. Their golang blocks are examples
// of this package.
func TestDocsHaveEachMetric(t *testing.T) {
	text, _, _ := strings.Cut(read(t, page), "\n## OpenTelemetry")
	eventstest.Equal(t, all(text, "(?m)^\\| `(zkgrant_\\w+)`"), names(), "the rows of the page")
	examples := strings.Join(strings.Fields(read(t, "example_test.go")), " ")
	for _, block := range regexp.MustCompile("(?s)```golang\n(.*?)```").FindAllStringSubmatch(text, -1) {
		eventstest.Contains(t, examples, strings.Join(strings.Fields(block[1]), " "), "the examples")
	}
}

// TestEachAlertHasItsRunbook: its runbook_url leads to a heading with its name in
// docs/operate.md, and that page has no other alert.
func TestEachAlertHasItsRunbook(t *testing.T) {
	const url = "https://github.com/zkgrant/zkgrant/blob/main/docs/operate.md#"
	rules, headings := read(t, "rules.yml"), all(read(t, "../../../docs/operate.md"), `(?m)^### (Zkgrant\w+)$`)
	eventstest.Equal(t, headings, all(rules, `alert: (\w+)`), "the alerts in docs/operate.md")
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		eventstest.Contains(t, rule, "runbook_url: "+url+strings.ToLower(name)+"\n", "%s", name)
	}
}

// TestOneCutIsOneNotification: grouped as the page recommends, the six alerts of one cut
// form one group.
func TestOneCutIsOneNotification(t *testing.T) {
	grouping := regexp.MustCompile(`group_by: \[(.*)\]`).FindStringSubmatch(read(t, page))
	if grouping == nil {
		t.Fatal("the page groups no alerts")
	}
	_, cut, _ := strings.Cut(read(t, "rules_test.yml"), "- name: one cut fires six alerts")
	cut, _, _ = strings.Cut(cut, "\n  - name:")
	groups := map[string]int{}
	for _, alert := range regexp.MustCompile(`exp_labels: \{(.*)\}`).FindAllStringSubmatch(cut, -1) {
		group := ""
		for label := range strings.SplitSeq(grouping[1], ", ") {
			group += regexp.MustCompile(`\b` + label + `: ([^,}]+)`).FindString(alert[1])
		}
		groups[group]++
	}
	eventstest.Expect(t, len(groups) == 1 && groups["cluster: main"] == 6,
		"the alerts of one cut are the groups %v, want six alerts in one group", groups)
}

// TestTheConfigOnThePage is accepted by Prometheus, with the rules beside it.
func TestTheConfigOnThePage(t *testing.T) {
	t.Parallel()
	promtool := installed(t, "promtool")
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(read(t, page))
	if block == nil {
		t.Fatal("the page has no config of Prometheus")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"prometheus.yml": block[1], "rules.yml": read(t, "rules.yml")} {
		eventstest.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	said, err := exec.CommandContext(t.Context(), promtool, "check", "config", filepath.Join(folder, "prometheus.yml")).CombinedOutput()
	eventstest.ErrorIs(t, err, nil, "promtool check config")
	eventstest.Contains(t, string(said), "rules found", "promtool check config")
}

// panel is a panel of the dashboard. A row has no targets.
type panel struct {
	Title, Description, Type string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	eventstest.Must(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &d))
	return d.Panels
}

// TestDashboardShowsEachMetric, and no other. Its panels do not overlap.
func TestDashboardShowsEachMetric(t *testing.T) {
	shown, taken := "", map[[2]int]string{}
	for _, p := range panels(t) {
		eventstest.Expect(t, p.Type == "row" || len(p.Targets) != 0 && p.Description != "",
			"the panel %q has %d expressions and the description %q", p.Title, len(p.Targets), p.Description)
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("the panel %q overlaps %q, or the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	eventstest.Equal(t, all(shown, used), names(), "the metrics on the panels")
}

// answered checks that a server that has scraped since then answers each of the
// dashboard's expressions.
func answered(t *testing.T, server *scraper, since time.Time) {
	t.Helper()
	variables := strings.NewReplacer("$__rate_interval", "2s", "$__range", "2s", "$instance", ".*", "$lock", ".*")
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			eventstest.Eventually(t, "an answer to "+expr, func() bool { // the last scrape becomes visible a moment later
				ok, err := server.answers(expr, since)
				if err != nil {
					t.Fatalf("the panel %q: %v", p.Title, err)
				}
				return ok
			})
		}
	}
}
