//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// group is a command that was started, with the processes that it starts itself
// and that stay in its process group.
type group struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the command, but not the whole group, has ended
}

// start runs the command with more in its environment.
func start(command []string, env ...string) (*group, error) {
	// No CommandContext: it ends a command with one signal, and not its group.
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// A process in the background that reads from the terminal is halted.
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
		cmd.Stdin = os.Stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &group{cmd, make(chan struct{})}
	go func() {
		defer close(g.ended)
		_ = cmd.Wait() // ProcessState has what it says
	}()
	return g, nil
}

// signal sends a signal to every process of the group; to none if there is none.
func (g *group) signal(sig syscall.Signal) {
	// The group's number is not given to another one while anybody is in it. Were
	// nobody in it, we would have to be slower than a whole round of process numbers.
	if err := syscall.Kill(-g.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		say("%v for the command: %v", sig, err) // it may have changed its user
	}
}

// empty tells whether there is no process in the group any more.
func (g *group) empty() bool {
	return errors.Is(syscall.Kill(-g.cmd.Process.Pid, 0), syscall.ESRCH)
}

// end ends the whole group: with TERM, and what is left of it after the grace with
// KILL. It returns when the command has ended.
func (g *group) end(grace time.Duration) {
	if grace > 0 {
		g.signal(syscall.SIGTERM)
		g.signal(syscall.SIGCONT) // whoever is halted hears nothing
	}
	kill := time.NewTimer(grace)
	defer kill.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !g.empty() {
		select {
		case <-look.C:
			continue
		case <-kill.C:
			g.signal(syscall.SIGKILL)
		}
		break
	}
	<-g.ended
}

// code is the exit code of a command that has ended.
func (g *group) code() int {
	if status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignal + int(status.Signal())
	}
	return g.cmd.ProcessState.ExitCode()
}
