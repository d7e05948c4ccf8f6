//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
)

// former holds the lock with DetectCrash, in this process, until end is called, which
// makes the holder crash or release.
func (g *rig) former(options ...coordinator.AcquireOption) (held *coordinator.Acquisition, end func(crash bool)) {
	g.t.Helper()
	c := g.coordinator()
	held, err := c.Mutex(lockPath, coordinator.DetectCrash()).Hold(g.t.Context(), options...)
	eventstest.Must(g.t, err)
	return held, func(crash bool) {
		if !crash {
			held.Release()
			eventstest.Receive(g.t, held.Done(), "the release")
		}
		eventstest.Check(g.t, c.Close())
	}
}

// unbegun is a way in which the command does not run although the lock is granted.
type unbegun struct {
	args   []string // the command's arguments
	nobody bool     // run the program as a user with limits
	then   func(g *rig, pid int, command string)
	code   int
	word   string
	fatal  bool // it may kill zkgrant itself, which needs threads and memory
}

// becomes overwrites the command's program with text.
func becomes(text string) func(*rig, int, string) {
	return func(g *rig, _ int, command string) {
		g.t.Helper()
		writeProgram(g.t, command, []byte(text))
		eventstest.Must(g.t, os.Chmod(command, 0o755))
	}
}

// The lock was granted, but the command did not begin. The record of an earlier crash
// stays; without an earlier crash, no record is left.
func TestACommandThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	doNotBegin(t, map[string]unbegun{
		"the folder is gone": {
			then: func(g *rig, _ int, command string) { eventstest.Must(g.t, os.RemoveAll(filepath.Dir(command))) },
			code: codeNotFound, word: "no such file",
		},
		"not executable any more": {
			then: func(g *rig, _ int, command string) { eventstest.Must(g.t, os.Chmod(command, 0o600)) },
			code: codeNoStart, word: "permission denied",
		},
		"no format that is known": {then: becomes("\x00no program"), code: codeNoStart, word: "exec format"},
		"no interpreter":          {then: becomes("#!/no/such/interpreter\n"), code: codeNotFound, word: "no such file"},
	})
}

// A grace that does not fit into the session ends the wait, not only the Grant.
func TestAGraceThatDoesNotFitIntoTheSession(t *testing.T) {
	t.Parallel()
	g := double(t)
	_, end := g.former()
	g.ends(codeFailed, "run --session-timeout 1h --grace 12s "+lockPath+" -- true",
		"--grace 12s is not between 0 and a quarter of the session timeout of 40s") // as the servers grant it
	g.nodes(1, "while the lock is held")
	end(false)
}

func doNotBegin(t *testing.T, ways map[string]unbegun) {
	t.Helper()
	for name, way := range ways {
		for _, crash := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", after a crash"}[crash], func(t *testing.T) {
				t.Parallel()
				g := double(t)
				command := filepath.Join(t.TempDir(), "command")
				if way.nobody && os.Getuid() == 0 {
					g.asNobody()
					command = filepath.Join(g.folder, "command")
				}
				_, end := g.former()
				becomes("#!/bin/sh\necho IT RAN")(g, 0, command)
				cmd := g.command("zkgrant run -v --detect-crash "+lockPath+" -- ./command", way.args...)
				cmd.Dir = filepath.Dir(command)
				run := eventstest.Begin(t, cmd)
				run.Await(t, "1 ahead", 1)
				way.then(g, run.Pid(), command)
				end(crash)
				code := run.ExitCode()
				prints(t, run.String(), "IT RAN", false)
				if way.fatal && (code == 2 || code > codeSignal) { // zkgrant crashed, and could not clean up
					if _, left := g.Data(lockPath + ".holder"); crash && !left {
						t.Error("zkgrant has died, and the record of the earlier crash is gone")
					}
					return
				}
				eventstest.Expect(t, code == way.code, "exit code %d, want %d", code, way.code)
				run.Must(t, way.word)
				g.nodes(0, "when run has ended")
				g.record(crash)
			})
		}
	}
}

// The data of a crashed holder may be longer than an environment variable can be. The
// command runs anyway. A lock delay of 0 detects crashes, too.
func TestTheDataOfACrashIsLong(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--detect-crash", "--lock-delay 0"} {
		g := double(t)
		_, end := g.former(coordinator.Data(bytes.Repeat([]byte{1}, 500<<10)))
		end(true)
		g.ends(0, "run "+flag+" "+lockPath+" -- env", "ZKGRANT_ABANDONED={", `\u0001","cut":true}`)
	}
}

// A record that another program has written may have any time.
func TestTheTimeOfACrashIsOdd(t *testing.T) {
	t.Parallel()
	g := double(t)
	eventstest.Must(t, g.Create(lockPath+session.RecordSuffix, []byte("zkgrant holder\nnode n\nsince 2026-01-01T00:00:00+24:00\n")))
	g.ends(0, "run --detect-crash "+lockPath+" -- env", `"since":"2025-12-31T00:00:00Z"`)
}

// The kernel allows 128 KiB for a variable of the environment.
func TestTheMembersOfALargeMultiLock(t *testing.T) {
	var g events.Grant
	for i := range 40 {
		path := fmt.Sprintf("/%04000d", i)
		g.Members = append(g.Members, events.Member{Path: path, Node: path + "/lock-0000000000"})
	}
	for _, variable := range told(g, "multi") {
		name, value, _ := strings.Cut(variable, "=")
		eventstest.Expect(t, len(variable) < 128<<10, "%s has %d bytes, want less than 128 KiB", name, len(variable))
		if name == "ZKGRANT_MEMBERS" {
			n := strings.Count(value, `"path"`)
			eventstest.Expect(t, n >= 10 && n < 40 && json.Valid([]byte(value)), "%d members, valid: %v; want some", n, json.Valid([]byte(value)))
		}
	}
}

// If the supervisor exits early, its last report decides whether the command may have
// begun.
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

// A supervisor that was halted past the end of the lease starts nothing.
func TestASupervisorThatIsLate(t *testing.T) {
	t.Parallel()
	control, theirs := pipe(t)
	reports, reported, err := os.Pipe()
	eventstest.Must(t, err)
	order := orders{control: 3, report: 4, timeout: time.Second}.String()
	cmd := exec.Command(program, supervisorMark, order, "/bin/true", "true")
	cmd.ExtraFiles = []*os.File{control, reported}
	supervisor := eventstest.Begin(t, cmd)
	eventstest.Must(t, binary.Write(theirs, binary.NativeEndian, sinceBoot().UnixNano()))
	supervisor.Exits(0)
	eventstest.Check(t, reported.Close())
	said, err := io.ReadAll(reports)
	eventstest.Expect(t, err == nil && string(said) == "late 0\n",
		"the supervisor reports %q, %v; want that it is late, and nothing else", said, err)
	eventstest.Check(t, errors.Join(control.Close(), reports.Close()))
}

// begun starts a command, which is ended with the test.
func begun(t *testing.T, line ...string) *child {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	eventstest.Must(t, err)
	console := newConsole(null, &settings{})
	c := &child{console: console, orphans: new(orphans), job: standing(), line: line, asks: syscall.SIGTERM}
	lease := func() time.Time { return time.Now().Add(time.Hour) }
	eventstest.Must(t, c.start(events.Grant{}, "mutex", terms{time.Second, time.Minute, lease}))
	t.Cleanup(func() {
		c.kill()
		eventstest.Eventually(t, "the command is dead", c.empty)
		c.dismiss()
		c.finished.Wait()
	})
	return c
}

// CONT and the loss may be ready at the same time, and select takes either.
func TestContinuedOnlyIfTheLockIsValid(t *testing.T) {
	command := begun(t, "sleep", "600")
	pid := command.family.group
	command.signal(syscall.SIGSTOP)
	halted(t, pid)
	command.pass(syscall.SIGCONT, func() bool { return false })
	for range 10 { // a signal would have arrived by then
		if state := processState(t, pid); !strings.HasPrefix(state, "T") {
			t.Fatalf("the command was let go on without the lock, want it halted: %s", state)
		}
	}
	command.pass(syscall.SIGCONT, func() bool { return true })
	eventstest.Eventually(t, "the command goes on", func() bool {
		state := processState(t, pid)
		return state != "" && state[0] != 'T'
	})
}

// The number of an ended group may be reused, so that group gets no signal. The processes
// that the command has left behind do.
func TestTheNumberOfAGroupThatHasEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux knows what the command has left behind: run the tests on Linux")
	}
	command := begun(t, "part", "script", filepath.Join(t.TempDir(), "work"), "obedient", "0")
	eventstest.Receive(t, command.over, "the end of the command")
	var left []int
	eventstest.Eventually(t, "the command's group has ended", func() bool {
		left = command.left()
		return !command.empty() && command.family.group == 0
	})
	if len(left) != 1 {
		t.Fatalf("left behind are %v, want one process", left)
	}
	eventstest.Expect(t, command.signal(syscall.SIGTERM),
		"TERM does not reach what the command has left behind")
	eventstest.Eventually(t, "it has ended", func() bool { return gone(t, left[0]) })
	eventstest.Eventually(t, "nothing is left", command.empty)
}

// writer is an io.Writer.
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// The reader of the Grant may have done its work before hold's write has returned. The
// work has begun all the same. While a write is blocked, the Grant was not read.
func TestAPrintedGrantIsBegun(t *testing.T) {
	for took, want := range map[time.Duration]duty.End{time.Millisecond: duty.Done, time.Minute: duty.NotBegun} {
		synctest.Test(t, func(t *testing.T) {
			read := make(chan struct{})
			work := &stay{told: make(chan struct{}), out: writer(func(p []byte) (int, error) {
				close(read)
				time.Sleep(took)
				return len(p), nil
			})}
			eventstest.Must(t, work.start(events.Grant{}, "", terms{}))
			<-read
			eventstest.Equal(t, work.end(), want, "the end during a write of %v", took)
			<-work.told
		})
	}
}
