package eventstest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Process is a program that runs during the test. Its Screen has what it prints.
type Process struct {
	*Screen

	tb    testing.TB
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone
}

// Begin starts the command, whose output must not be redirected yet. The process is
// killed at the end of the test. The test fails if a child of the process is still
// running then.
func Begin(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{&Screen{}, tb, cmd, make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	cmd.WaitDelay = 10 * time.Second // a remaining child may hold them open
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		if err := cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
			tb.Errorf("a child of %v is still there", cmd.Args)
		}
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.ended
		if tb.Failed() {
			tb.Logf("%v printed\n%s", cmd.Args, p)
		}
	})
	return p
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Send sends the process a signal.
func (p *Process) Send(sig os.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.tb.Errorf("sending %v: %v", sig, err)
	}
}

// Exits waits for the end of the process, and fails the test if it has another exit code.
func (p *Process) Exits(code int) {
	p.tb.Helper()
	if got := p.ExitCode(); got != code {
		p.tb.Errorf("exit code %d, want %d", got, code)
	}
}

// ExitCode waits for the end of the process, and returns the exit code as a shell does.
func (p *Process) ExitCode() int {
	p.tb.Helper()
	Receive(p.tb, p.ended, "the end of the process")
	return ExitCode(p.cmd.ProcessState)
}

// ExitCode returns the exit code of a process, or 128 + n if signal n ended it.
func ExitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
