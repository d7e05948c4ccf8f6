//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// run returns the command's exit code, whatever it is.
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
	line := append([]string{"run", "--servers", zktest.Start(t).Addr(), lockPath}, commandLine("echo", "one", "-two", "--")...)
	run := begin(t, "from elsewhere", line...)
	run.Exits(0)
	run.Must(t, "arguments one+-two+--, input from elsewhere, path "+lockPath+", token ")
	if run.Count("token \n") > 0 {
		t.Errorf("the command got no token, want one:\n%s", run)
	}
}

// If a signal kills the command, run ends with 128 and the signal's number, as a shell does.
func TestCommandIsKilled(t *testing.T) {
	run := locked(t, zktest.Start(t), nil, "wait")
	if err := syscall.Kill(ready(t, run, "command"), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	run.Exits(codeSignal + int(syscall.SIGKILL))
}

// Arguments may be secrets, and every client of the servers can read a node's data.
func TestArgumentsAreNotInTheNode(t *testing.T) {
	server := zktest.Start(t)
	for _, command := range [][]string{{"run"}, {"elect"}, {"run", "--shell"}} {
		line := []string{lockPath, "--", "sh", "-c", "echo command 1 ready; exec sleep 600 # secret"}
		if len(command) > 1 {
			line = []string{lockPath, "--", "echo command 1 ready; exec sleep 600 # secret"}
		}
		run := begin(t, "", append(append(command, "--servers", server.Addr()), line...)...)
		ready(t, run, "command")
		data, _ := server.Data(lockPath + "/" + server.Children(lockPath)[0])
		if want := fmt.Sprintf("pid %d: sh", run.Pid()); !strings.HasSuffix(string(data), want) {
			t.Errorf("%q: the node has %q, want it to end with %q", command, data, want)
		}
		run.Send(syscall.SIGTERM)
		run.Exits(codeSignal + int(syscall.SIGTERM))
	}
}

// Signals reach the command, which decides what to do.
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

// The second waits for the first, or does not, as the flags say.
func TestAnotherContenderHasIt(t *testing.T) {
	server := zktest.Start(t)
	first := locked(t, server, nil, "wait")
	ready(t, first, "command")

	locked(t, server, []string{"--try"}, "exit", "0").Exits(codeTaken)
	locked(t, server, []string{"--wait", "2s"}, "exit", "0").Exits(codeTaken)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		waiting := locked(t, server, nil, "exit", "0")
		waiting.Await(t, "1 ahead", 1)
		waiting.Send(syscall.SIGWINCH) // means nothing to a waiter
		waiting.Send(sig)
		waiting.Exits(codeSignal + int(sig))
		nodes(t, server, 1, "when a waiter has got "+sig.String())
	}

	second := locked(t, server, []string{"--wait", "1m"}, "exit", "3")
	second.Await(t, "1 ahead", 1)
	first.Send(syscall.SIGTERM)
	first.Exits(0)
	second.Exits(3)
}

// Without a server that answers, a try ends with the code of a failure and the cause, and never
// with the code of a lock that another process has.
func TestATryWithoutServers(t *testing.T) {
	t.Parallel()
	silent := zktest.Start(t)
	silent.MuteAll(true)
	for _, flags := range [][]string{{"--try", "--wait", "300ms"}, {"--wait", "300ms"}} {
		run := locked(t, silent, append(flags, "--conflict-code", "0"), "exit", "0")
		run.Exits(codeFailed)
		run.Must(t, "no server has answered within 300ms")
		none := begin(t, "", append(append([]string{"run", "--servers", "127.0.0.1:1", "-E", "0"}, append(flags, lockPath)...), commandLine("exit", "0")...)...)
		none.Exits(codeFailed)
		none.Must(t, "no server has answered within 300ms (", "connection refused")
	}
	if eventstest.Full() {
		for _, flag := range []string{"--try", "--wait=0"} {
			run := locked(t, silent, []string{flag, "--conflict-code", "0"}, "exit", "0")
			run.Exits(codeFailed)
			run.Must(t, "no server has answered within 10s")
		}
	}
}

// No time to wait is a try, as with flock.
func TestNoTimeToWaitIsATry(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]struct {
		most  time.Duration
		bound bool
		tries bool
	}{
		"":                  {0, false, false},
		"--try":             {10 * time.Second, true, true},
		"--wait 0":          {10 * time.Second, true, true},
		"--wait 2s":         {2 * time.Second, true, false},
		"--try --wait 2s":   {2 * time.Second, true, true},
		"--try --wait 0":    {10 * time.Second, true, true},
		"--try --wait 1m5s": {65 * time.Second, true, true},
	} {
		w, cmd := &wanted{}, &cobra.Command{}
		w.bindWait(cmd)
		eventstest.Must(t, cmd.Flags().Parse(strings.Fields(flags)))
		cmd.PreRun(cmd, nil)
		if most, bound := w.most(); most != want.most || bound != want.bound || w.tries() != want.tries {
			t.Errorf("%q: waits %v (%t), tries %t; want %+v", flags, most, bound, w.tries(), want)
		}
	}
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
		{"not found", []string{"run", "--servers", server.Addr(), lockPath, "--", "no-such-command"}, codeNotFound, "not found"},
		{"not there", []string{"run", "--servers", server.Addr(), lockPath, "--", "/no/such/command"}, codeNotFound, "no such file"},
		{"not executable", []string{"run", "--servers", server.Addr(), lockPath, "--", plain}, codeNoStart, "permission denied"},
		{"no format that is known", []string{"run", "--servers", server.Addr(), lockPath, "--", garbled}, codeNoStart, "exec format"},
		{"no command", []string{"run", lockPath, "--"}, codeFailed, "usage"},
		{"no dashes", []string{"run", lockPath, "exit", "0"}, codeFailed, "usage"},
		{"unknown command", []string{"rum"}, codeFailed, "rum"},
		{"unknown flag", append([]string{"run", "--nosuchflag", lockPath}, nothing...), codeFailed, "nosuchflag"},
		{"no servers", append([]string{"run", lockPath}, nothing...), codeFailed, "name the ZooKeeper servers with --servers"},
		{"servers that are none", append([]string{"run", "--servers", "", lockPath}, nothing...), codeFailed, "name the ZooKeeper servers with --servers"},
		{"grace before now", append([]string{"run", "--grace", "-1s", lockPath}, nothing...), codeFailed, "--grace"},
		{"no such signal", append([]string{"run", "--signal", "NONE", lockPath}, nothing...), codeFailed, "no such signal"},
		{"no such signal's number", append([]string{"run", "--signal", "99", lockPath}, nothing...), codeFailed, "no such signal"},
		{"a signal's number", append([]string{"run", "-v", "--servers", server.Addr(), "--signal", "15", lockPath}, nothing...), 0, "gave"},
		{"no such kind", append([]string{"run", "--servers", server.Addr(), "--kind", "spin", lockPath}, nothing...), codeFailed, "want mutex, read, write or unfair"},
		{"permits without a size", append([]string{"run", "--permits", "2", lockPath}, nothing...), codeFailed, "--size"},
		{"help", []string{"run", "-h"}, 0, "Usage"},
		{"no path", append([]string{"run", "--servers", server.Addr(), "locks"}, nothing...), codeFailed, "path"},
		{"no list of servers", append([]string{"run", "--servers", "host:none", lockPath}, nothing...), codeFailed, "malformed"},
		{"no server", append([]string{"run", "--servers", "127.0.0.1:1", "--wait", "100ms", lockPath}, nothing...), codeFailed, "connection refused"},
		{"no path to hold", []string{"hold"}, codeFailed, "at least 1 arg"},
		{"election with two paths", append([]string{"elect", "--servers", server.Addr(), lockPath, lockPath}, nothing...), codeFailed, "one path"},
		{"size that is none", []string{"resize", "--servers", server.Addr(), lockPath, "0"}, codeFailed, "1 or more"},
		{"no root", []string{"ls", "--servers", server.Addr(), "locks"}, codeFailed, "zkgrant: malformed path"},
		{"nothing to revoke", []string{"revoke", "--servers", server.Addr(), lockPath}, codeNotHeld, "the lock is not held"},
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
	t.Parallel()
	server := zktest.Start(t)
	server.MuteAll(true)
	run := locked(t, server, nil, "exit", "0")
	eventstest.Eventually(t, "there is a connection", func() bool { return server.Connections() > 0 })
	run.Send(syscall.SIGTERM)
	run.Exits(codeSignal + int(syscall.SIGTERM))
}

// A command that looks or steers ends with the signal's code, and says nothing of it. A revocation that was asked for stands.
func TestInterruptedWhileAsking(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	holder := locked(t, server, []string{"--revocable", "--grace", "0"}, "stubborn")
	ready(t, holder, "command")
	revoke := begin(t, "", "revoke", "-v", "--servers", server.Addr(), "--grace", "4s", lockPath)
	holder.Await(t, "is asked back", 1)
	revoke.Send(os.Interrupt)
	revoke.Exits(codeSignal + int(syscall.SIGINT))
	nodes(t, server, 1, "when the revocation was interrupted")
	holder.Exits(codeLost)
	holder.Must(t, "LOST "+lockPath+": revoked")
	if said := revoke.String(); !regexp.MustCompile(`^zkgrant: asking for /locks/run: .* at the latest\n$`).MatchString(said) {
		t.Errorf("it said %s, want when the lock is lost, and nothing of the interruption", said)
	}
}

// Curator's Revoker asks every holder. A command ends for that only if it has agreed.
func TestAskedByCurator(t *testing.T) {
	t.Parallel()
	for _, agreed := range []bool{true, false} {
		flag := "--verbose"
		if agreed {
			flag = "--revocable"
		}
		server := zktest.Start(t)
		run := locked(t, server, []string{flag}, "wait")
		ready(t, run, "command")
		node := lockPath + "/" + server.Children(lockPath)[0]
		eventstest.Must(t, server.SetData(node, []byte("__REVOKE__")))
		run.Await(t, "is asked back", 1)
		if !agreed {
			run.Send(syscall.SIGUSR1)
			run.Await(t, "command got user defined signal 1", 1) // so it runs on
			run.Send(syscall.SIGTERM)
		}
		run.Exits(0) // the command's own
	}
}

// A request that stands before the grant comes together with it, and ends the command that was started.
func TestAskedBeforeTheGrant(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	holder := locked(t, server, nil, "wait")
	ready(t, holder, "command")
	held := server.Children(lockPath)
	for range 2 {
		run := begin(t, "", "run", "-v", "--servers", server.Addr(), "--revocable", lockPath, "--", "sleep", "600")
		run.Await(t, "1 ahead", 1)
		waits := slices.DeleteFunc(server.Children(lockPath), func(node string) bool { return slices.Contains(held, node) })
		eventstest.Must(t, server.SetData(lockPath+"/"+waits[0], []byte("__REVOKE__")))
		holder.Send(syscall.SIGTERM)
		holder.Exits(0)
		run.Exits(codeSignal + int(syscall.SIGTERM))
		run.Must(t, "/locks/run is asked back")
		holder = locked(t, server, nil, "wait")
		ready(t, holder, "command")
		held = server.Children(lockPath)
	}
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
}

// KILL gives run no time to end its command, so the supervisor ends it.
func TestRunIsKilled(t *testing.T) {
	run := locked(t, zktest.Start(t), nil, "stubborn")
	pid := ready(t, run, "command")
	run.Send(syscall.SIGKILL)
	eventstest.Eventually(t, "the command is gone", func() bool { return gone(t, pid) })
}
