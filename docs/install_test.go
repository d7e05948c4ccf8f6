package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestInstall runs the lines with which pages install the library and its other modules, and
// then the first program of README. The repository that they clone is this one.
func TestInstall(t *testing.T) {
	root, err := filepath.Abs("..")
	eventstest.Must(t, err)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skipf("this is no clone, run the tests in one: %v", err)
	}
	script := []string{"set -euo pipefail", "go mod init example.com/app"}
	others := "package main\n\n"
	for _, page := range []struct {
		file     string
		packages []string
	}{
		{"../README.md", []string{"coordinator"}}, // the others follow it
		{"bridges.md", []string{"coordinator/bridge/gocronlock"}},
		{"observability.md", []string{"coordinator/telemetry/zkprom", "coordinator/telemetry/zkotel"}},
		{"kerberos.md", []string{"session/sasl/gssapi"}},
	} {
		script = append(script, blockWith(t, page.file, "go work "))
		for _, imported := range page.packages {
			others += "import _ \"github.com/zkgrant/zkgrant/" + imported + "\"\n"
		}
	}
	dir := t.TempDir()
	eventstest.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(blockWith(t, "../README.md", "go\npackage main")), 0o600))
	eventstest.Must(t, os.WriteFile(filepath.Join(dir, "others.go"), []byte(others), 0o600))
	bash := exec.Command("bash", "-c", strings.Join(append(script, "go run ."), "\n"))
	bash.Dir = dir
	bash.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=url."+root+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/zkgrant/zkgrant",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*") // the clone may be another user's
	if out, err := bash.CombinedOutput(); err != nil || !strings.Contains(string(out), "fencing token") {
		t.Errorf("%v, want the program's line:\n%s\n%s", err, strings.Join(script, "\n"), out)
	}
}

// blockWith returns the first block of the page that has the text in it, without its language.
func blockWith(t *testing.T, page, text string) string {
	t.Helper()
	content, err := os.ReadFile(page)
	eventstest.Must(t, err)
	for i, block := range strings.Split(string(content), "```") {
		if i%2 == 1 && strings.Contains(block, text) {
			_, lines, _ := strings.Cut(block, "\n")
			return lines
		}
	}
	t.Fatalf("%s has no block with %q", page, text)
	return ""
}
