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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/jobs"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/nested"
	"github.com/zkgrant/zkgrant/events"
)

// child is the command with its family: the work of run and elect. A supervisor starts
// it, see supervise.go.
type child struct {
	*console

	orphans *orphans

	line     []string
	asks     syscall.Signal // the signal that asks the command to end
	terminal bool           // the command gets the terminal
	job      jobs.Job       // this process, before it waited for the lock

	family   family
	over     chan struct{} // closed when the command has ended, though its family may not have; nil before the start
	gone     *atomic.Bool  // the supervisor has reported that nothing is left of the family
	status   syscall.WaitStatus
	orphaned *atomic.Bool        // the supervisor has ended before the family
	looked   time.Time           // when empty last looked at every process
	tells    chan int64          // the latest end of the lease, for the supervisor
	cut      bool                // the supervisor has sent KILL on its own
	halting  chan syscall.Signal // the signal that has halted the command
	halt     atomic.Int32        // the same, until the command continues
	begged   bool                // it was reported that the command waits for the terminal
	handed   atomic.Bool         // the command was given the terminal
	finished sync.WaitGroup

	inspects  atomic.Bool      // a goroutine looks for processes that a signal has not reached
	missed    map[missing]bool // what that goroutine has reported
	dismissed *atomic.Bool     // the supervisor was told to exit
	dismissal chan struct{}    // closed once nothing more is sent to the supervisor
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

	c.job.Foreground = foreground()
	ignored, _ := atStart()
	o := orders{
		control: controlled.Fd(), report: reported.Fd(), apart: c.job.Apart(), outputs: ignored>>(syscall.SIGTTOU-1)&1 == 0,
		json: c.settings.json, asks: c.asks, grace: terms.grace, timeout: terms.timeout,
	}
	var stdin *os.File
	info, err := os.Stdin.Stat()
	switch {
	case err != nil:
	case info.Mode()&os.ModeCharDevice == 0 || !term.IsTerminal(int(os.Stdin.Fd())):
		stdin = os.Stdin
	case c.terminal && c.job.Reaches():
		// In the background, zkgrant would take the terminal from the shell. And a
		// terminal that is not zkgrant's own cannot have the command in its foreground.
		front, failed := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
		stdin, o.foreground = os.Stdin, c.job.Visible() && failed == nil && front == c.job.Group
	default: // the kernel halts a background process that reads from its terminal
	}
	cmd := exec.Command(program, append([]string{supervisorMark, o.String(), path}, c.line...)...)
	cmd.Env = append(inherited(os.Environ()), told(grant, kind)...)
	if cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr; stdin != nil {
		cmd.Stdin = stdin
	}
	// Signals to our process group must not reach the supervisor. And a KILL by an outer
	// zkgrant must not reach both of us while the command is in a session that it does
	// not reach.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !o.apart, Setsid: o.apart}
	if err := c.orphans.start(cmd); err != nil {
		if errors.Is(err, syscall.E2BIG) { // the command's arguments are passed to the supervisor
			err = notStarted(err)
		}
		return errors.Join(err, control.Close(), reports.Close())
	}
	c.finished.Go(func() { keepRunning(cmd.Process.Pid) })
	_ = controlled.Close() // so that reading report ends with the supervisor
	_ = reported.Close()

	c.tells = make(chan int64, 1)
	lease := terms.lease()
	c.renew(lease)
	// On a busy machine, starting the command may take longer than the rest of the lease,
	// so keep renewing it for the supervisor.
	starts := time.NewTicker(terms.timeout / 100)
	c.dismissal = make(chan struct{})
	tells, dismissal := c.tells, c.dismissal
	c.finished.Go(func() {
		defer close(dismissal)
		defer func() { _ = control.Close() }() // nothing is left to write
		for at := int64(0); at != dismissed; {
			select {
			case at = <-tells:
			case <-starts.C:
				newest := terms.lease()
				if !newest.After(lease) {
					continue
				}
				lease, at = newest, bootTime(newest)
			}
			if binary.Write(control, binary.NativeEndian, at) != nil {
				return
			}
		}
	})
	c.over, c.cut, c.looked = make(chan struct{}), false, time.Time{}
	c.gone, c.orphaned, c.dismissed = new(atomic.Bool), new(atomic.Bool), new(atomic.Bool)
	c.halting, c.begged = make(chan syscall.Signal, 1), false
	c.halt.Store(0)
	c.handed.Store(o.foreground)
	said := bufio.NewReader(reports)
	group, err := hearStart(said, path)
	starts.Stop()
	if err != nil {
		c.dismiss()
		_ = reports.Close()
		c.orphans.awaits(cmd)
		c.takeTerminal() // the command may have had it before its exec failed
		return err
	}
	c.family = familyOf(group, cmd.Process.Pid, o.apart)
	over, gone, orphaned, leaves, halting := c.over, c.gone, c.orphaned, c.dismissed, c.halting
	family := c.family
	c.finished.Go(func() {
		defer func() { _ = reports.Close() }()
		what, number, err := hear(said)
		for ; err == nil && what != reportEnded && what != reportGone; what, number, err = hear(said) {
			switch what {
			case reportKilled:
				c.cut = true
			case reportHalted:
				c.halt.Store(int32(number))
				push(halting, syscall.Signal(number))
			case reportContinued:
				c.halt.Store(0)
			}
		}
		bereave := func() {
			if err == nil || leaves.Load() {
				return
			}
			orphaned.Store(true)
			_ = family.signal(syscall.SIGKILL) // first of all: now only this process can end the group
			c.say(report{Event: "failed", Error: "the supervisor was killed", loud: true, bad: true}, "the supervisor of the command was killed; killing the command")
		}
		if bereave(); !leaves.Load() {
			c.status = syscall.WaitStatus(number)
			gone.Store(what == reportGone)
			c.takeTerminal()
			close(over)
		}
		if err == nil {
			for err == nil && what != reportGone {
				what, _, err = hear(said)
			}
			gone.Store(what == reportGone)
			bereave()
		}
		c.orphans.awaits(cmd) // it exits once nothing is left of the family, or when dismissed
	})
	return nil
}

// hearStart returns the PID of the command, or the reason why it was not started.
func hearStart(said *bufio.Reader, path string) (group int, err error) {
	const ended = "the supervisor ended before it started the command"
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
	return 0, mayHaveBegunError{errors.New(ended + ", or just after")}
}

// hear reads the supervisor's next report.
func hear(said *bufio.Reader) (what string, number int, err error) {
	line, err := said.ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	_, err = fmt.Sscanf(line, "%s %d", &what, &number)
	return what, number, err
}

// renew tells the supervisor until when the lock is safe. It does not wait for the
// supervisor, which may be halted; only the latest time counts.
func (c *child) renew(lease time.Time) { push(c.tells, bootTime(lease)) }

// bootTime converts a time to the clock that the supervisor reads.
func bootTime(at time.Time) int64 { return sinceBoot().Add(time.Until(at)).UnixNano() }

// dismiss makes the supervisor exit and leave the group alone.
func (c *child) dismiss() {
	c.dismissed.Store(true)
	push(c.tells, dismissed)
}

// takeTerminal puts this process back into the foreground, if the command has the
// terminal, or had it and left it to a group that has ended.
func (c *child) takeTerminal() {
	if at := foreground(); c.handed.Load() && at != 0 && (at == c.family.group || groupEnded(at)) {
		_ = setForeground(syscall.Getpgrp()) // the terminal may be gone by now
	}
}

// push replaces the value in the channel, which has room for one.
func push[T any](to chan T, value T) {
	for {
		select {
		case to <- value:
			return
		default:
		}
		select {
		case <-to: // the previous value was not received yet
		default:
		}
	}
}

// ours returns the names of the variables that describe the lock to the command.
func ours() []string {
	return []string{
		"ZKGRANT_PATH", "ZKGRANT_TOKEN", "ZKGRANT_NODE", "ZKGRANT_SESSION", "ZKGRANT_KIND", "ZKGRANT_MEMBERS", "ZKGRANT_ABANDONED", nested.Variable,
	}
}

// inherited removes the variables in which an outer zkgrant describes its lock.
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
	// The kernel allows 128 KiB per variable, and a command with a longer one cannot start.
	const mostMembers = 100 << 10
	members := g.Members
	for len(membersOf(members)) > mostMembers {
		members = members[:len(members)*9/10]
	}
	if members != nil {
		environment = append(environment, "ZKGRANT_MEMBERS="+string(membersOf(members)))
	}
	const most = 16 << 10 // JSON may need six bytes for one
	if abandoned := abandonedOf(g, most); abandoned != nil {
		environment = append(environment, "ZKGRANT_ABANDONED="+string(abandoned))
	}
	return append(environment, nested.Environment(nested.Outer(os.Environ()))...)
}

// signal sends a signal to every process of the family. It returns true if at least one
// of them got it, or none is left.
func (c *child) signal(sig syscall.Signal) bool {
	err := c.family.signal(sig)
	// kill(2) on a group succeeds if one process got the signal. Other processes may
	// belong to another user by now. Finding them takes time, and the caller must not
	// wait.
	if (err != nil || sig != syscall.SIGCONT) && c.inspects.CompareAndSwap(false, true) {
		family := c.family
		c.finished.Go(func() {
			defer c.inspects.Store(false)
			c.inspect(family, sig, err)
		})
	}
	return err == nil
}

// inspect reports each process that the signal has not reached, once.
func (c *child) inspect(family family, sig syscall.Signal, err error) {
	if c.missed == nil {
		c.missed = map[missing]bool{}
	}
	var missed []int
	left := family.members()
	for _, pid := range left {
		if reason := syscall.Kill(pid, 0); reason != nil && !errors.Is(reason, syscall.ESRCH) && !c.missed[missing{pid, sig}] {
			missed, err = append(missed, pid), reason
			c.missed[missing{pid, sig}] = true
		}
	}
	if left == nil && err != nil && !c.missed[missing{0, sig}] { // no process is visible
		c.missed[missing{0, sig}] = true
	} else if missed == nil {
		return
	}
	c.say(report{Event: "failed", Error: err.Error(), Processes: missed, loud: true, bad: true}, "cannot send %s to %s of the command: %v",
		unix.SignalName(sig), processes(missed), err)
}

// missing is a signal that a process did not get. PID 0 means an unknown process.
type missing struct {
	pid int
	sig syscall.Signal
}

// empty reports whether nothing is left of the family. The supervisor reports that,
// unless it is halted or was killed. A zombie counts as ended, because its parent may
// never wait for it.
func (c *child) empty() bool {
	select {
	case <-c.over:
	default:
		return false
	}
	c.family = c.family.outlived()
	if c.gone.Load() || c.orphaned.Load() && c.family.group == 0 {
		return true
	}
	// A supervisor that runs reaps at any moment, so a listing here could miss a process;
	// see settle.
	if s, seen := processStat(c.family.supervisor); seen && !c.orphaned.Load() && s.lives() && s.state != 'T' {
		return false
	}
	if time.Since(c.looked) < time.Second/10 { // checking reads all of /proc
		return false
	}
	c.looked = time.Now()
	if c.family.gone() {
		return true
	}
	if c.orphaned.Load() { // as the supervisor would do
		c.kill()
	}
	return false
}

func (c *child) left() []int {
	return c.family.members()
}

// ask asks the family to end. A halted process receives the signal only once it is
// continued, hence the CONT.
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
	late := time.NewTimer(time.Second) // a halted supervisor does not read it
	defer late.Stop()
	select {
	case <-c.dismissal:
	case <-late.C:
	}
	c.over = nil
}

func (c *child) ended() <-chan struct{} { return c.over }

func (c *child) late() bool { return c.cut }

// pass forwards a signal to the group, and reports whether it arrived.
func (c *child) pass(sig os.Signal, valid func() bool) bool {
	switch sig {
	case syscall.SIGTSTP:
		if !valid() || !standing().Watched() {
			return false
		}
		// This process cannot watch the lock while it is halted, so the command is halted
		// first, by STOP, which it cannot ignore.
		c.takeTerminal()
		c.signal(syscall.SIGSTOP)
		halt(c.console)
	case syscall.SIGCONT:
		// If the lock was lost in the meantime, the loss is about to be reported, and
		// will end the command.
		if valid() {
			c.signal(syscall.SIGCONT)
		}
	default:
		if number, ok := sig.(syscall.Signal); ok {
			return c.signal(number)
		}
	}
	return true
}

func (c *child) halts() <-chan syscall.Signal { return c.halting }

// halted reacts to a halt of the command.
func (c *child) halted(by syscall.Signal, valid func() bool) {
	if c.halt.Load() != int32(by) || !valid() { // it was continued, or is about to be ended
		return
	}
	why := jobs.ByForce
	switch by {
	case syscall.SIGTSTP:
		why = jobs.ByUser
	case syscall.SIGTTIN, syscall.SIGTTOU:
		why = jobs.ByTerminal
	default:
	}
	switch standing().Halted(why, c.family.group) {
	case jobs.Hand:
		if err := setForeground(c.family.group); err != nil {
			c.say(report{Event: "failed", Error: err.Error(), loud: true, bad: true}, "cannot give the command the terminal: %v", err)
		}
		c.begged = false
		c.handed.Store(true)
		c.signal(syscall.SIGCONT)
	case jobs.Continue:
		c.signal(syscall.SIGCONT)
	case jobs.Wait:
		if !c.begged {
			c.say(report{Event: "halted", Error: by.String(), loud: true, bad: true}, "the command is stopped: it needs the terminal, but zkgrant is in the background; use fg")
		}
		c.begged = true
		halting := c.halting
		time.AfterFunc(time.Second/4, func() { // zkgrant may be brought to the foreground without a signal
			select {
			case halting <- by:
			default:
			}
		})
	case jobs.Follow:
		c.takeTerminal()
		// Halt the whole job, with STOP: this process catches TSTP, and might halt itself
		// only after the shell's CONT.
		_ = syscall.Kill(0, syscall.SIGSTOP)
	case jobs.Hangup:
		c.signal(syscall.SIGHUP)
		c.signal(syscall.SIGCONT)
	case jobs.Leave:
	}
}

func (c *child) end() duty.End {
	if c.orphaned.Load() {
		return duty.Broken
	}
	return duty.Done
}

// code returns the exit code of the command, which has ended.
func (c *child) code() int {
	switch {
	case c.orphaned.Load():
		return codeFailed
	case c.status.Signaled():
		return codeSignal + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// interrupted reports whether INT has ended the command.
func (c *child) interrupted() bool {
	return c.status.Signaled() && c.status.Signal() == syscall.SIGINT && !c.orphaned.Load()
}
