package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestInstall runs the commands from the pages that install the library and its other
// modules, and then README's first program. They clone this repository.
func TestInstall(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skipf("this is no clone, run the tests in one: %v", err)
	}
	script := []string{"set -euo pipefail", "go mod init example.com/app"}
	others := "package main\n\n"
	for _, page := range []struct {
		file     string
		packages []string
	}{
		{"README.md", []string{"coordinator"}}, // first, because the others need it
		{"docs/bridges.md", []string{"coordinator/bridge/gocronlock"}},
		{"docs/observability.md", []string{"coordinator/telemetry/zkprom", "coordinator/telemetry/zkotel"}},
		{"docs/kerberos.md", []string{"session/sasl/gssapi"}},
	} {
		script = append(script, blockWith(t, page.file, "go work "))
		for _, imported := range page.packages {
			others += "import _ \"github.com/zkgrant/zkgrant/" + imported + "\"\n"
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": blockWith(t, "README.md", "package main"), "others.go": others} {
		eventstest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	bash := exec.Command("bash", "-c", strings.Join(append(script, "go run ."), "\n"))
	bash.Dir = dir
	bash.Env = cloning(t)
	out, err := bash.CombinedOutput()
	eventstest.Expect(t, err == nil && strings.Contains(string(out), "fencing token"),
		"%v, want the program's line:\n%s\n%s", err, strings.Join(script, "\n"), out)
}

// blockWith returns the first code block of the page that contains the text.
func blockWith(t *testing.T, page, text string) string {
	t.Helper()
	_, fences := split(read(t, page))
	i := slices.IndexFunc(fences, func(f fence) bool { return strings.Contains(f.text, text) })
	if i < 0 {
		t.Fatalf("%s has no block with %q", page, text)
	}
	return fences[i].text
}

// cloning returns an environment with env, in which cloning the library's address clones
// this repository.
func cloning(t *testing.T, env ...string) []string {
	t.Helper()
	home, err := filepath.Abs(root)
	eventstest.Must(t, err)
	return slices.Concat(os.Environ(), env, []string{
		"GOWORK=", "GOFLAGS=-trimpath", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=url." + home + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/zkgrant/zkgrant",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*", // the clone may belong to another user
	})
}
