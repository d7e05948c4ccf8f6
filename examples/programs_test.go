// Package examples_test builds the examples and runs them as users do.
package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPrograms builds the examples once. Each of them refuses a wrong command line, exits
// with 0 at its end, and releases everything on Ctrl-C and SIGTERM, whether it waits or
// holds.
func TestPrograms(t *testing.T) {
	t.Parallel()
	folder := build(t)
	for _, c := range calls() {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(c.line)
			command := exec.Command(filepath.Join(folder, words[0]), words[1:]...)
			var said [2]bytes.Buffer
			command.Stdout, command.Stderr = &said[0], &said[1]
			if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			code := command.ProcessState.ExitCode()
			if code != c.code || !strings.Contains(said[min(code, 1)].String(), c.says) {
				t.Errorf("exit code %d, standard output %q, standard error %q; want %d and %q", code, &said[0], &said[1], c.code, c.says)
			}
		})
	}
	t.Run("double", func(t *testing.T) {
		t.Parallel()
		servers := zktest.Start(t).Addr()
		play(t, folder, servers, os.Interrupt, eventstest.Full())
		stop(t, folder, servers)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		eventstest.NeedsServers(t)
		servers := ensemble.Start(t, 1).Connect()
		play(t, folder, servers, syscall.SIGTERM, true)
		stop(t, folder, servers)
	})
	lose(t, folder)
	connecting(t, folder)
}

// build builds the examples and returns the folder of the binaries.
func build(t *testing.T) string {
	t.Helper()
	// The go command caches a test's result until a file changes that the test has
	// accessed, so access the sources.
	sources, err := filepath.Glob("*/*.go")
	eventstest.Must(t, err)
	for _, source := range sources {
		_, err := os.Stat(source)
		eventstest.Must(t, err)
	}
	folder := t.TempDir()
	args := []string{"build", "-ldflags=-s -w", "-o", folder}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "-race" {
				args = append(args, "-race="+setting.Value)
			}
		}
	}
	if said, err := exec.Command("go", append(args, "./...")...).CombinedOutput(); err != nil {
		t.Fatalf("building the examples: %v\n%s", err, said)
	}
	return folder
}

// play runs the programs on the servers, each in its own chroot. It stops each with the
// signal, unless the scene runs to its end.
func play(t *testing.T, folder, servers string, sig os.Signal, toTheEnd bool) {
	t.Helper()
	for i, c := range scenes() {
		if c.toTheEnd && !toTheEnd {
			continue
		}
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(c.line)
			root := newRoot(t, servers, fmt.Sprintf("/%s-%d", words[0], i))
			args := append([]string{"-zk", servers + root.path + c.chroot}, words[1:]...)
			p := eventstest.Begin(t, exec.Command(filepath.Join(folder, words[0]), args...))
			p.Await(t, c.await, c.count)
			if c.nodes > 0 {
				root.await(c.chroot, c.nodes)
			}
			if c.toTheEnd {
				p.Exits(0)
			} else {
				p.Send(sig)
				p.Exits(130)
				p.Must(t, "interrupted")
			}
			p.Must(t, c.says...)
			left := root.ephemerals()
			eventstest.Expect(t, len(left) == 0, "left behind: %v, want no node of a session", left)
		})
	}
}

// scene is a run of a program. The signal comes once await has been printed count times
// and the nodes exist.
type scene struct {
	line     string
	chroot   string // it does not exist yet
	await    string
	count    int
	nodes    int
	toTheEnd bool // without a signal
	says     []string
}

func scenes() []scene {
	return []scene{
		{line: "demo -timeout 2s", chroot: "/some/app", nodes: 15, await: "http://127.0.0.1:", count: 1}, // 6 of each lock, 9 of shards
		{line: "eventloop -locks 100 -hold 1h", nodes: 200},                                              // each loop has a node in every queue
		{line: "eventloop -locks 500 -hold 20ms", toTheEnd: true, says: []string{
			"left   granted 500, lost 0", "right  granted 500, lost 0",
		}},
		{line: "fencedwriter", await: "ann  is halted", count: 1}, // Bob waits
		{line: "fencedwriter -timeout 2s", toTheEnd: true, says: []string{
			"is its lock valid? false", "refuses: token", "the store that compares tokens has 70, the store that does not has 20",
		}},
		{line: "quickstart -hold 1h", chroot: "/some/app", nodes: 5, await: " ahead", count: 4, says: []string{
			" granted ", "nodes left: 0",
		}},
		{line: "quickstart -hold 50ms -timeout 2s", toTheEnd: true, says: []string{
			"cid   LOST       lease ran out", "one at a time             yes", "nodes left                0",
		}},
	}
}

// call is a run without servers. With exit code 0 says goes to standard output, otherwise
// to standard error.
type call struct {
	line string
	code int
	says string
}

func calls() []call {
	const number = "only numbers above 0"
	return []call{
		{"demo argument", 2, "no arguments"},
		{"demo -listen 0.0.0.0:0", 1, "not on loopback"},
		{"demo -zk host:1 -ensemble", 1, "name two places"},
		{"demo -zk host:none", 1, "malformed"},
		{"eventloop -nosuchflag", 2, "nosuchflag"},
		{"eventloop -hold 0s", 2, number},
		{"eventloop -locks 0", 2, number},
		{"eventloop -locks 10 -hold 20ms", 0, "left   granted 10, lost 0"}, // on a server inside the program
		{"fencedwriter -nosuchflag", 2, "nosuchflag"},
		{"quickstart argument", 2, "no arguments"},
		{"quickstart -hold 0s", 2, number},
		{"quickstart -zk host:none", 1, "malformed"},
	}
}
