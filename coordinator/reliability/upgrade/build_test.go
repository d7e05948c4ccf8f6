package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// earlier is a version of the library: a commit of this repository.
type earlier struct {
	commit string
	what   string // was new in it
	lacks  bool   // what newer.go of the worker has
}

// versions has one version for each earlier wire format: the last commit before a format changed.
var versions = []earlier{
	// It has mutexes, read/write locks, semaphores and records of holders. It has no line with the session timeout in the data of revocable
	// locks, and knows no node that is kept.
	{commit: "03f7b13e4fd23675d9f12c83995f77ceb4bd8a44", what: "records of crashed holders", lacks: true},
	// It keeps the nodes of cached locks.
	{commit: "630e71aeb1fcecd1b1460d952703302cb5e7a43c", what: "cached locks"},
}

// errShallow says that the clone has no earlier commits.
var errShallow = errors.New("this clone is shallow; git fetch --unshallow gets the rest")

// git runs git in a folder of the clone.
func git(ctx context.Context, folder string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", arguments...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", arguments[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// has returns nil if the clone has the commit, and errShallow if the clone is shallow or cannot be asked.
func has(ctx context.Context, folder, commit string) error {
	_, err := git(ctx, folder, "cat-file", "-e", commit+"^{commit}")
	if err == nil {
		return nil
	}
	shallow, asked := git(ctx, folder, "rev-parse", "--is-shallow-repository")
	switch {
	case asked != nil:
		return fmt.Errorf("%w: %w", errShallow, asked) // no clone at all, or no git
	case shallow == "true":
		return errShallow
	}
	return err
}

// module is the folder of go.mod.
const module = "../../.."

// build returns the worker of the version. Without the commit the test is skipped.
func (v earlier) build(t *testing.T) (program string) {
	t.Helper()
	if err := has(t.Context(), module, v.commit); errors.Is(err, errShallow) {
		t.Skipf("needs the commit %s (%s); %v", v.commit, v.what, err)
	} else if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	archive := filepath.Join(tree, "tree.tar")
	if _, err := git(t.Context(), module, "archive", "-o", archive, v.commit, "go.mod", "go.sum", "events", "recipes", "actors", "session", "coordinator"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-x", "-f", archive, "-C", tree).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	folder := filepath.Join(tree, "worker")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join("worker", "newer.go")
	if v.lacks {
		newer = filepath.Join("testdata", "older.txt")
	}
	for to, from := range map[string]string{"main.go": filepath.Join("worker", "main.go"), "newer.go": newer} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return compile(t, tree, "./worker")
}

// compile builds a program of the module at the tree.
func compile(t *testing.T, tree, folder string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "worker")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, folder)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the worker: %v\n%s", err, out)
	}
	return program
}

// TestAShallowCloneHasNoEarlierVersion: in a clone of depth 1 the test is skipped, and does not fail. A commit that a full clone
// lacks is a failure.
func TestAShallowCloneHasNoEarlierVersion(t *testing.T) {
	full := t.TempDir()
	identity := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}
	for _, arguments := range [][]string{
		{"init", "-q"}, append(identity, "commit", "-q", "--allow-empty", "-m", "first"), append(identity, "commit", "-q", "--allow-empty", "-m", "second"),
	} {
		if _, err := git(t.Context(), full, arguments...); errors.Is(err, exec.ErrNotFound) {
			t.Skipf("needs git on PATH: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	first, err := git(t.Context(), full, "rev-parse", "HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	shallow := t.TempDir()
	if _, err := git(t.Context(), shallow, "clone", "-q", "--depth", "1", "file://"+full, "."); err != nil {
		t.Fatal(err)
	}
	if err := has(t.Context(), full, first); err != nil {
		t.Errorf("in the full clone: %v, want the commit", err)
	}
	if err := has(t.Context(), shallow, first); !errors.Is(err, errShallow) {
		t.Errorf("in a clone of depth 1: %v, want %v", err, errShallow)
	}
	if err := has(t.Context(), full, strings.Repeat("1", 40)); err == nil || errors.Is(err, errShallow) {
		t.Errorf("a commit that a full clone lacks: %v, want an error other than %v", err, errShallow)
	}
	if err := has(t.Context(), t.TempDir(), first); !errors.Is(err, errShallow) {
		t.Errorf("in a folder that is no clone: %v, want %v", err, errShallow)
	}
}
