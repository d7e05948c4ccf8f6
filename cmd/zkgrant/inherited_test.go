//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Signals that zkgrant inherits as ignored or blocked mean nothing to it, whether it waits or
// holds, and the command inherits them so.
func TestSignalsThatAreIgnoredStayIgnored(t *testing.T) {
	t.Parallel()
	bit := func(signals ...syscall.Signal) (set uint64) {
		for _, sig := range signals {
			set |= 1 << (sig - 1)
		}
		return set
	}
	const all = "exec \"$@\""
	for name, test := range map[string]struct {
		shell            string // runs what follows
		sent             []syscall.Signal
		ignored, blocked uint64
	}{
		"nohup":      {"trap '' HUP; " + all, []syscall.Signal{syscall.SIGHUP}, bit(syscall.SIGHUP), 0},
		"background": {"trap '' INT QUIT; " + all, []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT}, bit(syscall.SIGINT, syscall.SIGQUIT), 0},
		"no Ctrl-Z":  {"trap '' TSTP TTIN TTOU; " + all, []syscall.Signal{syscall.SIGTSTP}, bit(syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU), 0},
		"blocked":    {"exec env --block-signal=USR1 --block-signal=USR2 \"$@\"", []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}, 0, bit(syscall.SIGUSR1, syscall.SIGUSR2)},
		"nothing":    {all, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.blocked != 0 && exec.Command("env", "--block-signal=USR1", "true").Run() != nil {
				t.Skip("this system's env cannot block signals")
			}
			server := zktest.Start(t)
			start := func() *eventstest.Process {
				return eventstest.Begin(t, exec.Command("sh", "-c", test.shell, "sh", program, "run", "-v", "--servers", server.Addr(), lockPath,
					"--", "sh", "-c", "echo command $$ ready; exec sleep 600"))
			}
			holder := start()
			pid := ready(t, holder, "command")
			waiter := start()
			waiter.Await(t, "1 ahead", 1)
			for _, p := range []*eventstest.Process{holder, waiter} {
				for _, sig := range test.sent {
					p.Send(sig)
				}
			}
			watched := bit(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
				syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCHLD)
			if got := maskOf(t, pid, "SigIgn") & watched; got != test.ignored {
				t.Errorf("the command ignores the signals %x, want %x", got, test.ignored)
			}
			if got := maskOf(t, pid, "SigBlk") & watched; got != test.blocked {
				t.Errorf("the command has blocked the signals %x, want %x", got, test.blocked)
			}
			holder.Send(syscall.SIGTERM)
			holder.Exits(codeSignal + int(syscall.SIGTERM))
			ready(t, waiter, "command") // so it was not ended while it waited
			waiter.Send(syscall.SIGTERM)
			waiter.Exits(codeSignal + int(syscall.SIGTERM))
		})
	}
}
