//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockPath = "/locks/run"

// begin runs the program until it ends, or the test does.
func begin(t *testing.T, stdin string, args ...string) *eventstest.Process {
	t.Helper()
	return beginWith(t, strings.NewReader(stdin), nil, args...)
}

// beginWith is begin with additions to the environment.
func beginWith(t *testing.T, stdin io.Reader, environment []string, args ...string) *eventstest.Process {
	t.Helper()
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), environment...)
	command.Stdin = stdin
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a job, as of a shell, which would continue it
	return eventstest.Begin(t, command)
}

// locked is begin with the servers' address and the lock before a command with a part to play.
func locked(t *testing.T, server *zktest.Server, flags []string, part string, args ...string) *eventstest.Process {
	t.Helper()
	line := append([]string{"run", "-v", "--servers", server.Addr()}, flags...)
	return begin(t, "", append(append(line, lockPath), commandLine(part, args...)...)...)
}

// ready waits until the named part is played, and returns its process ID.
func ready(t *testing.T, p *eventstest.Process, name string) int {
	t.Helper()
	pattern := regexp.MustCompile(name + ` (\d+) ready`)
	var pid int
	eventstest.Eventually(t, name+" is ready", func() bool {
		found := pattern.FindStringSubmatch(p.String())
		if found == nil {
			return false
		}
		var err error
		pid, err = strconv.Atoi(found[1])
		return err == nil
	})
	return pid
}

// nodes checks how many nodes the lock has.
func nodes(t *testing.T, server *zktest.Server, want int, when string) {
	t.Helper()
	if got := server.Children(lockPath); len(got) != want {
		t.Errorf("%s the lock has the nodes %v, want %d", when, got, want)
	}
}

// gone tells whether the process has ended. A zombie has, too.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	state, err := processState(pid)
	if err != nil {
		t.Fatal(err)
	}
	return state == "" || strings.HasPrefix(state, "Z")
}

// processState is the state of a process, by ps: T if it is halted, Z for a zombie, empty if there is none.
func processState(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) { // there is no process
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking ps for a process's state: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// writeProgram writes a file that is to be run. A process that is forked meanwhile would have it
// open for writing, and then it cannot be run.
func writeProgram(t *testing.T, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	eventstest.Must(t, os.WriteFile(path, text, 0o700)) //nolint:gosec // a program
}
