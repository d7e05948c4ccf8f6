//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/events"
)

// child is the command, with the processes that it starts and that stay in its process group. It is the work of run and elect.
type child struct {
	*console

	line     []string
	asks     syscall.Signal // asks the command to end
	terminal bool           // the command gets the terminal

	cmd    *exec.Cmd
	looked time.Time     // when empty looked at every process
	over   chan struct{} // closed when the command has ended, though its group may not have; nil before the start
}

// start runs the command, with the Grant in its environment.
func (c *child) start(grant events.Grant, kind string) error {
	// No CommandContext: it would signal only the command, not its group.
	c.cmd = exec.Command(c.line[0], c.line[1:]...)
	c.cmd.Env = append(inherited(os.Environ()), told(grant, kind)...)
	c.cmd.Stdout, c.cmd.Stderr = os.Stdout, os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.cmd.SysProcAttr)
	info, err := os.Stdin.Stat()
	switch {
	case err != nil:
	case info.Mode()&os.ModeCharDevice == 0:
		c.cmd.Stdin = os.Stdin
	case c.terminal && isTerminal(os.Stdin):
		c.cmd.Stdin = os.Stdin
		c.cmd.SysProcAttr.Foreground, c.cmd.SysProcAttr.Ctty = true, int(os.Stdin.Fd())
	default: // a process in the background that reads from the terminal is halted
	}
	if err := c.cmd.Start(); err != nil {
		return notStarted(err)
	}
	over := make(chan struct{})
	c.over = over
	cmd, foreground := c.cmd, c.cmd.SysProcAttr.Foreground
	go func() {
		defer close(over)
		_ = cmd.Wait() // ProcessState has the result
		if foreground {
			takeTerminal()
		}
	}()
	return nil
}

// takeTerminal puts this process into the foreground again. A process in the background gets TTOU for that.
func takeTerminal() {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	// Without a terminal there is nothing to take.
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, syscall.Getpgrp())
}

// ours are the names of the variables that describe the lock to the command.
func ours() []string {
	return []string{
		"ZKGRANT_PATH", "ZKGRANT_TOKEN", "ZKGRANT_NODE", "ZKGRANT_SESSION", "ZKGRANT_KIND", "ZKGRANT_MEMBERS", "ZKGRANT_ABANDONED",
	}
}

// inherited leaves out the variables in which an outer zkgrant describes its lock.
func inherited(environment []string) []string {
	return slices.DeleteFunc(environment, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(ours(), name)
	})
}

func told(g events.Grant, kind string) []string {
	environment := []string{
		"ZKGRANT_PATH=" + g.Path, "ZKGRANT_TOKEN=" + strconv.FormatInt(g.Token, 10), "ZKGRANT_NODE=" + g.Node,
		"ZKGRANT_SESSION=" + sessionID(g.Session), "ZKGRANT_KIND=" + kind,
	}
	if members := membersOf(g); members != nil {
		environment = append(environment, "ZKGRANT_MEMBERS="+string(members))
	}
	if abandoned := abandonedOf(g); abandoned != nil {
		environment = append(environment, "ZKGRANT_ABANDONED="+string(abandoned))
	}
	return environment
}

// signal sends a signal to every process of the group, if there are any.
func (c *child) signal(sig syscall.Signal) {
	// The group's number is not given out again while a process is in the group. Between the group's end and this call the system would
	// have to use up a whole round of process numbers.
	if err := syscall.Kill(-c.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.say(report{Event: "failed", Error: err.Error(), loud: true}, "%v for the command: %v", sig, err) // the command may run as another user now
	}
}

// empty reports whether the command has ended, and no process is left in its group. A zombie
// has ended: its parent, outside of the group, may never wait for it.
func (c *child) empty() bool {
	select {
	case <-c.over:
	default:
		return false
	}
	if errors.Is(syscall.Kill(-c.cmd.Process.Pid, 0), syscall.ESRCH) {
		return true
	}
	if time.Since(c.looked) < time.Second/10 { // a look reads all of /proc
		return false
	}
	c.looked = time.Now()
	left, ok := members(c.cmd.Process.Pid)
	return ok && len(left) == 0
}

func (c *child) left() []int {
	left, _ := members(c.cmd.Process.Pid)
	return left
}

// ask asks the group to end. A halted process gets the signal only when it goes on, hence the CONT.
func (c *child) ask() {
	c.signal(c.asks)
	c.signal(syscall.SIGCONT)
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) reset() { c.over = nil }

func (c *child) ended() <-chan struct{} { return c.over }

// pass passes a signal on to the group.
func (c *child) pass(sig os.Signal, valid func() bool) {
	switch sig {
	case syscall.SIGTSTP:
		// This process cannot watch the lock while it is halted, so the command is halted first, by STOP, which it cannot ignore.
		c.signal(syscall.SIGSTOP)
		halt(c.console)
	case syscall.SIGCONT:
		// If the lock was lost in the meantime, the report of the loss is about to come, and ends the command.
		if valid() {
			c.signal(syscall.SIGCONT)
		}
	default:
		if number, ok := sig.(syscall.Signal); ok {
			c.signal(number)
		}
	}
}

// code is the exit code of the command, which has ended.
func (c *child) code() int {
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return codeSignal + int(status.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}
