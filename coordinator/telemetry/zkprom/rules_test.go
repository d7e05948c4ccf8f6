package zkprom

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestRules has promtool check the alert rules, and play the histories in rules_test.yml.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := installed(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		if said, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
}

// TestEachRuleIsTested where it fires and where it does not.
func TestEachRuleIsTested(t *testing.T) {
	t.Parallel()
	rules, tests := read(t, "rules.yml"), read(t, "rules_test.yml")
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 6 {
		t.Fatalf("there are %d alerts, want 6 or more", len(alerts))
	}
	for _, alert := range alerts {
		quiet := strings.Contains(tests, "alertname: "+alert[1]+", exp_alerts: []")
		fires := strings.Contains(tests, "alertname: "+alert[1]+"\n        exp_alerts:\n          - exp_labels")
		if !quiet || !fires {
			t.Errorf("%s: a test where it fires: %v, and one where it does not: %v; want both", alert[1], fires, quiet)
		}
	}
	known := names()
	for _, name := range regexp.MustCompile(`zkgrant_\w+`).FindAllString(rules, -1) {
		if !known[plain(name)] {
			t.Errorf("the rules use %s, which is not exported", name)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	return string(text)
}

// names are the exported metrics.
func names() map[string]bool {
	all := map[string]bool{}
	for _, metrics := range []map[string]described{descriptions, queueDescriptions} {
		for _, desc := range metrics {
			all[regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1]] = true
		}
	}
	return all
}

// plain is the name of a metric without what a histogram adds.
func plain(name string) string {
	return regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
}
