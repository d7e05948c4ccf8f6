package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// During init, the main goroutine still runs on the first thread.
func init() { //nolint:gochecknoinits // there is no other moment
	if slices.Contains(os.Args, "headless") {
		runtime.LockOSThread()
	}
}

// endFirstThread ends the process's first thread. The other threads continue.
func endFirstThread() { _, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) }

// needsRoot skips a test that runs programs as other users or in other namespaces, unless
// it runs as root.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("other users and namespaces need root: run the tests as root, as in a container")
	}
}

// isolated is command in a new PID namespace: as process 1, or below an init, as in a
// container.
func (g *rig) isolated(where, line string, more ...string) *exec.Cmd {
	needsRoot(g.t)
	if where == "below-init" {
		init := g.shell(`"$@" & trap 'kill -TERM $!' TERM; `+
			`while kill -0 $! 2> /dev/null; do wait $!; done`, line, more...)
		return g.command("unshare --pid --fork --kill-child --mount-proc", init.Args...)
	}
	cmd := g.shell(`mount -t proc proc /proc && exec "$@"`, line, more...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// As PID 1 and below an init, run forwards TERM, and if it is killed, its command is dead
// before the next holder starts. As PID 1 of a namespace, a process ignores signals that
// it has no handler for, except KILL from outside.
func TestInAContainer(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	zkgrants := func(sig syscall.Signal) func(*rig, *situated) {
		return func(g *rig, run *situated) {
			inside := childOf(g.t, run.Pid())
			if sig == syscall.SIGKILL { // not the init, whose end would kill zkgrant, too
				inside = childOf(g.t, inside)
			}
			eventstest.Check(g.t, syscall.Kill(inside, sig))
		}
	}
	const deaf = "part leader FILE deaf"
	together(t, []ending{
		{name: "PID 1, TERM", where: "process-1", command: deaf, end: sends(syscall.SIGTERM)},
		{name: "PID 1, KILL", where: "process-1", command: deaf, end: sends(syscall.SIGKILL), code: codeSignal + int(syscall.SIGKILL)},
		{name: "--init, TERM", where: "below-init", command: deaf, end: zkgrants(syscall.SIGTERM)},
		{name: "--init, KILL", where: "below-init", command: deaf, end: zkgrants(syscall.SIGKILL),
			code: codeSignal + int(syscall.SIGKILL)},
		{name: "an init in the group, and a loss", end: mute, code: codeLost, command: `sh -c ` +
			`'unshare --pid --fork sh -c "echo command \$\$ ready; while :; do echo work; done >> FILE"; true'`},
	}, ending.comes)
}

// The supervisor reaps what its command leaves behind. As process 1, zkgrant reaps all
// other orphans: here the daemons of the first command, whose supervisor has ended.
func TestProcess1Reaps(t *testing.T) {
	const daemons = 8
	g := double(parallel(t))
	elect := g.situate("process-1", "elect --again -v --shell "+lockPath+" --",
		`for n in 1 2 3 4 5 6 7 8; do (true &); (setsid sleep 600 &); done; echo command $$ ready; exec sleep 600`)
	g.pid(elect.Process, "command")
	supervisor := childOf(t, elect.Pid())
	name := func(pid int) string {
		out, _ := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output() // it may have ended
		return strings.TrimSpace(string(out))
	}
	eventstest.Eventually(t, "the supervisor has no zombies, and each daemon has left the session", func() bool {
		children := childrenOf(t, supervisor)
		others := func(pid int) bool { return name(pid) != "sleep" }
		return len(children) == daemons+1 && !slices.ContainsFunc(children, others)
	})
	g.expire()
	elect.Await(t, "ready", 2)
	left := func() []int { return childrenOf(t, elect.Pid()) }
	eventstest.Eventually(t, "the first supervisor has left its orphans", func() bool { return len(left()) == daemons+1 })
	for _, pid := range left() {
		if name(pid) == "sleep" {
			eventstest.Check(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	eventstest.Eventually(t, "the orphans are reaped", func() bool { return len(left()) == 1 })
	g.stop(elect.Process, syscall.SIGTERM, codeSignal+int(syscall.SIGTERM))
}

// A zombie in the group does not count as alive, although its parent has left the group
// and never waits for it. So the lock is released, and a loss does not use up the whole
// grace.
func TestAZombieInTheGroup(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	const zombie = `(true & exec setsid sleep 60 > /dev/null 2>&1) & ` +
		`until [ "$(ps -o sid= -p $!)" -eq $! ] && ps -A -o pgid= -o stat= | grep -q "^ *$$ *Z"; do :; done; echo left $! ready; `
	for _, where := range []string{"process-1", "job"} {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, waits %t", where, waits), func(t *testing.T) {
				t.Parallel()
				g, script := double(t, zktest.Tick(5*time.Second)), zombie
				if waits {
					script += "echo command $$ ready; sleep 600"
				}
				run := g.situate(where, "run --session-timeout 40s --grace 10s --shell "+lockPath+" --", script)
				deserter := g.pid(run.Process, "left")
				if where == "job" {
					defer func() { eventstest.Check(t, syscall.Kill(deserter, syscall.SIGKILL)) }()
				}
				if !waits {
					run.Exits(0)
					return
				}
				g.pid(run.Process, "command")
				began := time.Now()
				g.expire()
				over(t, run.Process, codeLost, "LOST")
				took := time.Since(began)
				eventstest.Expect(t, took < grace, "the loss took %v, want less than the grace", took)
			})
		}
	}
}

// hiding is command after the shell line hides, which may hide parts of the system from
// it. The test is skipped if that is not permitted.
func (g *rig) hiding(hides, line string) *exec.Cmd {
	g.t.Helper()
	in := func(line string) *exec.Cmd {
		unshare := "unshare -m"
		if os.Getuid() != 0 {
			unshare += " -r"
		}
		return g.command(unshare, g.shell("mount --make-rprivate / && "+hides+` && exec "$@"`, line).Args...)
	}
	if out, err := in("true").CombinedOutput(); err != nil {
		g.t.Skipf("no part of the system can be hidden here: %v, %s", err, out)
	}
	return in(line)
}

// Without /proc, zkgrant finds its program by its path, or by its name in PATH. If it
// cannot, the message is about zkgrant, not about the command. Without name servers an
// address works, and the message says why a name does not. With a low limit of open
// files, the pipes to the supervisor get descriptors below it.
func TestWithLess(t *testing.T) {
	g := double(parallel(t))
	const noProc, noDNS = "mount -t tmpfs none /proc", "mount -t tmpfs none /etc"
	const run = " run " + lockPath + " -- part exit 3"
	unnamed := ` bash -c 'exec -a zkgrant-that-is-not-there "$0" "$@"' `
	for _, test := range []struct {
		cmd  *exec.Cmd
		code int
		says string
	}{
		{g.hiding(noProc, program+run), 3, ""},
		{g.hiding(noProc, "zkgrant"+run), 3, ""},
		{g.hiding(noProc, "zkgrant doctor "+lockPath), 0, ""},
		{g.hiding(noProc, unnamed+program+run), codeFailed, "zkgrant cannot find its own program without /proc"},
		{g.hiding(noDNS, "zkgrant"+run), 3, ""},
		{g.hiding(noDNS, "zkgrant run --servers zk.example:2181 --wait 1s "+lockPath+" -- true"), codeFailed,
			"no name server is configured: open /etc/resolv.conf: no such file or directory"},
		{g.shell(`ulimit -n 40; exec "$@"`, "zkgrant"+run), 3, ""},
	} {
		p := eventstest.Begin(t, test.cmd)
		over(t, p, test.code, test.says)
	}
}
