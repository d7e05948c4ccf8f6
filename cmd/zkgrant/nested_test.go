//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A run inside a run that would wait for itself is refused at once. The outer one, and a run
// between the two, are found by the environment.
func TestARunInsideARun(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	const itself = "would wait for itself"
	for outer, inner := range map[string]map[string]int{
		"run /a": {
			"run /a": codeFailed, "run --wait 1m /a": codeFailed, "run /b /a": codeFailed, "elect /a": codeFailed, "run -k write /a": codeFailed,
			"run --try /a": codeTaken, "run /c": 0, "run /c -- zkgrant run /a": codeFailed, "run /c -- zkgrant run /d": 0,
		},
		"run /a /b":           {"run /b": codeFailed, "run /c": 0},
		"run -k read /r":      {"run -k read /r": 0, "run -k write /r": codeFailed, "run /c -- zkgrant run -k write /r": codeFailed},
		"run -k write /r":     {"run -k read /r": codeFailed},
		"run -k unfair /u":    {"run -k unfair /u": codeFailed},
		"elect /e":            {"elect /e": codeFailed},
		"run --size 2 /s":     {"run --size 2 /s": 0, "run --size 2 --permits 2 /s": codeFailed, "run --size 2 /s -- zkgrant run --size 2 /s": codeFailed},
		"run --as-kazoo /kaz": {"run --as-kazoo /kaz": codeFailed},
	} {
		t.Run(outer, func(t *testing.T) {
			t.Parallel()
			for inner, code := range inner {
				if !strings.Contains(inner, "-- ") {
					inner += " --"
				} else {
					inner = strings.ReplaceAll(inner, "zkgrant", program) + " --"
				}
				line := append(strings.Fields(outer), "--", program)
				line = append(append(line, strings.Fields(inner)...), "true")
				run := beginWith(t, nil, []string{"ZKGRANT_SERVERS=" + server.Addr()}, line...)
				run.Exits(code)
				if got := strings.Contains(run.String(), itself); got != (code == codeFailed) {
					t.Errorf("%s inside of %s says %q, want that it %s: %t", inner, outer, run, itself, code == codeFailed)
				}
			}
		})
	}
}

// Variables of an outer zkgrant that is gone refuse nothing. The present holder does not matter.
func TestStaleVariablesRefuseNothing(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	holder := locked(t, server, nil, "wait")
	ready(t, holder, "command")
	stale := []string{
		"ZKGRANT_PATH=" + lockPath, "ZKGRANT_NODE=" + lockPath + "/_c_00000000-0000-0000-0000-000000000000-lock-0000000000",
		"ZKGRANT_SESSION=" + sessionID(owner(t, server)),
	}
	waiter := beginWith(t, nil, stale, append([]string{"run", "-v", "--servers", server.Addr(), lockPath}, commandLine("exit", "3")...)...)
	waiter.Await(t, "1 ahead", 1)
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
	waiter.Exits(3)
}

// The outer lock is lost, and its command is a zkgrant in a session of its own, as under cron. What
// the inner one runs is dead before the next holder of the inner lock starts.
func TestALossAroundAnInnerRun(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	file := filepath.Join(t.TempDir(), "work")
	inner := append(brief(server, "/locks/inner"), commandLine("leader", file, "deaf")...)
	cmd := exec.Command(program, append(brief(server, lockPath, "--", program), inner...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	run := eventstest.Begin(t, cmd)
	ends(t, ready(t, run, "command"))
	next := begin(t, "", append(brief(server, "-v", "/locks/inner"), commandLine("mark", file)...)...)
	next.Await(t, "1 ahead", 1)
	server.Mute(owner(t, server), true)
	run.Exits(codeLost)
	next.Exits(0)
	alone(t, file)
}

// A signal reaches the command of an inner run once, by that one.
func TestASignalThroughAnInnerRun(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	inner := append([]string{"run", "--servers", server.Addr(), "/locks/inner"}, commandLine("wait")...)
	run := begin(t, "", append([]string{"run", "--servers", server.Addr(), lockPath, "--", program}, inner...)...)
	ready(t, run, "command")
	const rounds = 5 // two of a kind that come together are one
	for n := range rounds {
		run.Send(syscall.SIGUSR1)
		run.Await(t, "got user defined signal 1", n+1)
	}
	run.Send(syscall.SIGUSR2)
	run.Exits(5)
	if got := strings.Count(run.String(), "got user defined signal 1"); got != rounds {
		t.Errorf("the inner command got USR1 %d times, want %d:\n%s", got, rounds, run)
	}
}
