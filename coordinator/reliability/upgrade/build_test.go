package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// earlier is a version of the library: a commit of this repository.
type earlier struct {
	commit string
	what   string // what was new in it
	newer  string // the file in testdata that replaces the worker's newer.go
}

// versions has one version for each earlier wire format: the last commit before the
// format changed.
var versions = []earlier{
	// It has mutexes, read/write locks, semaphores and records of holders. Its revocable
	// locks have no line with the session timeout in their data, and it does not know
	// kept nodes.
	{commit: "03f7b13e4fd23675d9f12c83995f77ceb4bd8a44", what: "records of crashed holders", newer: "older.txt"},
	// It keeps the nodes of cached locks.
	{commit: "630e71aeb1fcecd1b1460d952703302cb5e7a43c", what: "cached locks", newer: "old.txt"},
}

func run(ctx context.Context, folder string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// module is the folder of go.mod.
const module = "../../.."

// build returns the worker of the version. Without the commit, the test is skipped.
func (v earlier) build(t *testing.T) (program string) {
	t.Helper()
	if _, err := run(t.Context(), module, "git", "cat-file", "-e", v.commit+"^{commit}"); err != nil {
		// If the clone is not a repository, or there is no git, the answer is unknown.
		shallow, asked := run(t.Context(), module, "git", "rev-parse", "--is-shallow-repository")
		if asked != nil || shallow == "true" {
			t.Skipf("needs the commit %s (%s): this clone is shallow; git fetch --unshallow gets the rest", v.commit, v.what)
		}
		t.Fatal(err)
	}
	tree := t.TempDir()
	archive, folder := filepath.Join(tree, "tree.tar"), filepath.Join(tree, "worker")
	for _, command := range [][]string{
		{"git", "archive", "-o", archive, v.commit, "go.mod", "go.sum", "events", "recipes", "actors", "session", "coordinator"},
		{"tar", "-x", "-f", archive, "-C", tree},
	} {
		_, err := run(t.Context(), module, command...)
		eventstest.Must(t, err)
	}
	eventstest.Must(t, os.Mkdir(folder, 0o700))
	for to, from := range map[string]string{
		"main.go": filepath.Join("worker", "main.go"), "newer.go": filepath.Join("testdata", v.newer),
	} {
		text, err := os.ReadFile(from)
		eventstest.Must(t, err)
		eventstest.Must(t, os.WriteFile(filepath.Join(folder, to), text, 0o600))
	}
	return compile(t, tree, "./worker")
}

func compile(t *testing.T, tree, folder string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "worker")
	_, err := run(t.Context(), tree, "go", "build", "-o", program, folder)
	eventstest.Must(t, err)
	return program
}
