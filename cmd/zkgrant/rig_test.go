//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockPath = "/locks/run"

// rig is a server, and the setup of what a test runs on it.
type rig struct {
	*zktest.Server // nil for real servers

	t       *testing.T
	servers string
	env     []string // for each process, in addition to the test's own
	file    string   // the file that the commands work on; FILE in a line
	folder  string   // not empty: run as an unprivileged user, with the programs in this folder
}

// on returns a rig on existing servers.
func on(t *testing.T, servers string) *rig {
	t.Helper()
	env := []string{"ZKGRANT_SERVERS=" + servers}
	return &rig{t: t, servers: servers, env: env, file: filepath.Join(t.TempDir(), "work")}
}

// double returns a rig on a server in this process.
func double(t *testing.T, settings ...zktest.Setting) *rig {
	t.Helper()
	server := zktest.Start(t, settings...)
	g := on(t, server.Addr())
	g.Server = server
	return g
}

// parallel makes the test run in parallel with others. Call it before creating a rig.
func parallel(t *testing.T) *testing.T {
	t.Helper()
	t.Parallel()
	return t
}

// inParallel runs part for each of the cases, in parallel.
func inParallel[T any](t *testing.T, cases map[string]T, part func(t *testing.T, name string, one T)) {
	t.Helper()
	for name, one := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, name, one)
		})
	}
}

// nothing returns how long it takes to run a program that does nothing: the least of
// three times, because one alone may have had to wait for a processor for long.
func nothing(t *testing.T) time.Duration {
	t.Helper()
	least := time.Hour
	for range 3 {
		began := time.Now()
		eventstest.Must(t, exec.Command("true").Run())
		least = min(least, time.Since(began))
	}
	return least
}

// brief is double, with sessions of a second. On a busy machine they are longer, or
// processes that wait for a processor would lose their locks: a hundred times what it
// takes to run a program that does nothing.
func brief(t *testing.T) *rig {
	t.Helper()
	return lasting(t, max(time.Second, 100*nothing(t).Round(time.Millisecond)))
}

// lasting is double, with sessions of that timeout, ten ticks.
func lasting(t *testing.T, timeout time.Duration) *rig {
	t.Helper()
	tick := timeout / 10
	g := double(t, zktest.Tick(tick))
	g.env = append(g.env, fmt.Sprint("ZKGRANT_SESSION_TIMEOUT=", timeout), fmt.Sprint("ZKGRANT_TICK_TIME=", tick))
	return g
}

// enough returns ten times what a run of zkgrant takes now, and at least the given time.
func (g *rig) enough(least time.Duration) time.Duration {
	g.t.Helper()
	began := time.Now()
	g.ends(0, "run /locks/measured -- true")
	return max(least, 10*time.Since(began).Round(time.Millisecond))
}

// asNobody makes the rig run programs as an unprivileged user. The parts are set-user-ID
// root, so they can become root.
func (g *rig) asNobody() {
	g.t.Helper()
	g.folder = g.t.TempDir()
	eventstest.Must(g.t, os.Chmod(filepath.Dir(g.folder), 0o755))
	eventstest.Must(g.t, os.Chmod(g.folder, 0o777))
	g.file = filepath.Join(g.folder, "work")
	for name, mode := range map[string]os.FileMode{"zkgrant": 0o755, "part": 0o755 | os.ModeSetuid} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(program), name))
		eventstest.Must(g.t, err)
		writeProgram(g.t, filepath.Join(g.folder, name), text)
		eventstest.Must(g.t, os.Chmod(filepath.Join(g.folder, name), mode))
	}
}

// command returns a command that is not started yet. Its arguments are the words of the
// line, where single quotes group words, followed by more. It gets its own process group,
// like a shell's job, and no input.
func (g *rig) command(line string, more ...string) *exec.Cmd {
	var words []string
	for i, part := range strings.Split(strings.ReplaceAll(line, "FILE", g.file), "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	words = append(words, more...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stdin = strings.NewReader("")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if g.folder != "" {
		if words[0] == "zkgrant" {
			cmd.Path = filepath.Join(g.folder, "zkgrant")
		}
		const nobody = 65534
		cmd.Dir, cmd.SysProcAttr.Credential = g.folder, &syscall.Credential{Uid: nobody, Gid: nobody}
		cmd.Env = append(cmd.Env, "PATH="+g.folder+":"+os.Getenv("PATH"))
	}
	return cmd
}

// begin starts zkgrant with the line. It is ended with the test.
func (g *rig) begin(line string, more ...string) *eventstest.Process {
	g.t.Helper()
	return eventstest.Begin(g.t, g.command("zkgrant "+line, more...))
}

// until is begin, but waits until the text is printed.
func (g *rig) until(text, line string, more ...string) *eventstest.Process {
	g.t.Helper()
	p := g.begin(line, more...)
	p.Await(g.t, text, 1)
	return p
}

// works is begin, but waits until the command works.
func (g *rig) works(line string, more ...string) *eventstest.Process {
	g.t.Helper()
	p := g.begin(line, more...)
	g.pid(p, "command")
	return p
}

// ends runs zkgrant to its end, and checks the exit code and that it prints the texts.
func (g *rig) ends(code int, line string, texts ...string) *eventstest.Process {
	g.t.Helper()
	p := g.begin(line)
	over(g.t, p, code, texts...)
	return p
}

// stop sends a process the signal, and then does the same as over.
func (g *rig) stop(p *eventstest.Process, sig os.Signal, code int, texts ...string) {
	g.t.Helper()
	p.Send(sig)
	over(g.t, p, code, texts...)
}

// over waits until a process has exited, and checks its exit code and that it has printed
// the texts.
func over(t *testing.T, p *eventstest.Process, code int, texts ...string) {
	t.Helper()
	p.Exits(code)
	p.Must(t, texts...)
}

// pid waits until a process of that name is ready, and returns its PID.
func (g *rig) pid(p *eventstest.Process, name string) (pid int) {
	g.t.Helper()
	pattern := regexp.MustCompile(name + ` (\d+) ready`)
	eventstest.Eventually(g.t, name+" is ready", func() bool {
		found := pattern.FindStringSubmatch(p.String())
		if found != nil {
			pid, _ = strconv.Atoi(found[1])
		}
		return pid != 0
	})
	return pid
}

func (g *rig) nodes(want int, when string) {
	g.t.Helper()
	got := g.Children(lockPath)
	eventstest.Expect(g.t, len(got) == want, "%s the lock has the nodes %v, want %d", when, got, want)
}

// first returns the first node in the queue at the path, by default lockPath, and the
// node's session.
func (g *rig) first(at ...string) (node string, session int64) {
	g.t.Helper()
	path := append(at, lockPath)[0]
	nodes := g.Children(path)
	if len(nodes) == 0 {
		g.t.Fatalf("%s has no node, want one", path)
	}
	first := slices.MinFunc(nodes, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	return path + "/" + first, g.Owner(path + "/" + first)
}

// expire ends the session of the first contender in the queue.
func (g *rig) expire(at ...string) {
	g.t.Helper()
	_, session := g.first(at...)
	eventstest.Must(g.t, g.Expire(session))
}

// handsOver calls end, which makes the holder of the lock lose or release it. It checks
// that the holder's command has stopped working on the file when the next holder starts.
// If end muted the session, handsOver unmutes it.
func (g *rig) handsOver(end func()) {
	g.t.Helper()
	_, holder := g.first()
	next := g.until("1 ahead", "run -v "+lockPath+" -- part mark FILE")
	end()
	g.marks(next)
	g.alone()
	g.Mute(holder, false)
}

// marks waits until the next holder has marked the file. On a busy machine, it may lose
// its own session before that. Then marks starts another one.
func (g *rig) marks(next *eventstest.Process) {
	g.t.Helper()
	const most = 10
	for n := 1; ; n++ {
		switch code := next.ExitCode(); {
		case code == 0:
			return
		case code != codeLost || n == most:
			g.t.Fatalf("the next holder ends with %d at try %d, want 0", code, n)
		}
		next = g.begin("run " + lockPath + " -- part mark FILE")
	}
}

// alone checks that the next holder's line in the file follows the last one of the work.
func (g *rig) alone() {
	g.t.Helper()
	text, err := os.ReadFile(g.file)
	eventstest.Must(g.t, err)
	before, after, next := strings.Cut(string(text), "next\n")
	eventstest.Expect(g.t, before != "" && next,
		"the file has no line of the work, or none of the next holder, want both: %.40q", text)
	eventstest.Expect(g.t, after == "",
		"the work went on for %d lines beside the next holder, want none", strings.Count(after, "\n"))
}

// prints checks whether the text contains the part.
func prints(t *testing.T, text, part string, want bool) {
	t.Helper()
	got := strings.Contains(text, part)
	eventstest.Expect(t, got == want, "%q is printed: %t, want %t, in\n%s", part, got, want, text)
}

// lives checks that none of the processes has ended.
func lives(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		eventstest.Expect(t, !gone(t, pid), "process %d was ended, want it to work on", pid)
	}
}

// gone reports whether the process has ended. A zombie counts as ended.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	state := processState(t, pid)
	return state == "" || strings.HasPrefix(state, "Z")
}

func halted(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		stopped := func() bool { return strings.HasPrefix(processState(t, pid), "T") }
		eventstest.Eventually(t, "the process is halted", stopped)
	}
}

// processState returns the state of a process according to ps: T if halted, Z for a
// zombie, empty if there is none.
func processState(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if !errors.As(err, new(*exec.ExitError)) { // the process exists
		eventstest.Must(t, err)
	}
	return strings.TrimSpace(string(out))
}

// childOf returns the only child of a process, which for zkgrant is the supervisor.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	children := childrenOf(t, pid)
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v, want one", pid, children)
	}
	return children[0]
}

// childrenOf returns the children of a process, including zombies.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	eventstest.Must(t, err)
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	eventstest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// writeProgram writes an executable file. It blocks forks meanwhile: a forked process
// would keep the file open for writing, and the file could not be run (ETXTBSY).
func writeProgram(t *testing.T, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	eventstest.Must(t, os.WriteFile(path, text, 0o700)) //nolint:gosec // a program
}
