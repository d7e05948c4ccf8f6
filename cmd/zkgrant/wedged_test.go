//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// beginOn is begin with standard error on that file.
func beginOn(t *testing.T, stderr *os.File, args ...string) *eventstest.Process {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `exec "$@" 2>&3 3>&-`, "sh", program}, args...)...)
	cmd.ExtraFiles = []*os.File{stderr}
	p := eventstest.Begin(t, cmd)
	eventstest.Check(t, stderr.Close())
	return p
}

// fullPipe returns a pipe that has no room left, and that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	eventstest.Must(t, unix.Pipe(ends[:]))
	t.Cleanup(func() { eventstest.Check(t, unix.Close(ends[0])) })
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	eventstest.Must(t, unix.SetNonblock(ends[1], true))
	for _, size := range []int{4096, 1} {
		for {
			if _, err := unix.Write(ends[1], make([]byte, size)); err != nil {
				break
			}
		}
	}
	eventstest.Must(t, unix.SetNonblock(ends[1], false))
	return os.NewFile(uintptr(ends[1]), "a full pipe")
}

// brokenPipe returns a pipe whose reader has ended.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	in, out, err := os.Pipe()
	eventstest.Must(t, err)
	eventstest.Check(t, in.Close())
	return out
}

// stoppedTerminal returns a terminal on which ^S was typed.
func stoppedTerminal(t *testing.T) *os.File {
	t.Helper()
	master, tty, err := pty.Open()
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, master.Close()) })
	_, err = master.WriteString("\x13")
	eventstest.Must(t, err)
	return tty
}

// outputs are the kinds of standard error that lead nowhere.
func outputs() map[string]func(*testing.T) *os.File {
	return map[string]func(*testing.T) *os.File{"full": fullPipe, "gone": brokenPipe, "stopped": stoppedTerminal}
}

// alone checks that the next holder's line in the file follows the last one of the work.
func alone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	before, after, next := strings.Cut(string(text), "next\n")
	if before == "" || !next {
		t.Errorf("the file has no line of the work, or none of the next holder, want both: %.40q", text)
	}
	if after != "" {
		t.Errorf("the work went on for %d lines beside the next holder, want none", strings.Count(after, "\n"))
	}
}

// brief are the flags for a session of a second.
func brief(server *zktest.Server, more ...string) []string {
	return append([]string{"run", "--servers", server.Addr(), "--session-timeout", "1s", "--tick-time", "100ms"}, more...)
}

// The lock is lost while standard error is a full pipe, a pipe without a reader, or a terminal
// after ^S. The command is dead before the next holder starts, whether it obeys the signal or not.
func TestOutputThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	var checks []func()
	for name, output := range outputs() {
		for _, flag := range []string{"--verbose", "--json", "--verbose=false"} {
			for _, temper := range []string{"deaf", "obedient"} {
				server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
				file := filepath.Join(t.TempDir(), "work")
				run := beginOn(t, output(t), append(brief(server, flag, lockPath), commandLine("work", file, temper)...)...)
				ready(t, run, "command")
				holder := owner(t, server)
				next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
				next.Await(t, "1 ahead", 1)
				server.Mute(holder, true)
				checks = append(checks, func() {
					t.Log(name, flag, temper)
					next.Exits(0)
					alone(t, file)
					server.Mute(holder, false)
					run.Exits(codeLost)
				})
			}
		}
	}
	for _, check := range checks {
		check()
	}
}

// A reader of standard error that has ended costs neither the lock nor the command. The command
// keeps the default for PIPE.
func TestAReaderThatHasEnded(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	run := beginOn(t, brokenPipe(t), append([]string{"run", "-v", "--session-timeout", "20s", "--servers", server.Addr(), lockPath}, commandLine("wait")...)...)
	pid := ready(t, run, "command")
	for range 3 {
		before := server.Connections()
		server.Cut(owner(t, server))
		eventstest.Eventually(t, "it is connected again", func() bool { return before > 0 && server.Connections() > 0 })
	}
	if ignored := maskOf(t, pid, "SigIgn"); ignored&(1<<(syscall.SIGPIPE-1)) != 0 {
		t.Errorf("the command ignores the signals %x, PIPE among them, want its default", ignored)
	}
	run.Send(syscall.SIGUSR2)
	run.Exits(5)
}

// hold hears of its end also when nobody reads the line that it prints at the Grant.
func TestHoldWhoseLineIsNotRead(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		happens func(*eventstest.Process, *zktest.Server)
		code    int
	}{
		"TERM":   {func(p *eventstest.Process, _ *zktest.Server) { p.Send(syscall.SIGTERM) }, 0},
		"a loss": {func(_ *eventstest.Process, s *zktest.Server) { expire(t, s) }, codeLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t)
			cmd := exec.Command("sh", "-c", `exec "$@" >&3 3>&-`, "sh", program, "hold", "-v", "--servers", server.Addr(), lockPath)
			pipe := fullPipe(t)
			cmd.ExtraFiles = []*os.File{pipe}
			in, out, err := os.Pipe()
			eventstest.Must(t, err)
			cmd.Stdin = in
			hold := eventstest.Begin(t, cmd)
			eventstest.Check(t, pipe.Close())
			eventstest.Check(t, in.Close())
			hold.Await(t, "granted", 1)
			end.happens(hold, server)
			hold.Exits(end.code)
			eventstest.Check(t, out.Close())
		})
	}
}

// A command that ignores the signal is dead when the lock is lost, with the default grace, and
// when a revocation's time is up.
func TestADeafCommandIsDeadInTime(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(*testing.T, *zktest.Server, int64) *eventstest.Process{
		"the lease runs out": func(_ *testing.T, server *zktest.Server, holder int64) *eventstest.Process {
			server.Mute(holder, true)
			return nil
		},
		"revoked": func(t *testing.T, server *zktest.Server, _ int64) *eventstest.Process {
			return begin(t, "", "revoke", "--servers", server.Addr(), "--grace", "300ms", lockPath)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range eventstest.Amount(2, 20) {
				server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
				file := filepath.Join(t.TempDir(), "work")
				run := begin(t, "", append(brief(server, "-v", "--revocable", lockPath), commandLine("work", file, "deaf")...)...)
				ready(t, run, "command")
				holder := owner(t, server)
				next := begin(t, "", append(brief(server, "-v", lockPath), commandLine("mark", file)...)...)
				next.Await(t, "1 ahead", 1)
				revoke := ends(t, server, holder)
				next.Exits(0)
				alone(t, file)
				server.Mute(holder, false)
				run.Exits(codeLost)
				if revoke != nil {
					revoke.Exits(0)
				}
			}
		})
	}
}

// A grace that does not fit into the lease is refused, when the flags are read or when the
// servers have granted a shorter session.
func TestAGraceThatDoesNotFit(t *testing.T) {
	server := zktest.Start(t)
	const most = "a quarter of the session timeout"
	for _, test := range []struct {
		flags []string
		code  int
		word  string
	}{
		{[]string{"--grace", "3s"}, codeFailed, most},
		{[]string{"--grace", "2500ms"}, 0, ""},
		{[]string{"--grace", "0"}, 0, ""},
		{[]string{"--session-timeout", "1h", "--grace", "12s"}, codeFailed, most}, // the servers grant 40 s
	} {
		run := locked(t, server, test.flags, "exit", "0")
		run.Exits(test.code)
		run.Must(t, test.word)
	}
	nodes(t, server, 0, "when run has ended")
}
