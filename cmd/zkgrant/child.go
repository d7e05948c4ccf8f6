//go:build unix

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/nested"
	"github.com/zkgrant/zkgrant/events"
)

// child is the command, with the processes that it starts and that stay in its process group.
// It is the work of run and elect. A supervisor starts it, see supervise.go.
type child struct {
	*console

	line     []string
	asks     syscall.Signal // asks the command to end
	terminal bool           // the command gets the terminal

	group    int           // its process group; the number of the command's process
	over     chan struct{} // closed when the command has ended, though its group may not have; nil before the start
	status   syscall.WaitStatus
	orphaned bool       // the supervisor has ended before the command
	looked   time.Time  // when empty looked at every process
	tells    chan int64 // the newest end of the lease, for the supervisor
	finished sync.WaitGroup

	refused   atomic.Int32  // the signal that failed and was reported last: KILL is repeated
	dismissal chan struct{} // closed when the supervisor is told nothing more
}

// start runs the command, with the Grant in its environment.
func (c *child) start(grant events.Grant, kind string, terms terms) (err error) {
	path, err := exec.LookPath(c.line[0])
	if err != nil {
		return notStarted(err)
	}
	program, err := self()
	if err != nil {
		return err
	}
	control, controlled, err := highPipe(false)
	if err != nil {
		return err
	}
	defer func() { _ = controlled.Close() }() // the supervisor has it
	reports, reported, err := highPipe(true)
	if err != nil {
		return errors.Join(err, control.Close())
	}
	defer func() { _ = reported.Close() }()

	o := orders{control: controlled.Fd(), report: reported.Fd(), asks: c.asks, grace: terms.grace, timeout: terms.timeout}
	var stdin *os.File
	info, err := os.Stdin.Stat()
	switch {
	case err != nil:
	case info.Mode()&os.ModeCharDevice == 0:
		stdin = os.Stdin
	case c.terminal && isTerminal(os.Stdin):
		stdin, o.foreground = os.Stdin, 1
	default: // a process in the background that reads from the terminal is halted
	}
	cmd := exec.Command(program, append([]string{supervisorMark, o.String(), path}, c.line...)...)
	cmd.Env = append(inherited(os.Environ()), told(grant, kind)...)
	if cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr; stdin != nil {
		cmd.Stdin = stdin
	}
	// What is sent to our process group must not reach the supervisor.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(notStarted(err), control.Close(), reports.Close())
	}
	_ = controlled.Close() // so that report ends with the supervisor
	_ = reported.Close()

	c.tells = make(chan int64, 1)
	c.renew(terms.lease)
	c.dismissal = make(chan struct{})
	tells, dismissal := c.tells, c.dismissal
	c.finished.Go(func() {
		defer close(dismissal)
		defer func() { _ = control.Close() }() // the supervisor has read what it had to
		for at := range tells {
			if binary.Write(control, binary.NativeEndian, at) != nil || at == dismissed {
				return
			}
		}
	})
	c.over, c.orphaned, c.looked = make(chan struct{}), false, time.Time{}
	said := bufio.NewReader(reports)
	if c.group, err = hearStart(said, path); err != nil {
		c.dismiss()
		_ = reports.Close()
		_ = cmd.Wait()
		return err
	}
	over := c.over
	c.finished.Go(func() {
		defer func() { _ = reports.Close() }()
		what, number, err := hear(said)
		if c.status = syscall.WaitStatus(number); err != nil || what != reportEnded {
			c.orphaned = true
			c.kill() // before anything else: no process but this one ends the group now
			c.say(report{Event: "failed", Error: "the supervisor was killed", loud: true, bad: true}, "the supervisor of the command was killed, and the command with it")
		}
		if o.foreground == 1 {
			takeTerminal()
		}
		close(over)
		_ = cmd.Wait() // it ends when the group is empty, or when it is dismissed
	})
	return nil
}

// hearStart returns the number of the command's process, or why there is none.
func hearStart(said *bufio.Reader, path string) (group int, err error) {
	const ended = "the supervisor of the command has ended before it started the command"
	switch what, _, err := hear(said); {
	case err == nil && what == reportLate:
		return 0, errTooLate
	case err != nil || what != reportStarting:
		return 0, errors.New(ended)
	}
	switch what, number, err := hear(said); {
	case err == nil && what == reportStarted:
		return number, nil
	case err == nil && what == reportFailed:
		return 0, notStarted(&fs.PathError{Op: "exec", Path: path, Err: syscall.Errno(number)})
	}
	return 0, mayHaveBegunError{errors.New(ended + ", or just after that")}
}

// hear returns the supervisor's next report.
func hear(said *bufio.Reader) (what string, number int, err error) {
	line, err := said.ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	_, err = fmt.Sscanf(line, "%s %d", &what, &number)
	return what, number, err
}

// renew tells the supervisor until when the lock is safe. It does not wait for the supervisor,
// which may be halted; the newest time counts.
func (c *child) renew(lease time.Time) {
	c.tell(sinceBoot().Add(time.Until(lease)).UnixNano())
}

func (c *child) tell(at int64) {
	select {
	case <-c.tells: // the one before was not taken yet
	default:
	}
	c.tells <- at
}

// dismiss ends the supervisor, which leaves the group alone.
func (c *child) dismiss() { c.tell(dismissed) }

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
		"ZKGRANT_PATH", "ZKGRANT_TOKEN", "ZKGRANT_NODE", "ZKGRANT_SESSION", "ZKGRANT_KIND", "ZKGRANT_MEMBERS", "ZKGRANT_ABANDONED", nested.Variable,
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
	const most = 16 << 10 // the kernel takes 128 KiB a variable, and JSON may need six for a byte
	if abandoned := abandonedOf(g, most); abandoned != nil {
		environment = append(environment, "ZKGRANT_ABANDONED="+string(abandoned))
	}
	return append(environment, nested.Environment(nested.Outer(os.Environ()))...)
}

// signal sends a signal to every process of the group, if there are any.
func (c *child) signal(sig syscall.Signal) {
	// The group's number is not given out again while a process is in the group. Between the group's end and this call the system would
	// have to use up a whole round of process numbers.
	if err := syscall.Kill(-c.group, sig); err != nil && !errors.Is(err, syscall.ESRCH) && c.refused.Swap(int32(sig)) != int32(sig) {
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
	if errors.Is(syscall.Kill(-c.group, 0), syscall.ESRCH) {
		return true
	}
	if time.Since(c.looked) < time.Second/10 { // a look reads all of /proc
		return false
	}
	c.looked = time.Now()
	left, ok := members(c.group)
	return ok && len(left) == 0
}

func (c *child) left() []int {
	left, _ := members(c.group)
	return left
}

// ask asks the group to end. A halted process gets the signal only when it goes on, hence the CONT.
func (c *child) ask() {
	c.signal(c.asks)
	c.signal(syscall.SIGCONT)
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) reset() {
	if c.over == nil {
		return
	}
	c.dismiss()
	late := time.NewTimer(time.Second) // a halted supervisor may not read it
	defer late.Stop()
	select {
	case <-c.dismissal:
	case <-late.C:
	}
	c.over = nil
}

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

func (c *child) end() duty.End {
	if c.orphaned {
		return duty.Broken
	}
	return duty.Done
}

// code is the exit code of the command, which has ended.
func (c *child) code() int {
	switch {
	case c.orphaned:
		return codeFailed
	case c.status.Signaled():
		return codeSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}
