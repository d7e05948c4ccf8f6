//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The lock is held for a least time after the grant, and run ends then with the command's code.
// A process whose clock is behind finds it held.
func TestMinHold(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	began := time.Now()
	run := locked(t, server, []string{"--min-hold", "1s"}, "exit", "7")
	run.Await(t, "the command has ended, and /locks/run is held for another", 1)
	locked(t, server, []string{"--try"}, "exit", "0").Exits(codeTaken)
	run.Exits(7)
	if held := time.Since(began); held < time.Second {
		t.Errorf("run has ended after %v, want 1s at least", held)
	}
	run.Must(t, "gave /locks/run back after 1s")
	bad := locked(t, server, []string{"--min-hold", "-1s"}, "exit", "7")
	bad.Exits(codeFailed)
	bad.Must(t, "--min-hold: want a time of 0 or more")
	late := locked(t, server, []string{"--min-hold", "1ns"}, "exit", "7")
	late.Exits(7)
	if strings.Contains(late.String(), "for another") {
		t.Errorf("the least time is over, and run says %s", late)
	}
}

// TERM, a revocation and a loss cut the least time short, also if they end the command. The code
// is the command's, which has ended under the lock.
func TestMinHoldIsCutShort(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	for name, cut := range map[string]func(*testing.T, *eventstest.Process){
		"TERM": func(_ *testing.T, run *eventstest.Process) { run.Send(syscall.SIGTERM) },
		"HUP":  func(_ *testing.T, run *eventstest.Process) { run.Send(syscall.SIGHUP) },
		"QUIT": func(_ *testing.T, run *eventstest.Process) { run.Send(syscall.SIGQUIT) },
		"revocation": func(t *testing.T, _ *eventstest.Process) {
			begin(t, "", "revoke", "--servers", server.Addr(), lockPath).Exits(0)
		},
		"loss": func(t *testing.T, _ *eventstest.Process) { expire(t, server) },
		"KILL": func(_ *testing.T, run *eventstest.Process) { run.Send(syscall.SIGKILL) },
	} {
		run := locked(t, server, []string{"--min-hold", "1h", "--revocable"}, "exit", "7")
		run.Await(t, "is held for another", 1)
		cut(t, run)
		if name == "KILL" {
			run.Exits(-1)
			eventstest.Must(t, server.Expire(owner(t, server))) // the servers do it in a session timeout
			continue
		}
		run.Exits(7)
		if lost := strings.Contains(run.String(), "LOST /locks/run: session expired"); lost != (name == "loss") {
			t.Errorf("%s: it says %s, want a loss: %t", name, run, name == "loss")
		}
	}
	run := locked(t, server, []string{"--min-hold", "1h"}, "wait")
	ready(t, run, "command")
	run.Send(syscall.SIGTERM)
	run.Exits(0)
	nodes(t, server, 0, "when run has ended")
}
