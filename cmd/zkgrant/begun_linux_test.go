package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// limited sets a limit of the process that waits.
func limited(resource int, most uint64) func(*testing.T, int, string, string) {
	return func(t *testing.T, pid int, _, _ string) {
		t.Helper()
		eventstest.Must(t, unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil))
	}
}

// nobody is a user whose processes are limited, if this one's are not.
func nobody() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	const id = 65534
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
}

// asNobody runs the program as nobody.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	attr := nobody()
	if attr == nil {
		return
	}
	folder, err := os.MkdirTemp("", "nobody") //nolint:usetesting // nobody cannot enter that of t
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, os.RemoveAll(folder)) })
	for _, name := range []string{"program", "command"} {
		text, err := os.ReadFile(map[string]string{"program": program, "command": filepath.Join(cmd.Dir, "command")}[name])
		eventstest.Must(t, err)
		writeProgram(t, filepath.Join(folder, name), text)
		eventstest.Must(t, os.Chown(filepath.Join(folder, name), int(attr.Credential.Uid), int(attr.Credential.Gid)))
	}
	eventstest.Must(t, os.Chmod(folder, 0o755))
	cmd.Path, cmd.Dir, cmd.SysProcAttr = filepath.Join(folder, "program"), folder, attr
}

// noMoreProcesses sets the limit as the user who runs the program: another one may not.
func noMoreProcesses(t *testing.T, pid int, _, _ string) {
	t.Helper()
	cmd := exec.Command("prlimit", "--nproc=0", "--pid", strconv.Itoa(pid))
	cmd.SysProcAttr = nobody()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
}

// Each limit that can keep zkgrant from starting its supervisor, or that from starting.
func TestACommandThatALimitKeepsFromBeginning(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	doNotBegin(t, map[string]unbegun{
		"too many files":     {then: limited(unix.RLIMIT_NOFILE, 4), code: codeFailed, word: "too many open files"},
		"too many processes": {as: asNobody, then: noMoreProcesses, code: codeFailed, word: "resource temporarily unavailable", fatal: true},
		"too many arguments": {args: []string{long, long}, then: limited(unix.RLIMIT_STACK, 64<<10), code: codeNoStart, word: "argument list too long"},
		"no memory":          {then: limited(unix.RLIMIT_AS, 4<<20), code: codeFailed, word: "ended before it started the command", fatal: true},
	})
}
