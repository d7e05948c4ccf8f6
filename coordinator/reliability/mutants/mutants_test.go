package mutants_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/reliability/mutants"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// variable is the environment variable that chooses what runs: "every" runs every finder
// of every bug, "1" the first finder of every bug, and a commit the first finder of each
// bug that a change since that commit touches.
const variable, every = "ZKGRANT_MUTANTS", "every"

// killsVariable is the environment variable with the name of the kill matrix's file.
const killsVariable = "ZKGRANT_KILLS"

// list returns the module and its seeded bugs.
func list(t *testing.T) (mutants.Tree, []*mutants.Bug) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	eventstest.Must(t, err)
	bugs, err := mutants.ReadList("testdata")
	eventstest.Must(t, err)
	return mutants.Tree{Root: root}, bugs
}

// TestEverySeededBugFits checks that each bug applies to the current source, and names
// tests that exist.
func TestEverySeededBugFits(t *testing.T) {
	tree, bugs := list(t)
	_, err := tree.Weave(bugs)
	eventstest.Check(t, err)
	tests := map[string]map[string]string{}
	for _, b := range bugs {
		eventstest.Expect(t, !strings.HasSuffix(b.Does, "."), "%s: %q ends with a full stop", b.Name, b.Does)
		for _, f := range b.Finders {
			if tests[f.Pkg] == nil {
				tests[f.Pkg], err = tree.Tests(f.Pkg)
				eventstest.Must(t, err)
			}
			test, _, _ := strings.Cut(f.Test, "/")
			eventstest.Expect(t, tests[f.Pkg][test] != "", "%s: there is no test %v", b.Name, f)
		}
	}
}

// TestEverySeededBugIsFound runs the finders of the bugs. Each must pass without its bug
// and fail with it.
func TestEverySeededBugIsFound(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skipf("takes two minutes of two cores: run it with %s=1, or `make mutants`", variable)
	}
	tree, bugs := list(t)
	all := len(bugs)
	if commit := os.Getenv(variable); commit != every {
		for _, b := range bugs {
			b.Finders = b.Finders[:1]
		}
		if commit != "1" {
			bugs = since(t, tree, bugs, commit)
		}
	}
	if len(bugs) == 0 {
		fmt.Printf("no change touches one of the %d seeded bugs\n", all)
		return
	}
	began := time.Now()
	lab, err := mutants.NewLab(t.Context(), tree, bugs, t.TempDir())
	eventstest.Must(t, err)
	fmt.Printf("built the tests with all bugs in %.0f s\n", time.Since(began).Seconds())
	var tried, found, runs atomic.Int64
	t.Run("bug", func(t *testing.T) {
		for i, b := range bugs {
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				if find(t, lab, i+1, b) {
					found.Add(1)
				}
				runs.Add(int64(len(b.Finders)))
				if n := tried.Add(1); n%50 == 0 {
					fmt.Printf("%d of %d seeded bugs\n", n, len(bugs))
				}
			})
		}
	})
	if n := len(bugs); tried.Load() == int64(n) {
		fmt.Printf("found %d of %d seeded bugs with %d tests in %.0f s; the list has %d\n",
			found.Load(), n, runs.Load(), time.Since(began).Seconds(), all)
	}
}

// since returns the bugs that a change since the commit touches. Each must have only one
// finder.
func since(t *testing.T, tree mutants.Tree, bugs []*mutants.Bug, commit string) []*mutants.Bug {
	t.Helper()
	git := func(arguments ...string) string {
		command := exec.CommandContext(t.Context(), "git", arguments...)
		command.Dir = tree.Root
		out, err := command.Output()
		eventstest.Must(t, err)
		return string(out)
	}
	dir, here := t.TempDir(), "coordinator/reliability/mutants/testdata/"
	for _, name := range strings.Fields(git("ls-tree", "--name-only", commit, here)) {
		text := []byte(git("show", commit+":"+name))
		eventstest.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
	old, err := mutants.ReadList(dir)
	eventstest.Must(t, err)
	for _, b := range old {
		b.Finders = b.Finders[:1]
	}
	tests := map[mutants.Finder]string{}
	for _, b := range bugs {
		if f := b.Finders[0]; tests[mutants.Finder{Pkg: f.Pkg}] == "" {
			tests[mutants.Finder{Pkg: f.Pkg}] = "read"
			files, err := tree.Tests(f.Pkg)
			eventstest.Must(t, err)
			for test, file := range files {
				tests[mutants.Finder{Pkg: f.Pkg, Test: test}] = file
			}
		}
	}
	return mutants.Changed(bugs, old, strings.Fields(git("diff", "--name-only", commit)), tests)
}

// find runs each finder of a bug, and reports whether all of them found it.
func find(t *testing.T, lab *mutants.Lab, number int, b *mutants.Bug) bool {
	t.Helper()
	for _, f := range b.Finders {
		if sound := lab.Sound(t.Context(), f); sound.Verdict != mutants.Passed {
			t.Errorf("%v without any bug: %v, want passed\n%s", f, sound.Verdict, sound.Output)
			continue
		}
		run := lab.Try(t.Context(), number, f)
		t.Logf("%v: %v after %v", f, run.Verdict, run.Took.Round(time.Millisecond))
		switch {
		case run.Verdict == mutants.Passed:
			t.Errorf("%v passes with a library that %s", f, b.Does)
		case !run.Verdict.Finds():
			t.Errorf("%v does not tell how it ended:\n%s", f, run.Output)
		}
	}
	return !t.Failed()
}

// TestKillMatrix runs the quick tests for each bug that they reach, and writes which test
// finds which bug.
func TestKillMatrix(t *testing.T) {
	name := os.Getenv(killsVariable)
	if name == "" {
		t.Skipf("takes six minutes of two idle cores: run it with %s=FILE, or `make kills`", killsVariable)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644) // fails early; the old content stays until the matrix is done
	eventstest.Must(t, err)
	tree, bugs := list(t)
	lab, err := mutants.NewLab(t.Context(), tree, bugs, t.TempDir())
	eventstest.Must(t, err)
	began := time.Now()
	kills, err := lab.KillMatrix(t.Context(), bugs, func(done int) {
		if done%50 == 0 {
			fmt.Printf("%d of %d seeded bugs\n", done, len(bugs))
		}
	})
	eventstest.Must(t, err)
	eventstest.Must(t, errors.Join(file.Truncate(0), kills.Write(file), file.Close()))
	fmt.Printf("kill matrix in %.0f s: %s\n", time.Since(began).Seconds(), kills.Summary())
}
