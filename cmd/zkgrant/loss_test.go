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

// owner returns the session of the lock's only node.
func owner(t *testing.T, server *zktest.Server) int64 {
	t.Helper()
	nodes := server.Children(lockPath)
	if len(nodes) != 1 {
		t.Fatalf("the lock's nodes are %v, want one", nodes)
	}
	return server.Owner(lockPath + "/" + nodes[0])
}

// expire ends that session.
func expire(t *testing.T, server *zktest.Server) {
	t.Helper()
	if err := server.Expire(owner(t, server)); err != nil {
		t.Fatal(err)
	}
}

// When the lock is lost, run asks the command to end. Its exit code says so, whatever the command's own is.
func TestALossEndsTheCommand(t *testing.T) {
	server := zktest.Start(t)
	run := locked(t, server, []string{"--grace", "2s"}, "wait")
	pid := ready(t, run, "command")
	expire(t, server)
	run.Exits(codeLost)
	run.Must(t, "LOST "+lockPath+": session expired", "command got "+syscall.SIGTERM.String())
	if !gone(t, pid) {
		t.Error("run has ended before the command")
	}
}

// A connection that breaks and comes back is reported, and costs nothing.
func TestABrokenConnection(t *testing.T) {
	server := zktest.Start(t)
	run := locked(t, server, []string{"--session-timeout", "20s"}, "wait")
	ready(t, run, "command")
	server.Cut(owner(t, server))
	run.Await(t, "no connection; what is held is good for another", 1)
	run.Await(t, "connected again", 1)
	run.Send(syscall.SIGUSR2)
	run.Exits(5)
}

// A command that does not end when asked to is killed, together with its children.
func TestLostByAStubbornCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, part string
		grace      string
		asked      bool
	}{
		{"the command", "stubborn", "2s", true},
		{"its child", "family", "2s", true},
		{"no grace", "family", "0", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t)
			run := locked(t, server, []string{"--grace", test.grace}, test.part)
			pids := []int{ready(t, run, "command")}
			if test.part == "family" {
				pids = append(pids, ready(t, run, "child"))
			}
			expire(t, server)
			run.Exits(codeLost)
			for _, pid := range pids {
				eventstest.Eventually(t, "the command and its child are gone", func() bool { return gone(t, pid) })
			}
			if asked := strings.Contains(run.String(), "got "+syscall.SIGTERM.String()); asked != test.asked {
				t.Errorf("asked to end: %t, want %t\n%s", asked, test.asked, run)
			}
		})
	}
}

// A command that halts itself gets no signal before it goes on.
func TestLostByAHaltedCommand(t *testing.T) {
	server := zktest.Start(t)
	run := locked(t, server, []string{"--grace", "2s"}, "wait")
	pid := ready(t, run, "command")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	expire(t, server)
	run.Exits(codeLost)
	run.Must(t, "command got "+syscall.SIGTERM.String())
}

// halted waits until the processes are halted.
func halted(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		eventstest.Eventually(t, "the process is halted", func() bool {
			state, err := processState(pid)
			if err != nil {
				t.Fatal(err)
			}
			return strings.HasPrefix(state, "T")
		})
	}
}

// Ctrl-Z halts the command and run, and CONT lets both go on. If the lock was lost in the meantime, the command does not go on.
func TestCtrlZHaltsTheCommandToo(t *testing.T) {
	t.Run("and still held", func(t *testing.T) {
		run := locked(t, zktest.Start(t), []string{"--session-timeout", "20s"}, "wait")
		command := ready(t, run, "command")
		run.Send(syscall.SIGTSTP)
		halted(t, run.Pid(), command)
		run.Send(syscall.SIGCONT)
		run.Await(t, "command got "+syscall.SIGCONT.String(), 1)
		run.Send(syscall.SIGUSR2)
		run.Exits(5)
	})
	t.Run("and lost", func(t *testing.T) {
		server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
		// A shell has one thread, to which the system gives the signal with the lower number first: TERM, of which it dies, and not CONT.
		const command = `trap 'echo went on' CONT; echo "command $$ ready"; while :; do sleep 600 & wait $!; done`
		run := begin(t, "", "run", "--servers", server.Addr(), "--session-timeout", "1s", "--grace", "250ms", lockPath, "--", "sh", "-c", command)
		shell := ready(t, run, "command")
		run.Send(syscall.SIGTSTP)
		halted(t, run.Pid(), shell)
		eventstest.Eventually(t, "the session is over", func() bool { return len(server.Sessions()) == 0 })
		run.Send(syscall.SIGCONT)
		run.Exits(codeLost)
		if said := run.String(); strings.Contains(said, "went on") {
			t.Errorf("the command was let go on without the lock, want it asked to end first:\n%s", said)
		}
	})
}

// The command ends well while run is halted, and run learns of it after the end of the session: that is a loss, not a success.
func TestTheCommandEndedAfterTheLoss(t *testing.T) {
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	run := locked(t, server, []string{"--session-timeout", "1s"}, "wait")
	pid := ready(t, run, "command")
	run.Send(syscall.SIGSTOP)
	halted(t, run.Pid())
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil { // which ends the command well
		t.Fatal(err)
	}
	eventstest.Eventually(t, "the command is gone", func() bool { return gone(t, pid) })
	eventstest.Eventually(t, "the session is over", func() bool { return len(server.Sessions()) == 0 })
	run.Send(syscall.SIGCONT)
	run.Exits(codeLost)
	run.Must(t, "LOST")
}
