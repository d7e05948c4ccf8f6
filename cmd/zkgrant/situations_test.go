//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// situations returns the environments in which the tests run zkgrant. process-1 and
// below-init need Linux.
func situations() []string {
	return []string{
		"job", "session-leader", "process-1", "background", "nohup", "pipe-full", "pipe-gone", "tty-stopped",
	}
}

// situated is zkgrant in one situation.
type situated struct {
	*eventstest.Process

	cmd *exec.Cmd
	in  io.WriteCloser // the command's input
}

func (s *situated) stop() error { return s.in.Close() }

// send sends the signal to zkgrant, which may have ended.
func (s *situated) send(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// situate starts zkgrant in a situation, with an input that stays open.
func (g *rig) situate(where, line string, more ...string) *situated {
	g.t.Helper()
	line = "zkgrant " + line
	var cmd *exec.Cmd
	switch where {
	case "", "job":
		cmd = g.command(line, more...)
	case "session-leader":
		cmd = g.command(line, more...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case "background": // in the background of a script
		cmd = g.shell(`trap '' INT QUIT; exec "$@"`, line, more...)
	case "nohup":
		cmd = g.shell(`trap '' HUP; exec "$@"`, line, more...)
	case "pipe-full":
		cmd = g.onFile("2", fullPipe(g.t), line, more...)
	case "pipe-gone":
		cmd = g.onFile("2", brokenPipe(g.t), line, more...)
	case "tty-stopped":
		cmd = g.onFile("2", stoppedTerminal(g.t), line, more...)
	default:
		cmd = g.isolated(where, line, more...)
	}
	return g.fed(cmd)
}

// fed starts the command with an input that stays open.
func (g *rig) fed(cmd *exec.Cmd) *situated {
	g.t.Helper()
	cmd.Stdin = nil
	in, err := cmd.StdinPipe()
	eventstest.Must(g.t, err)
	return &situated{eventstest.Begin(g.t, cmd), cmd, in}
}

// holds is situate, but waits until the command works. On a busy machine, zkgrant may
// lose its session of one second before that. Then holds starts it again.
func (g *rig) holds(where, line string) (run *situated, command int) {
	g.t.Helper()
	const most = 10
	for n := 1; ; n++ {
		run = g.situate(where, line)
		eventstest.Eventually(g.t, "the command is ready, or zkgrant has ended", func() bool {
			ended := errors.Is(run.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
			return ended || run.Count(" ready\n") > 0
		})
		if run.Count(" ready\n") > 0 {
			return run, g.pid(run.Process, "command")
		}
		if code := run.ExitCode(); code != codeLost || n == most {
			g.t.Fatalf("zkgrant ends with %d at try %d, before the command is ready", code, n)
		}
	}
}

// shell is command, run by the script as "$@".
func (g *rig) shell(script, line string, more ...string) *exec.Cmd {
	cmd := g.command(line, more...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh"}, cmd.Args...)
	return cmd
}

// onFile is command with its output (1) or errors (2) redirected to the file.
func (g *rig) onFile(output string, file *os.File, line string, more ...string) *exec.Cmd {
	cmd := g.shell(`exec "$@" `+output+`>&3 3>&-`, line, more...)
	cmd.ExtraFiles = []*os.File{file}
	return cmd
}

// fullPipe returns a full pipe that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	in, out := pipe(t)
	t.Cleanup(func() { eventstest.Check(t, in.Close()) })
	fd := int(out.Fd())
	eventstest.Must(t, unix.SetNonblock(fd, true))
	for _, size := range []int{4096, 1} {
		for err := error(nil); err == nil; {
			_, err = unix.Write(fd, make([]byte, size))
		}
	}
	eventstest.Must(t, unix.SetNonblock(fd, false))
	return out
}

// brokenPipe returns a pipe whose reading end is closed.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	in, out := pipe(t)
	eventstest.Must(t, in.Close())
	return out
}

// pipe returns a pipe, whose writing end is closed with the test.
func pipe(t *testing.T) (in, out *os.File) {
	t.Helper()
	in, out, err := os.Pipe()
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, out.Close()) })
	return in, out
}

// stoppedTerminal returns a terminal on which ^S was typed.
func stoppedTerminal(t *testing.T) *os.File {
	t.Helper()
	master, tty := openTerminal(t)
	_, err := master.WriteString("\x13")
	eventstest.Must(t, err)
	return tty
}

// openTerminal returns both sides of a terminal, which are closed with the test.
func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, tty, err := pty.Open()
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, errors.Join(tty.Close(), master.Close())) })
	return master, tty
}

// together runs a test for each of many, a few at a time.
func together[T fmt.Stringer](t *testing.T, many []T, test func(T, *testing.T)) {
	t.Helper()
	const atOnce = 6
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, one := range many {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			t.Run(one.String(), func(t *testing.T) { test(one, t) })
		})
	}
	all.Wait()
}

// maskOf returns a signal mask of a process, such as SigIgn or SigBlk. Without /proc it
// skips the test.
func maskOf(t *testing.T, pid int, name string) uint64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + `:\s*(\w+)$`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("the status of %d has no %s:\n%s", pid, name, status)
	}
	mask, err := strconv.ParseUint(string(found[1]), 16, 64)
	eventstest.Must(t, err)
	return mask
}

// Signals that zkgrant inherits as ignored or blocked have no effect on it, whether it
// waits or holds, and the command inherits them unchanged.
func TestSignalsThatAreIgnoredStayIgnored(t *testing.T) {
	t.Parallel()
	type signals []syscall.Signal
	bits := func(all signals) (set uint64) {
		for _, sig := range all {
			set |= 1 << (sig - 1)
		}
		return set
	}
	watched := bits(signals{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCHLD,
	})
	stops := signals{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}
	type inherited struct {
		script                 string
		sent, ignored, blocked signals
	}
	inParallel(t, map[string]inherited{
		"no Ctrl-Z": {`trap '' TSTP TTIN TTOU; exec "$@"`, stops[:1], stops, nil},
		"blocked": {
			`exec env --block-signal=USR1 --block-signal=USR2 "$@"`,
			signals{syscall.SIGUSR1, syscall.SIGUSR2}, nil, signals{syscall.SIGUSR1, syscall.SIGUSR2},
		},
		"background": {`trap '' INT QUIT; exec "$@"`, nil, signals{syscall.SIGINT, syscall.SIGQUIT}, nil},
		"nothing":    {`exec "$@"`, nil, nil, nil},
	}, func(t *testing.T, _ string, test inherited) {
		if test.blocked != nil && exec.Command("env", "--block-signal=USR1", "true").Run() != nil {
			t.Skip("this system's env cannot block signals")
		}
		g := double(t)
		start := func() *eventstest.Process {
			return eventstest.Begin(t, g.shell(test.script, "zkgrant run -v --shell "+lockPath+" --",
				"echo command $$ ready; exec sleep 600"))
		}
		holder := start()
		pid := g.pid(holder, "command")
		waiter := start()
		waiter.Await(t, "1 ahead", 1)
		for _, sig := range test.sent {
			holder.Send(sig)
			waiter.Send(sig)
		}
		for set, want := range map[string]signals{"SigIgn": test.ignored, "SigBlk": test.blocked} {
			got := maskOf(t, pid, set) & watched
			eventstest.Expect(t, got == bits(want), "the command has %s %x, want %x", set, got, bits(want))
		}
		g.stop(holder, syscall.SIGTERM, codeSignal+int(syscall.SIGTERM))
		g.pid(waiter, "command") // so the signals did not end it while it waited
		g.stop(waiter, syscall.SIGTERM, codeSignal+int(syscall.SIGTERM))
	})
}
