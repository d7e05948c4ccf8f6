//go:build unix

package main

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// zkgrant is killed, or halted. Its command has a child that ignores TERM, and
// both are dead before the next holder starts.
func TestTheWrapperIsKilledOrHalted(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "halted": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const together = 5
			for rounds := range eventstest.Amount(1, 10) {
				var checks []func()
				for n := range together {
					part := leaders()[n%len(leaders())]
					server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
					file := filepath.Join(t.TempDir(), "work")
					run := begin(t, "", append(brief(server, lockPath), commandLine(part, file, "deaf")...)...)
					ready(t, run, "command")
					next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
					next.Await(t, "1 ahead", 1)
					run.Send(signal)
					checks = append(checks, func() {
						next.Exits(0)
						alone(t, file)
						if signal == syscall.SIGSTOP {
							run.Send(syscall.SIGCONT)
							run.Exits(codeLost)
						}
					})
				}
				for n, check := range checks {
					if check(); t.Failed() {
						t.Fatalf("round %d, run %d of %d", rounds, n, together)
					}
				}
			}
		})
	}
}

// The supervisor is killed: the kernel kills the command, and the lock is released.
func TestTheSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	file := filepath.Join(t.TempDir(), "work")
	run := begin(t, "", append(brief(server, lockPath), commandLine("leader", file, "deaf")...)...)
	ready(t, run, "command")
	next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
	next.Await(t, "1 ahead", 1)
	eventstest.Check(t, syscall.Kill(childOf(t, run.Pid()), syscall.SIGKILL))
	run.Exits(codeFailed)
	run.Must(t, "the supervisor of the command was killed")
	next.Exits(0)
	alone(t, file)
}

// A supervisor that is halted goes on at once: otherwise nobody would hear of the command's end.
func TestTheSupervisorIsHalted(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	run := locked(t, server, nil, "wait")
	ready(t, run, "command")
	eventstest.Check(t, syscall.Kill(childOf(t, run.Pid()), syscall.SIGSTOP))
	run.Send(syscall.SIGTERM)
	run.Exits(0)
	run.Must(t, "gave /locks/run back")
}
