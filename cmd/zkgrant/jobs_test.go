//go:build unix

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A command in the background is halted when it reads from the terminal, or writes to it after
// `stty tostop`. It gets the terminal if zkgrant has it.
func TestAHaltedCommandGetsTheTerminal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ setting, command string }{
		"reads":  {"-tostop", `read name < /dev/tty; echo "hello $name"`},
		"writes": {"tostop", `echo name?; read name < /dev/tty; echo "hello $name"`},
		"sets":   {"-tostop", `stty -tostop < /dev/tty; read name < /dev/tty; echo "hello $name"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t)
			term := onTerminal(t, nil, exec.Command("sh", "-c", `stty `+test.setting+`; exec "$@"`, "sh",
				program, "run", "-v", "--servers", server.Addr(), "--shell", lockPath, "--", test.command))
			term.shows("granted /locks/run")
			term.types("zoe\n")
			term.shows("hello zoe", "gave /locks/run back")
			term.exits(0)
		})
	}
}

// In the background zkgrant takes the terminal from nobody. It says once that the command needs
// it, and hands it on in the foreground. Ctrl-Z there halts both, and the shell continues both.
func TestTheTerminalInAShell(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	term := beginShell(t)
	term.types("zkgrant run -v --session-timeout 20s --servers " + server.Addr() +
		` --stdin --shell ` + lockPath + ` -- 'echo "name?"; read name; echo "hello $name"; read name; echo "bye $name"' &` + "\n")
	term.shows("the command is halted: it needs the terminal, and zkgrant is in the background")
	term.types("echo shell has $((6*7))\n")
	term.shows("shell has 42")
	term.types("fg\n")
	term.types("zoe\n")
	term.shows("hello zoe")
	holder := server.Children(lockPath)
	term.types("\x1a")
	term.shows("Stopped")
	term.types("echo shell has $((6*8))\n")
	term.shows("shell has 48")
	term.types("fg\n")
	term.types("bob\n")
	term.shows("bye bob", "gave /locks/run back")
	if len(holder) != 1 {
		t.Errorf("the lock had the nodes %v, want one", holder)
	}
	if n := strings.Count(term.printed(), "it needs the terminal"); n != 1 {
		t.Errorf("it was said %d times that the command needs the terminal, want once", n)
	}
	term.types("exit\n")
	term.exits(0)
}

// Where no shell would continue them, Ctrl-Z halts neither zkgrant nor its command. Either of them
// may have the terminal.
func TestCtrlZWhereNobodyContinues(t *testing.T) {
	t.Parallel()
	for name, flag := range map[string]string{"zkgrant": "--stdin=false", "the command": "--stdin"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t)
			term := beginTerminal(t, nil, "run", "-v", flag, "--servers", server.Addr(), "--shell", lockPath, "--",
				// A shell that starts a process at that moment may wait for it, halted as it is, and not be halted itself.
				`trap 'echo went on' CONT; trap 'kill $! 2>/dev/null; exit 5' USR2; sleep 600 & echo ready; while :; do wait $!; done`)
			term.shows("ready")
			term.types("\x1a")
			if flag == "--stdin" {
				term.shows("went on")
			}
			eventstest.Check(t, term.cmd.Process.Signal(syscall.SIGUSR2))
			term.exits(5)
		})
	}
}

// Without a terminal and a shell, the kernel halts the command as little as it would without zkgrant.
func TestACommandThatHaltsItselfWhereNobodyContinues(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	cmd := exec.Command(program, "run", "-v", "--servers", server.Addr(), "--shell", lockPath, "--", `kill -TSTP $$; kill -TTIN $$; kill -TTOU $$; echo went on`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	run := eventstest.Begin(t, cmd)
	run.Exits(0)
	run.Must(t, "went on")
}
