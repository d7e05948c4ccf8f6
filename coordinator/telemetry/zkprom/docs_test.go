package zkprom

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

const page = "../../../docs/observability.md"

// TestDocsHaveEachMetric in their tables, and no other one; and only Go that is an example of this package.
func TestDocsHaveEachMetric(t *testing.T) {
	t.Parallel()
	text, _, _ := strings.Cut(read(t, page), "\n## OpenTelemetry")
	shown := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(zkgrant_\\w+)`").FindAllStringSubmatch(text, -1) {
		shown[row[1]] = true
	}
	for name := range names() {
		if !shown[name] {
			t.Errorf("the page has no row of %s", name)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("the page has a row of %s, which is not exported", name)
	}
	examples := strings.Join(strings.Fields(read(t, "example_test.go")), " ")
	for _, block := range regexp.MustCompile("(?s)```golang\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(examples, strings.Join(strings.Fields(block[1]), " ")) {
			t.Errorf("this is in no example:\n%s", block[1])
		}
	}
}

// TestEachAlertHasItsRunbook: its runbook_url leads to a heading of docs/operate.md with its name, and that page has no other alert.
func TestEachAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	const url = "https://github.com/zkgrant/zkgrant/blob/main/docs/operate.md#"
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Zkgrant\w+)$`).FindAllStringSubmatch(read(t, "../../../docs/operate.md"), -1) {
		headings[m[1]] = true
	}
	for _, rule := range strings.Split(read(t, "rules.yml"), "- alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		if want := "runbook_url: " + url + strings.ToLower(name) + "\n"; !headings[name] || !strings.Contains(rule, want) {
			t.Errorf("%s: a heading in docs/operate.md: %v; want one, and the annotation %s", name, headings[name], want)
		}
		delete(headings, name)
	}
	for name := range headings {
		t.Errorf("docs/operate.md has the alert %s, which is no rule", name)
	}
}

// TestOneCutIsOneNotification: grouped as the page says, the six alerts of one cut are one group.
func TestOneCutIsOneNotification(t *testing.T) {
	t.Parallel()
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
	if len(groups) != 1 || groups["cluster: main"] != 6 {
		t.Errorf("the alerts of one cut are the groups %v, want six alerts in one group", groups)
	}
}

// TestTheConfigOnThePage is one that Prometheus takes, with the rules beside it.
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
	if err != nil || !strings.Contains(string(said), "rules found") {
		t.Errorf("promtool check config: %v, want the rules found\n%s", err, said)
	}
}
