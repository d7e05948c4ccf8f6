//go:build unix

package main

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The command ends because zkgrant was asked to end it, and another process of its family works
// on. The family is dead before the next holder starts.
func TestTheGroupOutlivesTheCommandThatIsEnded(t *testing.T) {
	t.Parallel()
	for _, part := range leaders() {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			outlivesAnEnd(t, part)
		})
	}
}

func outlivesAnEnd(t *testing.T, part string) {
	for name, end := range map[string]func(*testing.T, *eventstest.Process, *zktest.Server){
		"TERM": func(_ *testing.T, run *eventstest.Process, _ *zktest.Server) { run.Send(syscall.SIGTERM) },
		"revocation": func(t *testing.T, _ *eventstest.Process, s *zktest.Server) {
			begin(t, "", "revoke", "--servers", s.Addr(), lockPath)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
			file := filepath.Join(t.TempDir(), "work")
			run := begin(t, "", append(brief(server, "--revocable", lockPath), commandLine(part, file, "deaf")...)...)
			ready(t, run, "command")
			next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
			next.Await(t, "1 ahead", 1)
			end(t, run, server)
			run.Exits(0) // the command's own
			next.Exits(0)
			alone(t, file)
		})
	}
}

// The command ends by itself, and another process of its family works on. The lock is held until
// that has ended, too, and nothing is killed. After a session timeout a line names the process.
func TestTheLockIsHeldForTheWholeGroup(t *testing.T) {
	t.Parallel()
	for _, part := range leaders() {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			outlives(t, part)
		})
	}
}

func outlives(t *testing.T, part string) {
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	file := filepath.Join(t.TempDir(), "work")
	run := begin(t, "", append(brief(server, lockPath), commandLine(part, file, "obedient", "7")...)...)
	pid := ready(t, run, "command")
	next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
	next.Await(t, "1 ahead", 1)
	run.Await(t, "the command has ended, and /locks/run is held for process", 1)
	if _, ok := processStat(pid); ok {
		run.Must(t, "is held for process "+strconv.Itoa(pid)+", which it has left behind")
	}
	if gone(t, pid) {
		t.Error("the process that outlives the command was ended, want it to work on")
	}
	eventstest.Check(t, syscall.Kill(pid, syscall.SIGTERM))
	run.Exits(7)
	next.Exits(0)
	alone(t, file)
}

// With --release-on-exit the lock is given back when the command itself has ended, and others
// of its group go on.
func TestReleaseOnExit(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	file := filepath.Join(t.TempDir(), "work")
	run := locked(t, server, []string{"--release-on-exit"}, "leader", file, "obedient", "7")
	pid := ready(t, run, "command")
	run.Await(t, "gave /locks/run back", 1)
	if gone(t, pid) {
		t.Error("the process that outlives the command was ended, want it to work on")
	}
	nodes(t, server, 0, "when the command has ended")
	eventstest.Check(t, syscall.Kill(pid, syscall.SIGTERM))
	run.Exits(7)
}
