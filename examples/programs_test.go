// Package examples_test builds the examples and runs them as their users do.
package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPrograms builds the examples once. Each of them refuses a wrong command line, ends well, and gives everything back on Ctrl-C and
// SIGTERM, whether it waits or holds. Each has no goroutine left when it ends.
func TestPrograms(t *testing.T) {
	t.Parallel()
	folder := build(t)
	for _, c := range calls() {
		t.Run(strings.Join(append([]string{c.program}, c.args...), " "), func(t *testing.T) {
			t.Parallel()
			command := exec.Command(filepath.Join(folder, c.program), c.args...)
			var stdout, stderr bytes.Buffer
			command.Stdout, command.Stderr = &stdout, &stderr
			if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			said := &stderr
			if c.code == 0 {
				said = &stdout
			}
			if code := command.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit code %d, standard output %q, standard error %q; want %d and %q", code, &stdout, &stderr, c.code, c.says)
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
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		lose(t, folder)
	})
	t.Run("connecting", func(t *testing.T) {
		t.Parallel()
		connecting(t, folder)
	})
}

// build returns a folder with the examples' programs.
func build(t *testing.T) string {
	t.Helper()
	// The go command runs a test again if a file has changed that the test itself has read.
	sources, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if _, err := os.Stat(source); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	args := []string{"build", "-ldflags=-s -w", "-overlay", overlay(t), "-o", folder}
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

// overlay returns a file that makes the go command build each example with a check for goroutines at its end. Exception: examples with
// another main function are built unchanged, those with run and those that users copy.
func overlay(t *testing.T) string {
	t.Helper()
	const exit = "os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))"
	watched := strings.NewReplacer("import (", "import (\n\t\"go.uber.org/goleak\"", exit, `code := command(os.Args[1:], os.Stdout, os.Stderr)
	if err := goleak.Find(); err != nil {
		os.Stderr.WriteString(err.Error())
		code = 99
	}
	os.Exit(code)`)
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	replace := map[string]string{}
	for _, c := range scenes() {
		source := filepath.Join(c.program, "main.go")
		text, err := os.ReadFile(source)
		if err != nil || !strings.Contains(string(text), exit) {
			t.Fatalf("%s: %v, want a main function that ends with %s", source, err, exit)
		}
		replace[source] = write(c.program+".go", watched.Replace(string(text)))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return write("overlay.json", string(text))
}

// play runs the programs on the servers, each in its own chroot, until the signal, or to the end if the scene says so.
func play(t *testing.T, folder, servers string, sig os.Signal, toTheEnd bool) {
	t.Helper()
	for i, c := range scenes() {
		if c.toTheEnd && !toTheEnd {
			continue
		}
		t.Run(fmt.Sprintf("%s %d", c.program, i), func(t *testing.T) {
			t.Parallel()
			root := fmt.Sprintf("/%s-%d", c.program, i)
			stagetest.MakeRoot(t, servers, root)
			p := eventstest.Begin(t, exec.Command(filepath.Join(folder, c.program), append([]string{"-zk", servers + root + c.chroot}, c.args...)...))
			for _, line := range c.await {
				p.Await(t, line.text, line.count)
			}
			if c.nodes > 0 {
				stagetest.AwaitEphemerals(t, servers, root+c.chroot, c.nodes)
			}
			if c.toTheEnd {
				p.Exits(0)
			} else {
				p.Send(sig)
				p.Exits(130)
				p.Must(t, "interrupted")
			}
			for _, says := range c.says {
				if !regexp.MustCompile(says).MatchString(p.String()) {
					t.Errorf("printed %s\nwant a match of %s", p, says)
				}
			}
			if left := stagetest.Ephemerals(t, servers, root); len(left) > 0 {
				t.Errorf("left behind: %v, want no node of a session", left)
			}
		})
	}
}

// scene is a run of a program. The program is told to stop when the lines have been printed and the nodes exist.
type scene struct {
	program  string
	args     []string
	chroot   string // it does not exist yet
	await    []line
	nodes    int
	toTheEnd bool // the program is not told to stop
	says     []string
}

// line is a text, and how often it is printed.
type line struct {
	text  string
	count int
}

func args(line string) []string { return strings.Fields(line) }

func scenes() []scene {
	return []scene{
		{program: "demo", args: args("-timeout 2s"), chroot: "/some/app", nodes: 6, await: []line{{"http://127.0.0.1:", 1}}},
		{program: "eventloop", args: args("-locks 100 -hold 1h"), nodes: 200}, // each loop has a node in every queue
		{program: "eventloop", args: args("-locks 500 -hold 20ms"), toTheEnd: true, says: []string{
			"left   granted 500, lost 0", "right  granted 500, lost 0",
		}},
		{program: "fencedwriter", await: []line{{"ann  is halted", 1}}}, // Bob waits
		{program: "fencedwriter", args: args("-timeout 1s"), toTheEnd: true, says: []string{
			`is its lock valid\? false`, "refuses: token", "the store that compares tokens has 70, the store that does not has 20",
		}},
		{program: "quickstart", args: args("-hold 1h"), chroot: "/some/app", nodes: 5, await: []line{{" ahead", 4}}, says: []string{
			" granted ", "nodes left: 0",
		}},
		{program: "quickstart", args: args("-hold 50ms -timeout 2s"), toTheEnd: true, says: []string{
			"cid   LOST       lease ran out", "one at a time             yes", "nodes left                0",
		}},
	}
}

// call is a run without servers. With the exit code 0 it prints to standard output, else to standard error.
type call struct {
	program string
	args    []string
	code    int
	says    string
}

func calls() []call {
	const number = "only numbers above 0"
	return []call{
		{"demo", args("argument"), 2, "no arguments"},
		{"demo", args("-timeout 0s"), 2, number},
		{"demo", args("-listen 0.0.0.0:0"), 1, "not on loopback"},
		{"demo", args("-zk host:1 -ensemble"), 1, "name two places"},
		{"demo", args("-zk host:none"), 1, "malformed"},
		{"eventloop", args("-nosuchflag"), 2, "nosuchflag"},
		{"eventloop", args("argument"), 2, "no arguments"},
		{"eventloop", args("-hold 0s"), 2, number},
		{"eventloop", args("-locks 0"), 2, number},
		{"eventloop", args("-locks 10 -hold 20ms"), 0, "left   granted 10, lost 0"}, // on a server inside the program
		{"fencedwriter", args("-nosuchflag"), 2, "nosuchflag"},
		{"quickstart", args("-nosuchflag"), 2, "nosuchflag"},
		{"quickstart", args("argument"), 2, "no arguments"},
		{"quickstart", args("-hold 0s"), 2, number},
		{"quickstart", args("-timeout -1s"), 2, number},
		{"quickstart", args("-zk host:none"), 1, "malformed"},
	}
}
