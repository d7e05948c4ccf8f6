package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// switchName is the environment variable that asks for a run of the mutants where
	// there is none without: with -race, and with -short.
	switchName = "ZKGRANT_MUTANTS"
	// writeTable is its value if TABLE.md is to be written.
	writeTable = "write"
	// patience is the time limit of each test on a mutant. Most need a hundredth of it.
	patience = 60 * time.Second
)

// verdict is how a test ended.
type verdict uint8

const (
	passed verdict = iota + 1
	failed
	leaked  // failed because of goroutines that were left
	crashed // a panic, or a deadlock that the runtime noticed
	hung    // its time limit ended it
	broken  // it was not run, or nobody can tell how it ended
)

// String says it as the table does.
func (v verdict) String() string {
	switch v {
	case passed:
		return "passed"
	case failed:
		return "failed"
	case leaked:
		return "leak"
	case crashed:
		return "crash"
	case hung:
		return "time limit"
	case broken:
		return "broken"
	default:
		return "unknown"
	}
}

// judge reads how a test binary ended that ran one test. It has to say more than that
// it failed: a binary without that test fails nobody.
func judge(exit error, output string) verdict {
	var status *exec.ExitError
	switch {
	case strings.Contains(output, "testing: warning: no tests to run"):
		return broken
	case exit == nil && strings.Contains(output, "--- SKIP"):
		return broken
	case exit == nil && strings.Contains(output, "--- PASS"):
		return passed
	case !errors.As(exit, &status):
		return broken
	case strings.Contains(output, "panic: test timed out after"):
		return hung
	case strings.Contains(output, "panic:"), strings.Contains(output, "fatal error:"):
		return crashed
	case strings.Contains(output, "--- FAIL"):
		return failed
	case strings.Contains(output, "goleak: Errors on successful test run"):
		return leaked
	default:
		return broken
	}
}

// run is one test on one tree.
type run struct {
	verdict verdict
	took    time.Duration // without the building
	output  string
}

// build compiles the tests of a package, with the changed files (by name) in the
// place of those on the disk.
func (t tree) build(ctx context.Context, dir, pkg string, changed map[string]string) (binary string, err error) {
	replace := map[string]string{}
	for name, text := range changed {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[t.on(name)] = file
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, strings.ReplaceAll(pkg, "/", "_")+".test")
	// A mutant need not be vetted: unreachable code is part of some.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+pkg)
	cmd.Dir = t.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// try runs one test of a binary that build has made. It runs in a copy of what the
// package's folder has for its tests, because some write what they have found into
// it, and would try that again on a tree without the mutant.
func (t tree) try(ctx context.Context, binary string, f finder) run {
	dir := binary + ".dir"
	data := t.on(f.pkg + "/testdata")
	err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
	if _, missing := os.Stat(data); err == nil && missing == nil {
		err = os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(data))
	}
	if err != nil {
		return run{verdict: broken, output: err.Error()}
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^"+f.test+"$", "-test.v", "-test.timeout", patience.String())
	cmd.Dir = dir
	began := time.Now()
	out, err := cmd.CombinedOutput()
	return run{judge(err, string(out)), time.Since(began), string(out)}
}

// TestEveryMutantIsFound runs each mutant against the tests that are named with it.
func TestEveryMutantIsFound(t *testing.T) {
	wanted := os.Getenv(switchName)
	if wanted == "" && (underRace || testing.Short()) {
		t.Skipf("builds the library once for each of %d mutants: run it without -race and -short, or with %s=1",
			len(all()), switchName)
	}
	sound := &unmodified{tree: readTree(t), dir: t.TempDir(), packages: map[string]*built{}, finders: map[finder]*tried{}}
	began := time.Now()
	lines := make([]line, len(all()))
	t.Run("mutant", func(t *testing.T) {
		for i, m := range all() {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				lines[i] = find(t, sound, m)
			})
		}
	})
	for _, l := range lines {
		if len(l.runs) == 0 {
			return // a part of them was asked for
		}
	}
	t.Logf("\n%s", render(lines))
	fmt.Printf("found %d of %d seeded bugs in %.0f s, building included\n",
		count(lines), len(lines), time.Since(began).Seconds())
	if wanted == writeTable && !t.Failed() {
		if err := os.WriteFile("TABLE.md", []byte(page(t, sound.tree, lines)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// find runs one mutant against its tests.
func find(t *testing.T, sound *unmodified, m mutant) line {
	t.Helper()
	changed := sound.tree.changed(t, m)
	l := line{mutant: m}
	dir := t.TempDir()
	binaries := map[string]string{}
	for _, f := range m.finders() {
		if err := sound.passes(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if binaries[f.pkg] == "" {
			binary, err := sound.tree.build(t.Context(), dir, f.pkg, changed)
			if err != nil {
				t.Fatal(err)
			}
			binaries[f.pkg] = binary
		}
		r := sound.tree.try(t.Context(), binaries[f.pkg], f)
		l.runs = append(l.runs, r)
		switch r.verdict {
		case failed, leaked, crashed, hung:
			t.Logf("%v: %v after %v", f, r.verdict, r.took.Round(time.Millisecond))
		case passed:
			t.Errorf("survives %v: a library that %s", f, m.breaks)
		default:
			t.Errorf("%v says nothing:\n%s", f, r.output)
		}
	}
	return l
}

// unmodified is the tree as it is, on which each test has to pass: what fails anyway
// finds nothing. Each package is built once, and each test run once, however many
// mutants ask. It is safe for concurrent use.
type unmodified struct {
	tree tree
	dir  string // what is built lies here; removed with the test

	mu       sync.Mutex
	packages map[string]*built
	finders  map[finder]*tried
}

type built struct {
	once   sync.Once
	binary string
	err    error
}

type tried struct {
	once sync.Once
	err  error
}

// passes returns why the test does not pass, or is too slow to tell slow from hung.
func (u *unmodified) passes(ctx context.Context, f finder) error {
	u.mu.Lock()
	if u.packages[f.pkg] == nil {
		u.packages[f.pkg] = &built{}
	}
	if u.finders[f] == nil {
		u.finders[f] = &tried{}
	}
	b, r := u.packages[f.pkg], u.finders[f]
	u.mu.Unlock()
	b.once.Do(func() { b.binary, b.err = u.tree.build(ctx, u.dir, f.pkg, nil) })
	if b.err != nil {
		return b.err
	}
	// The folder that the test runs in is the binary's own: a link gives each test its own.
	r.once.Do(func() { r.err = u.try(ctx, b.binary, f) })
	return r.err
}

func (u *unmodified) try(ctx context.Context, binary string, f finder) error {
	own := binary + "." + f.test
	if err := os.Link(binary, own); err != nil {
		return err
	}
	r := u.tree.try(ctx, own, f)
	switch {
	case r.verdict != passed:
		return fmt.Errorf("%v, without any mutant: %v\n%s", f, r.verdict, r.output)
	case r.took > patience/5:
		return fmt.Errorf("%v takes %v without any mutant: too near to its time limit of %v", f, r.took, patience)
	default:
		return nil
	}
}

// TestJudge holds that only what has failed by itself counts as having failed.
func TestJudge(t *testing.T) {
	exited := &exec.ExitError{}
	for _, c := range []struct {
		exit   error
		output string
		want   verdict
	}{
		{nil, "=== RUN   TestX\n--- PASS: TestX (0.00s)\nPASS\n", passed},
		{nil, "testing: warning: no tests to run\nPASS\n", broken},
		{nil, "=== RUN   TestX\n--- SKIP: TestX (0.00s)\nPASS\n", broken},
		{nil, "", broken},
		{exited, "--- FAIL: TestX (0.00s)\nFAIL\n", failed},
		{exited, "--- PASS: TestX (0.00s)\ngoleak: Errors on successful test run: found unexpected goroutines", leaked},
		{exited, "panic: boom\n\ngoroutine 7 [running]:", crashed},
		{exited, "fatal error: all goroutines are asleep - deadlock!", crashed},
		{exited, "panic: test timed out after 1m0s\n", hung},
		{exited, "flag provided but not defined: -test.nothing", broken},
		{context.Canceled, "--- FAIL: TestX (0.00s)", broken},
	} {
		if got := judge(c.exit, c.output); got != c.want {
			t.Errorf("exit %v with %q: %v, want %v", c.exit, c.output, got, c.want)
		}
	}
}
