package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Verdict is how a test ended.
type Verdict uint8

// The verdicts. A test that Failed, Leaked, Crashed or Hung has found the bug.
const (
	Passed  Verdict = iota + 1
	Failed          // one of its own checks failed
	Leaked          // it passed, but left goroutines running
	Crashed         // it panicked, or the runtime detected a deadlock
	Hung            // it exceeded its time limit
	Broken          // it did not run, or its output does not show how it ended
)

// String returns the verdict in one or two words.
func (v Verdict) String() string {
	return [...]string{"none", "passed", "failed", "leak", "crash", "time limit", "broken"}[v]
}

// Finds reports whether a test with this verdict has found the bug.
func (v Verdict) Finds() bool { return v >= Failed && v <= Hung }

// Judge returns how a test ended, given the exit status and the output of the binary that
// ran only this test. The exit status alone is not enough: a binary that lacks the test
// exits with 0.
func Judge(exit error, output string) Verdict {
	var status *exec.ExitError
	switch {
	case strings.Contains(output, "testing: warning: no tests to run"):
		return Broken
	case exit == nil && strings.Contains(output, "--- SKIP"):
		return Broken
	case exit == nil && strings.Contains(output, "--- PASS"):
		return Passed
	case !errors.As(exit, &status):
		return Broken
	case strings.Contains(output, "panic: test timed out after"):
		return Hung
	case strings.Contains(output, "panic:"), strings.Contains(output, "fatal error:"):
		return Crashed
	case strings.Contains(output, "--- FAIL"):
		return Failed
	case strings.Contains(output, "goleak: Errors on successful test run"):
		return Leaked
	default:
		return Broken
	}
}

// Run is the result of running one test, with one bug or with none.
type Run struct {
	Verdict Verdict
	Took    time.Duration
	Output  string
}

// Lab has the woven test binaries, and measures how long each test takes without a bug.
// It is safe for concurrent use.
type Lab struct {
	tree     Tree
	dir      string
	binaries map[string]string // by package

	mu       sync.Mutex
	sound    map[Finder]*baseline
	measured []time.Duration // durations of the tests without a bug, sorted
}

// baseline is a test's only run without a bug.
type baseline struct {
	once sync.Once
	run  Run
}

// NewLab weaves the bugs into the library, and builds the tests of each package that has
// a finder. All its files are in dir.
func NewLab(ctx context.Context, t Tree, bugs []*Bug, dir string) (*Lab, error) {
	woven, err := t.Weave(bugs)
	if err != nil {
		return nil, err
	}
	l := &Lab{tree: t, dir: dir, binaries: map[string]string{}, sound: map[Finder]*baseline{}}
	replace := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(woven)) {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(woven[name]), 0o600); err != nil {
			return nil, err
		}
		replace[t.on(name)] = file
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return nil, err
	}
	for _, b := range bugs {
		for _, f := range b.Finders {
			l.binaries[f.Pkg] = filepath.Join(dir, path.Base(f.Pkg)+".test") // the name that the go command chooses
		}
	}
	// Bugs are not vetted: some contain unreachable code.
	args := []string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", dir}
	for _, pkg := range slices.Sorted(maps.Keys(l.binaries)) {
		args = append(args, "./"+pkg)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = t.Root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the tests with all bugs in: %w\n%s", err, out)
	}
	return l, nil
}

// Sound returns the run of a test without a bug. The test runs only once, even if several
// callers need it.
func (l *Lab) Sound(ctx context.Context, f Finder) Run {
	l.mu.Lock()
	b := l.sound[f]
	if b == nil {
		b = &baseline{}
		l.sound[f] = b
	}
	l.mu.Unlock()
	b.once.Do(func() {
		b.run = l.try(ctx, 0, f, 0)
		l.measure(b.run.Took)
	})
	return b.run
}

func (l *Lab) measure(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measured = append(l.measured, took)
	slices.Sort(l.measured)
}

// mostTries is how often a test may pass before its bug counts as not found.
const mostTries = 3

// Try runs a test with the bug of that number. The time limit is a multiple of what tests
// take without a bug on this machine under its current load. A test that exceeds it runs
// once more with a longer limit. A test that passes is repeated, up to mostTries runs.
func (l *Lab) Try(ctx context.Context, bug int, f Finder) Run {
	sound := l.Sound(ctx, f)
	l.mu.Lock()
	limit := 4*sound.Took + 10*l.measured[len(l.measured)/2]
	l.mu.Unlock()
	run := l.try(ctx, bug, f, limit)
	if run.Verdict == Hung {
		run = l.try(ctx, bug, f, 4*limit)
	}
	// Some bugs show only in a race, which may not happen on a busy machine.
	for tries := 1; run.Verdict == Passed && tries < mostTries; tries++ {
		run = l.try(ctx, bug, f, limit)
	}
	// A world must end with exactly the violation that the list names.
	if _, violation, _ := strings.Cut(f.World, " -> "); f.World != "" && run.Verdict.Finds() && !strings.Contains(run.Output, "violation: "+violation+"\n") {
		run.Verdict = Broken
	}
	return run
}

func (l *Lab) try(ctx context.Context, bug int, f Finder, limit time.Duration) Run {
	return l.start(ctx, f, f.pattern(), limit, fmt.Sprintf("%s=%d", Switch, bug), worldVariable+"="+f.World)
}

// start runs the matching tests of a package. An argument in more that looks like a flag
// is passed as a flag; any other is added to the environment. The process runs in a new
// folder with a copy of the package's testdata, because some tests write there.
func (l *Lab) start(ctx context.Context, f Finder, pattern string, limit time.Duration, more ...string) Run {
	dir, err := os.MkdirTemp(l.dir, "run")
	if err != nil {
		return Run{Verdict: Broken, Output: err.Error()}
	}
	defer os.RemoveAll(dir)
	data := os.DirFS(l.tree.on(f.Pkg + "/testdata"))
	if err := os.CopyFS(filepath.Join(dir, "testdata"), data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Run{Verdict: Broken, Output: err.Error()}
	}
	command := exec.CommandContext(ctx, l.binaries[f.Pkg], "-test.run", pattern, "-test.v", "-test.timeout", limit.String())
	command.Dir = dir
	command.Env = os.Environ()
	for _, m := range more {
		if strings.HasPrefix(m, "-") {
			command.Args = append(command.Args, m)
		} else {
			command.Env = append(command.Env, m)
		}
	}
	began := time.Now()
	out, err := command.CombinedOutput()
	return Run{Judge(err, string(out)), time.Since(began), string(out)}
}

// worldVariable is the environment variable that tells the explorer which world to visit.
const worldVariable = "ZKGRANT_EXPLORE"
