//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// former holds the lock with DetectCrash, in this process. end makes it crash, or release.
type former struct {
	c    *coordinator.Coordinator
	held *coordinator.Acquisition
}

func hasLock(t *testing.T, servers string, path string, options ...coordinator.AcquireOption) former {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers)
	eventstest.Must(t, err)
	f := former{c, c.Mutex(path, coordinator.DetectCrash()).Acquire(t.Context(), options...)}
	_, err = f.held.Wait(t.Context())
	eventstest.Must(t, err)
	return f
}

func (f former) end(t *testing.T, crash bool) {
	t.Helper()
	if !crash {
		f.held.Release()
		eventstest.Receive(t, f.held.Done(), "the release")
	}
	eventstest.Check(t, f.c.Close())
}

// unbegun is a way in which the command of a lock that is granted does not run.
type unbegun struct {
	flags []string
	args  []string // of the command
	as    func(t *testing.T, cmd *exec.Cmd)
	then  func(t *testing.T, pid int, dir, command string)
	code  int
	word  string
	fatal bool // it may end zkgrant itself, which needs threads and memory
}

// write replaces the command's program.
func write(text string) func(*testing.T, int, string, string) {
	return func(t *testing.T, _ int, _, command string) {
		t.Helper()
		writeProgram(t, command, []byte(text))
	}
}

func waysNotToBegin() map[string]unbegun {
	return map[string]unbegun{
		"not found after the wait": {
			then: func(t *testing.T, _ int, _, command string) { eventstest.Must(t, os.Remove(command)) },
			code: codeNotFound, word: "no such file",
		},
		"the folder is gone": {
			then: func(t *testing.T, _ int, dir, _ string) { eventstest.Must(t, os.RemoveAll(dir)) },
			code: codeNotFound, word: "no such file",
		},
		"not executable any more": {
			then: func(t *testing.T, _ int, _, command string) { eventstest.Must(t, os.Chmod(command, 0o600)) },
			code: codeNoStart, word: "permission denied",
		},
		"no format that is known": {then: write("\x00no program"), code: codeNoStart, word: "exec format"},
		"no interpreter":          {then: write("#!/no/such/interpreter\n"), code: codeNotFound, word: "no such file"},
		"a grace that does not fit into the session": {
			flags: []string{"--session-timeout", "1h", "--grace", "12s"}, // the servers grant 40 s
			code:  codeFailed, word: "a quarter of the session timeout",
		},
	}
}

// The lock was granted, and the command did not begin. The record of an earlier crash stays,
// and no record is left without one.
func TestACommandThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	doNotBegin(t, waysNotToBegin())
}

func doNotBegin(t *testing.T, ways map[string]unbegun) {
	t.Helper()
	for name, way := range ways {
		for _, crash := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", after a crash", false: ""}[crash], func(t *testing.T) {
				t.Parallel()
				server := zktest.Start(t)
				earlier := hasLock(t, server.Addr(), lockPath)
				dir := t.TempDir()
				command := filepath.Join(dir, "command")
				writeProgram(t, command, []byte("#!/bin/sh\necho IT RAN"))
				line := append([]string{"run", "-v", "--detect-crash", "--servers", server.Addr()}, way.flags...)
				cmd := exec.Command(program, append(append(line, lockPath, "--", "./command"), way.args...)...)
				cmd.Dir = dir
				if way.as != nil {
					way.as(t, cmd)
				}
				run := eventstest.Begin(t, cmd)
				run.Await(t, "1 ahead", 1)
				if way.then != nil {
					way.then(t, run.Pid(), dir, command)
				}
				earlier.end(t, crash)
				code := run.ExitCode()
				if strings.Contains(run.String(), "IT RAN") {
					t.Errorf("the command ran:\n%s", run)
				}
				if way.fatal && (code == 2 || code == -1) { // a crash, from which nothing can be cleaned up
					if _, left := server.Data(lockPath + ".holder"); crash && !left {
						t.Error("zkgrant has died, and the record of the earlier crash is gone")
					}
					return
				}
				if code != way.code {
					t.Errorf("exit code %d, want %d", code, way.code)
				}
				run.Must(t, way.word)
				leavesRecord(t, server, crash)
			})
		}
	}
}

// leavesRecord checks that the lock is free, and whether it has the record of a crash.
func leavesRecord(t *testing.T, server *zktest.Server, want bool) {
	t.Helper()
	nodes(t, server, 0, "when run has ended")
	if _, got := server.Data(lockPath + ".holder"); got != want {
		t.Errorf("the record of an earlier crash is there: %t, want %t", got, want)
	}
}

// What was begun and not brought to its end is a crash: a record is left.
func TestABrokenCommandLeavesARecord(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(t *testing.T, server *zktest.Server, run *eventstest.Process) int{
		"killed by a revocation": func(t *testing.T, server *zktest.Server, _ *eventstest.Process) int {
			begin(t, "", "revoke", "--servers", server.Addr(), "--grace", "300ms", lockPath)
			return codeLost
		},
		"the supervisor is killed": func(t *testing.T, _ *zktest.Server, run *eventstest.Process) int {
			p, err := os.FindProcess(childOf(t, run.Pid()))
			eventstest.Must(t, err)
			eventstest.Must(t, p.Kill())
			return codeFailed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
			file := filepath.Join(t.TempDir(), "work")
			run := begin(t, "", append(brief(server, "--revocable", "--detect-crash", lockPath), commandLine("work", file, "deaf")...)...)
			ready(t, run, "command")
			run.Exits(ends(t, server, run))
			leavesRecord(t, server, true)
		})
	}
}

// The data of a crashed holder may be longer than a variable. The command runs all the same.
func TestTheDataOfACrashIsLong(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	hasLock(t, server.Addr(), lockPath, coordinator.WithData(bytes.Repeat([]byte{1}, 500<<10))).end(t, true)
	run := locked(t, server, []string{"--detect-crash"}, "environment")
	run.Exits(0)
	run.Must(t, "ZKGRANT_ABANDONED={", `\u0001","cut":true}`)
}

// Nothing of the work of hold is done before the Grant is printed.
func TestAGrantThatHoldCannotPrint(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{true, false} {
		server := zktest.Start(t)
		hasLock(t, server.Addr(), lockPath).end(t, crash)
		in, out, err := os.Pipe()
		eventstest.Must(t, err)
		cmd := exec.Command("sh", "-c", `exec "$@" >&3 3>&-`, "sh", program, "hold", "--detect-crash", "--servers", server.Addr(), lockPath)
		cmd.Stdin, cmd.ExtraFiles = in, []*os.File{brokenPipe(t)}
		hold := eventstest.Begin(t, cmd)
		eventstest.Check(t, in.Close())
		hold.Exits(codeFailed)
		hold.Must(t, "printing the grant")
		eventstest.Check(t, out.Close())
		leavesRecord(t, server, crash)
	}
}

// What the supervisor has reported when it ends decides whether the command may have begun.
func TestASupervisorThatEndsAtTheStart(t *testing.T) {
	for said, want := range map[string]struct {
		group int
		begun bool
		code  int
	}{
		"":                        {code: codeFailed},
		"late 0\n":                {code: codeLost},
		"sta":                     {code: codeFailed},
		"starting 0\n":            {begun: true, code: codeFailed},
		"starting 0\nstarted":     {begun: true, code: codeFailed},
		"starting 0\nfailed 2\n":  {code: codeNotFound},
		"starting 0\nfailed 7\n":  {code: codeNoStart},
		"starting 0\nstarted 7\n": {group: 7},
	} {
		group, err := hearStart(bufio.NewReader(strings.NewReader(said)), "command")
		code := 0
		if end := new(exit); errors.As(err, &end) {
			code = end.code
		} else if errors.Is(err, errTooLate) {
			code = codeLost
		} else if err != nil {
			code = codeFailed
		}
		if begun := errors.As(err, new(mayHaveBegunError)); group != want.group || begun != want.begun || code != want.code {
			t.Errorf("%q: process %d, may have begun %t, code %d (%v); want %+v", said, group, begun, code, err, want)
		}
	}
}

// A supervisor that was halted until the lease is over starts nothing.
func TestASupervisorThatIsLate(t *testing.T) {
	t.Parallel()
	control, theirs, err := os.Pipe()
	eventstest.Must(t, err)
	reports, reported, err := os.Pipe()
	eventstest.Must(t, err)
	cmd := exec.Command(program, append([]string{supervisorMark, orders{control: 3, report: 4, timeout: time.Second}.String(), os.Args[0]}, commandLine("exit", "0")[1:]...)...)
	cmd.ExtraFiles = []*os.File{control, reported}
	supervisor := eventstest.Begin(t, cmd)
	eventstest.Check(t, errors.Join(control.Close(), reported.Close()))
	eventstest.Must(t, binary.Write(theirs, binary.NativeEndian, sinceBoot().UnixNano()))
	said, err := io.ReadAll(reports)
	if err != nil || string(said) != "late 0\n" {
		t.Errorf("the supervisor reports %q, %v; want that it is late, and nothing else", said, err)
	}
	supervisor.Exits(0)
	eventstest.Check(t, errors.Join(theirs.Close(), reports.Close()))
}

// The same on real servers: the command is gone when the lock is granted.
func testRealNotBegun(t *testing.T, e *ensemble.Ensemble) {
	for _, crash := range []bool{true, false} {
		earlier := hasLock(t, e.Connect(), "/unbegun", coordinator.WithData([]byte("the first")))
		command := filepath.Join(t.TempDir(), "command")
		writeProgram(t, command, []byte("#!/bin/sh"))
		run := begin(t, "", "run", "-v", "--detect-crash", "--servers", e.Connect(), "/unbegun", "--", command)
		run.Await(t, "1 ahead", 1)
		eventstest.Must(t, os.Remove(command))
		earlier.end(t, crash)
		run.Exits(codeNotFound)
		next := hasLock(t, e.Connect(), "/unbegun")
		left := next.held.Grant().Abandoned
		if got := left != nil && string(left.Data) == "the first"; got != crash || !crash && left != nil {
			t.Errorf("after a crash %t the next holder is told of %+v", crash, left)
		}
		next.end(t, false)
	}
}
