package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// The exit codes are the same on the page and in --help.
func TestExitCodesOnThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/command.md")
	eventstest.Must(t, err)
	_, part, _ := strings.Cut(string(page), "### Exit codes\n")
	part, _, _ = strings.Cut(part, "\n#")
	rows := regexp.MustCompile(`(?m)^\| (\d.*?) +\| (.*) \|$`).FindAllStringSubmatch(strings.ReplaceAll(part, "`", ""), -1)
	if len(rows) != len(codes()) {
		t.Errorf("the page has %d exit codes, want %d", len(rows), len(codes()))
	}
	for i, want := range codes() {
		if i < len(rows) && (rows[i][1] != want[0] || rows[i][2] != want[1]) {
			t.Errorf("the page has %q, want %q", rows[i][1:], want)
		}
	}
	for _, command := range [][]string{{"--help"}, {"run", "--help"}, {"elect", "--help"}, {"hold", "--help"}} {
		var s settings
		root := newRoot(&s)
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs(command)
		eventstest.Must(t, root.Execute())
		for _, row := range codes() {
			if !strings.Contains(out.String(), row[1]) {
				t.Errorf("zkgrant %s does not say %q:\n%s", strings.Join(command, " "), row[1], &out)
			}
		}
	}
}
