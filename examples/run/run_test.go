//go:build unix

package main

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// The command's exit code is run's, whatever it is.
func TestExitCodeOfTheCommand(t *testing.T) {
	server := zktest.Start(t)
	for _, code := range []int{0, 1, 7, 122, 123, 255} {
		run := locked(t, server, nil, "exit", strconv.Itoa(code))
		run.Exits(code)
		nodes(t, server, 0, "when run has ended")
		if strings.Contains(run.String(), "LOST") {
			t.Errorf("a command that ends says that the lock was lost, want no loss:\n%s", run)
		}
	}
}

// Standard input, arguments and the token reach the command.
func TestWhatTheCommandGets(t *testing.T) {
	line := append([]string{"-zk", zktest.Start(t).Addr(), lockPath}, commandLine("echo", "one", "-two", "--")...)
	run := begin(t, "from elsewhere", line...)
	run.Exits(0)
	run.Must(t, "arguments one+-two+--, input from elsewhere, path "+lockPath+", token ")
	if run.Count("token \n") > 0 {
		t.Errorf("the command got no token, want one:\n%s", run)
	}
}

// A command that is killed makes run end with 128 and the signal's number, as a
// shell would.
func TestCommandIsKilled(t *testing.T) {
	run := locked(t, zktest.Start(t), nil, "wait")
	if err := syscall.Kill(ready(t, run, "command"), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	run.Exits(codeSignal + int(syscall.SIGKILL))
}

// Signals reach the command, and it decides what comes of them.
func TestSignalsArePassedOn(t *testing.T) {
	server := zktest.Start(t)
	run := locked(t, server, nil, "family")
	ready(t, run, "child")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		run.Send(sig)
		run.Await(t, "command got "+sig.String(), 1)
		run.Await(t, "child got "+sig.String(), 1)
	}
	nodes(t, server, 1, "while the command runs")
	run.Send(syscall.SIGUSR2) // ends both
	run.Exits(5)
	run.Must(t, "child got "+syscall.SIGUSR2.String())
	nodes(t, server, 0, "when run has ended")
}

// The second waits for the first, or does not, as it is told.
func TestSomebodyElseHasIt(t *testing.T) {
	server := zktest.Start(t)
	first := locked(t, server, nil, "wait")
	ready(t, first, "command")

	locked(t, server, []string{"-try"}, "exit", "0").Exits(codeTaken)
	locked(t, server, []string{"-max-wait", "2s"}, "exit", "0").Exits(codeTaken)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		waiting := locked(t, server, nil, "exit", "0")
		waiting.Await(t, "1 ahead", 1)
		waiting.Send(syscall.SIGWINCH) // means nothing to one who waits
		waiting.Send(sig)
		waiting.Exits(codeSignal + int(sig))
		nodes(t, server, 1, "when a waiter has got "+sig.String())
	}

	second := locked(t, server, []string{"-max-wait", "1m"}, "exit", "3")
	second.Await(t, "1 ahead", 1)
	first.Send(syscall.SIGTERM)
	first.Exits(0)
	second.Exits(3)
}

func TestWhatCannotRun(t *testing.T) {
	server := zktest.Start(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbled := filepath.Join(t.TempDir(), "garbled")
	if err := os.WriteFile(garbled, []byte("\x00no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	nothing := commandLine("exit", "0")
	for _, test := range []struct {
		name string
		args []string
		code int
		word string
	}{
		{"not found", []string{"-zk", server.Addr(), lockPath, "--", "no-such-command"}, codeNotFound, "not found"},
		{"not there", []string{"-zk", server.Addr(), lockPath, "--", "/no/such/command"}, codeNotFound, "no such file"},
		{"not executable", []string{"-zk", server.Addr(), lockPath, "--", plain}, codeNoStart, "permission denied"},
		{"no format that is known", []string{"-zk", server.Addr(), lockPath, "--", garbled}, codeNoStart, "exec format"},
		{"no arguments", nil, codeFailed, "usage"},
		{"no command", []string{lockPath, "--"}, codeFailed, "usage"},
		{"no dashes", []string{lockPath, "exit", "0"}, codeFailed, "usage"},
		{"unknown flag", append([]string{"-nosuchflag", lockPath}, nothing...), codeFailed, "nosuchflag"},
		{"no servers", append([]string{lockPath}, nothing...), codeFailed, "name the ZooKeeper servers with -zk"},
		{"servers that are none", append([]string{"-zk", "", lockPath}, nothing...), codeFailed, "name the ZooKeeper servers with -zk"},
		{"grace before now", append([]string{"-grace", "-1s", lockPath}, nothing...), codeFailed, "usage"},
		{"help", []string{"-h"}, 0, "usage"},
		{"no path", append([]string{"-zk", server.Addr(), "locks"}, nothing...), codeFailed, "path"},
		{"no list of servers", append([]string{"-zk", "host:none", lockPath}, nothing...), codeFailed, "malformed"},
		{"no server", append([]string{"-zk", "127.0.0.1:1", "-max-wait", "100ms", lockPath}, nothing...), codeFailed, "connecting"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := begin(t, "", test.args...)
			run.Exits(test.code)
			run.Must(t, test.word)
		})
	}
	nodes(t, server, 0, "when run has ended")
}

// A run that waits for a server can be stopped, too.
func TestInterruptedWhileConnecting(t *testing.T) {
	server := zktest.Start(t)
	server.MuteAll(true)
	run := locked(t, server, nil, "exit", "0")
	eventstest.Eventually(t, "there is a connection", func() bool { return server.Connections() > 0 })
	run.Send(syscall.SIGTERM)
	run.Exits(codeSignal + int(syscall.SIGTERM))
}

// KILL gives run no time to end its command; the kernel does.
func TestRunIsKilled(t *testing.T) {
	if !diesWithParent {
		t.Skip("this system does not end a process with its parent")
	}
	run := locked(t, zktest.Start(t), nil, "stubborn")
	pid := ready(t, run, "command")
	run.Send(syscall.SIGKILL)
	eventstest.Eventually(t, "the command is gone", func() bool { return gone(t, pid) })
}

func TestRealServer(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	stagetest.MakeRoot(t, e.Connect(), path.Dir(lockPath))
	t.Run("one after the other", func(t *testing.T) { testRealRun(t, e.Connect()) })
	t.Run("loss", func(t *testing.T) { testRealLoss(t, e) })
}

// Two runs of the program hold the lock one after the other.
func testRealRun(t *testing.T, servers string) {
	t.Helper()
	first := begin(t, "", append([]string{"-v", "-zk", servers, lockPath}, commandLine("wait")...)...)
	ready(t, first, "command")
	second := begin(t, "", append([]string{"-v", "-zk", servers, lockPath}, commandLine("exit", "3")...)...)
	second.Await(t, "1 ahead", 1)
	first.Send(syscall.SIGTERM)
	first.Exits(0)
	second.Exits(3)
	if left := stagetest.Ephemerals(t, servers, path.Dir(lockPath)); len(left) > 0 {
		t.Errorf("left behind: %v, want no node of a session", left)
	}
}
