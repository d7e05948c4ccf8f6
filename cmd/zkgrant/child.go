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

// child is the command, with the processes that it starts itself and that stay in its process group. It is the work of
// run and elect.
type child struct {
	*console

	line     []string
	grace    time.Duration  // between the signal and KILL; 0: no signal
	asks     syscall.Signal // asks it to end
	terminal bool           // it gets the terminal

	cmd  *exec.Cmd
	over chan struct{} // closed when the command, but not the whole group, has ended; nil before it is started
}

// start runs the command with the Grant in its environment.
func (c *child) start(grant events.Grant, kind string) error {
	// No CommandContext: it ends a command with one signal, and not its group.
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
		_ = cmd.Wait() // ProcessState has what it says
		if foreground {
			takeTerminal()
		}
	}()
	return nil
}

// takeTerminal puts this process into the foreground again. From the background, that is what TTOU is sent for.
func takeTerminal() {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	// If the terminal has gone there is nothing to take.
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, syscall.Getpgrp())
}

// ours are the names of the variables that tell the command of its lock.
func ours() []string {
	return []string{
		"ZKGRANT_PATH", "ZKGRANT_TOKEN", "ZKGRANT_NODE", "ZKGRANT_SESSION", "ZKGRANT_KIND", "ZKGRANT_MEMBERS", "ZKGRANT_ABANDONED",
	}
}

// inherited leaves out what an outer zkgrant tells of its lock.
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

// signal sends a signal to every process of the group; to none if there is none.
func (c *child) signal(sig syscall.Signal) {
	// The group's number is not given to another one while a process is in it. Were none in it, this would have to be
	// slower than a whole round of process numbers.
	if err := syscall.Kill(-c.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.say(report{Event: "failed", Error: err.Error(), loud: true}, "%v for the command: %v", sig, err) // it may have changed its user
	}
}

// empty tells whether there is no process in the group any more.
func (c *child) empty() bool {
	return errors.Is(syscall.Kill(-c.cmd.Process.Pid, 0), syscall.ESRCH)
}

// stop asks the group to end. A halted process hears of nothing before it goes on.
func (c *child) stop() {
	c.signal(c.asks)
	c.signal(syscall.SIGCONT)
}

// end ends the whole group: it is asked to, and what is left of it after the grace gets KILL.
func (c *child) end() {
	if c.over == nil { // the lock was lost before the command was started
		return
	}
	if c.grace > 0 {
		c.stop()
	}
	kill := time.NewTimer(c.grace)
	defer kill.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !c.empty() {
		select {
		case <-look.C:
			continue
		case <-kill.C:
			c.signal(syscall.SIGKILL)
		}
		break
	}
	<-c.over
	c.over = nil // it may be started again
}

func (c *child) ended() <-chan struct{} { return c.over }

// pass passes a signal on to the group.
func (c *child) pass(sig os.Signal, valid func() bool) {
	switch sig {
	case syscall.SIGTSTP:
		// Nothing looks after the lock while this process is halted, so the command is first. It gets STOP, which it
		// cannot ignore.
		c.signal(syscall.SIGSTOP)
		halt(c.console)
	case syscall.SIGCONT:
		// The lock may have gone in the meantime; the loss, which is then about to be told, ends the command.
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
