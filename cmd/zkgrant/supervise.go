//go:build unix

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
)

// zkgrant does not start its command directly: it starts a second copy of itself, the
// supervisor. The supervisor starts the command, adopts and reaps the processes that the
// command leaves behind, and has the same duty as zkgrant. So the command is dead in time
// even if zkgrant is killed or halted:
//
//  1. zkgrant sends the supervisor each new end of the lease, on the first pipe.
//  2. If zkgrant is killed, the pipe ends, and the supervisor ends the command as after a
//     loss.
//  3. If zkgrant is halted, the last end that it has sent passes, and the supervisor
//     sends KILL.
//
// If the supervisor is killed, the kernel kills the command with it, and zkgrant kills
// the group. The supervisor does not use os/exec, whose Wait would miss processes that
// the supervisor has reaped.

// supervisorMark is the first argument of a supervisor. Its orders are the second one.
const supervisorMark = "\x01zkgrant supervises"

// orders are what a supervisor needs before it starts the command.
type orders struct {
	control, report uintptr        // file descriptors of its pipe ends
	foreground      bool           // the command gets the terminal
	apart           bool           // it gets a session of its own
	outputs         bool           // TTOU is ignored only by zkgrant itself
	json            bool           // as with --json
	asks            syscall.Signal // asks the command to end
	grace, timeout  time.Duration
}

const ordersFormat = "%d %d %t %t %t %t %d %d %d"

func (o orders) String() string {
	return fmt.Sprintf(ordersFormat, o.control, o.report, o.foreground, o.apart, o.outputs, o.json, int(o.asks), int64(o.grace), int64(o.timeout))
}

// zkgrant sends the supervisor ends of the lease, on the clock of sinceBoot, or
// dismissed.
const dismissed = -1 // the supervisor is no longer needed, and leaves the group alone

// What the supervisor reports to zkgrant, as a word and a number.
const (
	reportLate     = "late"     // 0: the lease has run out before the command was started
	reportStarting = "starting" // 0: the command is about to start; started or failed follows
	reportStarted  = "started"  // the command's PID
	reportFailed   = "failed"   // the errno of the failed start
	reportEnded    = "ended"    // the command's wait status
	reportGone     = "gone"     // the command's wait status, and nothing is left of the family

	reportHalted    = "halted"    // the signal that has halted the command
	reportContinued = "continued" // 0
	reportKilled    = "killed"    // 0: the lease known to the supervisor has run out
)

// superviseIfAsked turns this process into a supervisor if its arguments say so. In that
// case it does not return.
func superviseIfAsked() {
	atStart() // before anything catches a signal
	if len(os.Args) < 5 || os.Args[1] != supervisorMark {
		return
	}
	var o orders
	if _, err := fmt.Sscanf(os.Args[2], ordersFormat, &o.control, &o.report, &o.foreground, &o.apart, &o.outputs, &o.json, &o.asks, &o.grace, &o.timeout); err != nil {
		os.Exit(codeFailed)
	}
	s := &supervisor{orders: o, in: os.NewFile(o.control, "control"), out: os.NewFile(o.report, "report")}
	s.run(os.Args[3], os.Args[4:])
	os.Exit(0)
}

type supervisor struct {
	orders

	in, out *os.File
	family  family
	adopts  bool // descendants become its children when their own parents end
	ended   bool // the command itself
	status  int  // its wait status
	said    string
	killed  bool        // the command was sent KILL
	reports chan string // lines for zkgrant, which may be halted and not reading
	duty    duty.Duty
}

// run starts the command and returns when nothing is left to do.
func (s *supervisor) run(path string, argv []string) {
	runtime.LockOSThread() // the command dies with the thread that has started it
	syscall.CloseOnExec(int(s.control))
	syscall.CloseOnExec(int(s.report))
	s.adopts = adopt()
	nameSupervisor()
	// Signals to zkgrant's whole session must not end the supervisor. Since handlers are
	// not inherited, the command gets the defaults, or what zkgrant has inherited.
	catch(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	if s.outputs {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	const room = 16
	s.reports = make(chan string, room)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for line := range s.reports {
			_, _ = s.out.WriteString(line) // it fails only if zkgrant has ended
		}
	}()
	defer func() {
		close(s.reports)
		select {
		case <-written:
		case <-time.After(time.Second):
		}
	}()

	// Keep receiving while the command starts, which may take longer than the lease lasts.
	told := make(chan int64, 1) // the newest
	go func() {
		defer close(told)
		for {
			var at int64
			if binary.Read(s.in, binary.NativeEndian, &at) != nil {
				return
			}
			if push(told, at); at == dismissed {
				return
			}
		}
	}()
	first, ok := <-told
	if !ok || first == dismissed {
		return
	}
	s.duty = duty.Duty{Timeout: s.timeout, Lease: time.Unix(0, first)}
	if !sinceBoot().Before(s.duty.Lease) { // this process or zkgrant was halted
		s.say(reportLate, 0)
		return
	}
	s.say(reportStarting, 0)
	if err := s.start(path, argv); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		s.say(reportFailed, int(errno))
		return
	}
	s.say(reportStarted, s.family.group)
	s.watch(children, told)
}

func (s *supervisor) start(path string, argv []string) error {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	dieWithParent(attr.Sys)
	switch {
	case s.foreground:
		attr.Sys.Foreground, attr.Sys.Ctty = true, 0
	case s.apart:
		attr.Sys.Setpgid, attr.Sys.Setsid = false, true // setsid creates a group, too
	}
	group, err := syscall.ForkExec(path, argv, attr)
	s.family = familyOf(group, os.Getpid(), s.apart)
	return err
}

// watch carries out the duty until nothing is left of the family, or the supervisor is
// dismissed.
func (s *supervisor) watch(children <-chan os.Signal, told <-chan int64) {
	hears := func(at int64, ok bool) (over bool) {
		switch {
		case at == dismissed:
			return true
		case !ok: // zkgrant has ended, so nobody renews the lease
			told = nil
			s.duty.Grace, s.duty.Lost = s.grace, true
		default:
			s.duty.Lease = time.Unix(0, at)
		}
		return false
	}
	wake := time.NewTimer(0)
	for {
		select { // the known lease may be an old one
		case at, ok := <-told:
			if hears(at, ok) {
				return
			}
		default:
		}
		childless := s.reap()
		if s.ended {
			s.family = s.family.outlived()
		}
		s.duty.Empty = s.ended && (childless && s.adopts || s.family.gone())
		s.sayEnded()
		do, again := s.duty.Next(sinceBoot())
		for _, act := range do {
			switch act {
			case duty.Ask:
				_ = s.family.signal(s.asks) // if this fails, KILL follows
				_ = s.family.signal(syscall.SIGCONT)
			case duty.Kill:
				_ = s.family.signal(syscall.SIGKILL) // repeated
				if !s.killed {
					s.say(reportKilled, 0)
				}
				s.killed = true
			case duty.Leave:
				if s.duty.Lost { // otherwise zkgrant reports that, and dismisses this process
					s.complain()
					return
				}
			case duty.Release:
				return
			case duty.Lose, duty.Remind, duty.Stay: // zkgrant reports that
			}
		}
		// Keep the timer short: it stops while the machine is suspended, and the last
		// process of the family may be a child of a process outside it, whose end sends
		// no SIGCHLD here.
		wake.Reset(min(again.Sub(sinceBoot()), time.Second))
		select {
		case <-children:
		case <-wake.C:
		case at, ok := <-told:
			if hears(at, ok) {
				return
			}
		}
	}
}

// reap reaps the children that have ended, and reports halts of the command to zkgrant.
// It returns whether no child is left.
func (s *supervisor) reap() (childless bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid <= 0:
			return errors.Is(err, syscall.ECHILD)
		case status.Stopped() || status.Continued():
			// Drop reports of halts if the queue is half full, to leave room for the end.
			// A reader that is so far behind is halted itself, and does not need them.
			if group, err := unix.Getpgid(pid); err != nil || group != s.family.group || len(s.reports) > cap(s.reports)/2 {
				continue
			}
			if status.Stopped() {
				s.say(reportHalted, int(status.StopSignal()))
			} else {
				s.say(reportContinued, 0)
			}
		case pid == s.family.group && !s.ended:
			s.ended, s.status = true, int(status)
		}
	}
}

// sayEnded reports the end of the command, and the end of its family.
func (s *supervisor) sayEnded() {
	what := reportEnded
	if s.duty.Empty {
		what = reportGone
	}
	if s.ended && s.said != what && s.said != reportGone {
		s.said = what
		s.say(what, s.status)
	}
}

func (s *supervisor) say(what string, number int) {
	s.reports <- what + " " + strconv.Itoa(number) + "\n"
}

// complain reports that KILL has not ended the command.
func (s *supervisor) complain() {
	ignoreBackground()
	c, left := newConsole(os.Stderr, &settings{json: s.json}), s.family.members()
	c.say(report{Event: "failed", Error: "still running", Processes: left, loud: true, bad: true},
		"KILL has not ended %s, and nothing watches the lock any longer", processes(left))
	c.out.flush(time.Second)
}

// highPipe returns a pipe. theirs is the end for the supervisor, for writing or reading.
// It gets a high descriptor, so that it does not collide with one that the command
// inherits.
func highPipe(writes bool) (ours, theirs *os.File, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	original := in
	if ours = out; writes {
		ours, original = in, out
	}
	defer func() { _ = original.Close() }()
	high := 100
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) == nil {
		high = int(min(uint64(high), uint64(most.Cur)/2)) //nolint:unconvert // the field is signed on FreeBSD
	}
	fd, err := unix.FcntlInt(original.Fd(), unix.F_DUPFD, high)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("a pipe to the supervisor: %w", err), ours.Close())
	}
	return ours, os.NewFile(uintptr(fd), "pipe"), nil
}
