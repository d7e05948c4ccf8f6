package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestInstall runs the lines with which pages say how the library and its other modules are had. The repository that they clone is this one.
func TestInstall(t *testing.T) {
	root, err := filepath.Abs("..")
	eventstest.Must(t, err)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skipf("this is no clone, run the tests in one: %v", err)
	}
	script := []string{"set -euo pipefail", "go mod init example.com/app"}
	program := "package main\n\n"
	for _, page := range []struct {
		file     string
		packages []string
	}{
		{"../README.md", []string{"coordinator"}}, // the others follow it
		{"bridges.md", []string{"coordinator/bridge/gocronlock"}},
		{"observability.md", []string{"coordinator/telemetry/zkprom", "coordinator/telemetry/zkotel"}},
		{"kerberos.md", []string{"session/sasl/gssapi"}},
	} {
		script = append(script, installLines(t, page.file))
		for _, imported := range page.packages {
			program += "import _ \"github.com/zkgrant/zkgrant/" + imported + "\"\n"
		}
	}
	dir := t.TempDir()
	eventstest.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program+"\nfunc main() {}\n"), 0o600))
	bash := exec.Command("bash", "-c", strings.Join(append(script, "go build -o /dev/null ."), "\n"))
	bash.Dir = dir
	bash.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=url."+root+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/zkgrant/zkgrant",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*") // the clone may be another user's
	if out, err := bash.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s\n%s", err, strings.Join(script, "\n"), out)
	}
}

// installLines returns the first block of the page that has go work in it.
func installLines(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	eventstest.Must(t, err)
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 1 && strings.Contains(block, "go work ") {
			return block
		}
	}
	t.Fatalf("%s has no block with go work", page)
	return ""
}
