package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// inContainer runs the program as in a container: as PID 1, or with an init before it.
func inContainer(t *testing.T, init bool, args ...string) *eventstest.Process {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a PID namespace needs root: run the tests as root, as in a container")
	}
	line := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if init {
		line = append(line, "sh", "-c", `"$@" & trap 'kill -TERM $!' TERM; wait $!; wait $!`, "sh")
	}
	return eventstest.Begin(t, exec.Command("unshare", append(append(line, program), args...)...))
}

// As PID 1 and below an init, run passes TERM on, and if it is killed its command is dead before
// the next holder starts.
func TestInAContainer(t *testing.T) {
	t.Parallel()
	for name, init := range map[string]bool{"PID 1": false, "--init": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
			file := filepath.Join(t.TempDir(), "work")
			p := inContainer(t, init, append(brief(server, lockPath), commandLine("leader", file, "deaf")...)...)
			ready(t, p, "command")
			run := childOf(t, p.Pid()) // PID 1
			if init {
				run = childOf(t, run)
			}
			next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
			next.Await(t, "1 ahead", 1)
			eventstest.Check(t, syscall.Kill(run, syscall.SIGKILL))
			next.Exits(0)
			alone(t, file)

			p = inContainer(t, init, append(brief(server, lockPath), commandLine("wait")...)...)
			ready(t, p, "command")
			eventstest.Check(t, syscall.Kill(childOf(t, p.Pid()), syscall.SIGTERM))
			p.Exits(0)
			p.Must(t, "command got "+syscall.SIGTERM.String())
			nodes(t, server, 0, "when the container has ended")
		})
	}
}
