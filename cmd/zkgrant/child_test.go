//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// begun starts a command with a part to play, which ends with the test.
func begun(t *testing.T, part string, args ...string) *child {
	t.Helper()
	s := &settings{}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.console = newConsole(null, s)
	g := &child{console: s.console, orphans: new(orphans), job: standing(), line: commandLine(part, args...)[1:], asks: syscall.SIGTERM}
	if err := g.start(events.Grant{}, "mutex", terms{time.Second, time.Minute, func() time.Time { return time.Now().Add(time.Hour) }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.kill()
		eventstest.Eventually(t, "the command is dead", g.empty)
		g.dismiss()
		g.finished.Wait()
	})
	return g
}

// CONT and the loss may be ready at the same time, and select takes either.
func TestContinuedOnlyIfTheLockIsValid(t *testing.T) {
	command := begun(t, "wait")
	pid := command.family.group
	isHalted := func() bool {
		state, err := processState(pid)
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(state, "T")
	}
	command.signal(syscall.SIGSTOP)
	eventstest.Eventually(t, "the command is halted", isHalted)
	command.pass(syscall.SIGCONT, func() bool { return false })
	for range 10 { // a signal that was sent arrives at once
		if !isHalted() {
			t.Fatal("the command was let go on without the lock, want it halted")
		}
	}
	command.pass(syscall.SIGCONT, func() bool { return true })
	eventstest.Eventually(t, "the command goes on", func() bool { return !isHalted() })
}

// Whether a group is empty is known without a race with its leader's end.
func TestEmptyGroup(t *testing.T) {
	command := begun(t, "exit", "0")
	eventstest.Receive(t, command.over, "the end of the command")
	if !command.empty() {
		t.Error("the group is not empty after its only process, want it empty")
	}
	command.signal(syscall.SIGTERM) // there is no process to get it
	if command = begun(t, "stubborn"); command.empty() {
		t.Error("the group of a running command is empty, want it not empty")
	}
}

// The number of a group that has ended is another group's sooner or later. It gets no signal, and
// what the command has left behind does.
func TestTheNumberOfAGroupThatHasEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux knows what the command has left behind")
	}
	command := begun(t, "script", filepath.Join(t.TempDir(), "work"), "obedient", "0")
	eventstest.Receive(t, command.over, "the end of the command")
	var left []int
	eventstest.Eventually(t, "the command's group has ended", func() bool { left = command.left(); return !command.empty() && command.family.group == 0 })
	if len(left) != 1 {
		t.Fatalf("left behind are %v, want one process", left)
	}
	if !command.signal(syscall.SIGTERM) {
		t.Error("TERM does not reach what the command has left behind")
	}
	eventstest.Eventually(t, "it has ended", func() bool { return gone(t, left[0]) })
	eventstest.Eventually(t, "nothing is left", command.empty)
}
