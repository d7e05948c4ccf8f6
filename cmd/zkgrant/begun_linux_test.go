package main

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// limited sets a resource limit on the waiting zkgrant.
func limited(resource int, most uint64) func(*rig, int, string) {
	return func(g *rig, pid int, _ string) {
		g.t.Helper()
		eventstest.Must(g.t, unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil))
	}
}

// noMoreProcesses sets the limit as the user who runs the program, since no other user
// may.
func noMoreProcesses(g *rig, pid int, _ string) {
	if out, err := g.command("prlimit --nproc=0 --pid " + strconv.Itoa(pid)).CombinedOutput(); err != nil {
		g.t.Skipf("%v: %s", err, out)
	}
}

// Each limit that can keep zkgrant from starting its supervisor, or the supervisor from
// starting.
func TestACommandThatALimitKeepsFromBeginning(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	doNotBegin(t, map[string]unbegun{
		"too many files": {then: limited(unix.RLIMIT_NOFILE, 4), code: codeFailed, word: "too many open files"},
		"too many processes": {
			nobody: true, then: noMoreProcesses, code: codeFailed, word: "resource temporarily unavailable", fatal: true,
		},
		"too many arguments": {
			args: []string{long, long}, then: limited(unix.RLIMIT_STACK, 64<<10),
			code: codeNoStart, word: "argument list too long",
		},
		"no memory": {
			then: limited(unix.RLIMIT_AS, 4<<20),
			code: codeFailed, word: "ended before it started the command", fatal: true,
		},
	})
}
