package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestEachLogLineIsExplained: docs/operate.md has each line of level Warn or Error, and the source has each line of that page. A message in a
// variable is whatever its function, or else its package, assigns to that name.
func TestEachLogLineIsExplained(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`(?i:logger)\.(?:Warn|Error|Check\(zap\.WarnLevel)(?:\(|, )(?:"([^"]+)"|([\w.]+))`)
	leveled := regexp.MustCompile(`zap\.(?:Warn|Error)Level, "([^"]+)"()`)
	page, all, count := read(t, "docs/operate.md"), "", 0
	explained := func(line string) {
		if count++; !strings.Contains(page, line) {
			t.Errorf("docs/operate.md lacks the log line %q", line)
		}
	}
	for _, room := range []string{"session", "actors", "coordinator"} {
		source := sourceOf(t, room)
		for _, function := range strings.Split(source, "\nfunc ") {
			for _, m := range append(call.FindAllStringSubmatch(function, -1), leveled.FindAllStringSubmatch(function, -1)...) {
				if m[2] == "" {
					explained(m[1])
					continue
				}
				name := m[2][strings.LastIndex(m[2], ".")+1:]
				assigned := regexp.MustCompile(`\b` + name + `\b[^"\n(]*[:+]?= [^"\n(]*"([^"]+)"`)
				found := assigned.FindAllStringSubmatch(function, -1)
				if found == nil {
					found = regexp.MustCompile(`(?:\.|const )`+assigned.String()).FindAllStringSubmatch(source, -1)
				}
				if found == nil {
					t.Errorf("no message is found for the variable %s in %s", m[2], room)
				}
				for _, m := range found {
					explained(m[1])
				}
			}
		}
		all += source
	}
	if count < 30 {
		t.Errorf("only %d log lines were found, want 30 or more", count)
	}
	_, tables, _ := strings.Cut(page, "## Log lines")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(tables, -1) {
		for _, m := range regexp.MustCompile("`([^`;]+)[^`]*`").FindAllStringSubmatch(row[1], -1) {
			if !strings.Contains(all, `"`+m[1]) {
				t.Errorf("docs/operate.md explains %q, which nothing logs", m[1])
			}
		}
	}
}

// sourceOf returns the Go files of a folder, without its tests.
func sourceOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	eventstest.Must(t, err)
	all := ""
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			all += read(t, folder+"/"+filepath.Base(file))
		}
	}
	return all
}
