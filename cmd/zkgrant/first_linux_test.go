package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// first returns a command that is process 1 of a PID namespace.
func first(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	needsRoot(t)
	cmd := exec.Command("sh", append([]string{"-c", `mount -t proc proc /proc && exec "$@"`, "sh", program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// The supervisor reaps what its command leaves behind. As process 1 zkgrant reaps what nobody else
// does: here the daemons of the first command, whose supervisor has ended.
func TestProcess1Reaps(t *testing.T) {
	t.Parallel()
	const daemons = 8
	server := zktest.Start(t)
	elect := eventstest.Begin(t, first(t, "elect", "--again", "-v", "--servers", server.Addr(), "--shell", lockPath, "--",
		`for n in 1 2 3 4 5 6 7 8; do (true &); (setsid sleep 600 &); done; echo command $$ ready; exec sleep 600`))
	ready(t, elect, "command")
	supervisor := childOf(t, elect.Pid())
	eventstest.Eventually(t, "the supervisor has no zombies, and each daemon has left the session", func() bool {
		children := childrenOf(t, supervisor)
		return len(children) == daemons+1 && !slices.ContainsFunc(children, func(pid int) bool { return nameOf(t, pid) != "sleep" })
	})
	expire(t, server)
	elect.Await(t, "ready", 2)
	left := func() (pids []int) { return childrenOf(t, elect.Pid()) }
	eventstest.Eventually(t, "the first supervisor has left its orphans", func() bool { return len(left()) == daemons+1 })
	for _, pid := range left() {
		if name := nameOf(t, pid); name == "sleep" {
			eventstest.Check(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	eventstest.Eventually(t, "the orphans are reaped", func() bool { return len(left()) == 1 })
	elect.Send(syscall.SIGTERM)
	elect.Exits(codeSignal + int(syscall.SIGTERM))
}

// A zombie in the group does not count as alive, so that a loss does not take the whole grace.
func TestALossBesideZombies(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	for name, start := range map[string]func(*testing.T, ...string) *exec.Cmd{
		"process 1":     first,
		"not process 1": func(_ *testing.T, args ...string) *exec.Cmd { return exec.Command(program, args...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t, zktest.Tick(5*time.Second))
			args := append([]string{"run", "-v", "--session-timeout", "40s", "--grace", grace.String(), "--servers", server.Addr(), lockPath}, commandLine("zombie", "waits")...)
			run := eventstest.Begin(t, start(t, args...))
			ready(t, run, "command")
			began := time.Now()
			expire(t, server)
			run.Exits(codeLost)
			if took := time.Since(began); took >= grace {
				t.Errorf("the loss took %v, want less than the grace of %v", took, grace)
			}
			if said := run.String(); !strings.Contains(said, "LOST") {
				t.Errorf("it said\n%s\nwant LOST", said)
			}
		})
	}
}
