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

// Between zkgrant and its command stands a supervisor: this program once more. It starts
// the command, adopts and reaps what the command leaves behind, and has the same duty as
// zkgrant. So the command is dead in time also if zkgrant is killed or halted:
//
//  1. zkgrant tells the supervisor each new end of the lease, by the first pipe.
//  2. zkgrant is killed: the pipe ends, and the supervisor ends the command as after a
//     loss.
//  3. zkgrant is halted: the last end that it has told passes, and the supervisor sends
//     KILL.
//
// If the supervisor is killed, the kernel kills the command with it, and zkgrant the
// group. The supervisor never uses os/exec, whose waits would miss what the supervisor
// has reaped.

// supervisorMark is the first argument of a supervisor. The second one is its orders.
const supervisorMark = "\x01zkgrant supervises"

// orders are what a supervisor has to know before it starts the command.
type orders struct {
	control, report uintptr        // its ends of the pipes
	foreground      bool           // the command gets the terminal
	apart           bool           // it gets a session of its own
	outputs         bool           // TTOU is ignored only by zkgrant itself
	asks            syscall.Signal // asks the command to end
	grace, timeout  time.Duration
}

const ordersFormat = "%d %d %t %t %t %d %d %d"

func (o orders) String() string {
	return fmt.Sprintf(ordersFormat, o.control, o.report, o.foreground, o.apart, o.outputs, int(o.asks), int64(o.grace), int64(o.timeout))
}

// What zkgrant tells the supervisor: a time of the clock sinceBoot, or dismissed.
const dismissed = -1 // the supervisor is not needed any more, and leaves the group alone

// What the supervisor reports to zkgrant, as a word and a number.
const (
	reportLate     = "late"     // 0: the lease has run out before the command was started
	reportStarting = "starting" // 0: the command is about to start, and starts or fails
	reportStarted  = "started"  // the command's process
	reportFailed   = "failed"   // why it was not started, an errno
	reportEnded    = "ended"    // the command's wait status
	reportGone     = "gone"     // the same, and nothing is left of the family

	reportHalted    = "halted"    // the signal that has halted the command
	reportContinued = "continued" // 0
	reportKilled    = "killed"    // 0: the lease that the supervisor knows of has run out
)

// superviseIfAsked makes this process a supervisor if its arguments say so. It does not
// return then.
func superviseIfAsked() {
	atStart() // before anything catches a signal
	if len(os.Args) < 5 || os.Args[1] != supervisorMark {
		return
	}
	var o orders
	if _, err := fmt.Sscanf(os.Args[2], ordersFormat, &o.control, &o.report, &o.foreground, &o.apart, &o.outputs, &o.asks, &o.grace, &o.timeout); err != nil {
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
	adopts  bool // what descends from this process is among its children at the latest when its own parent has ended
	ended   bool // the command itself
	status  int  // with which it has ended
	said    string
	killed  bool        // the command was sent KILL
	reports chan string // lines for zkgrant, which may be halted and not read them
	duty    duty.Duty
}

// run starts the command and returns when nothing is left to do.
func (s *supervisor) run(path string, argv []string) {
	runtime.LockOSThread() // the command dies with the thread that has started it
	syscall.CloseOnExec(int(s.control))
	syscall.CloseOnExec(int(s.report))
	s.adopts = adopt()
	nameSupervisor()
	// What is sent to zkgrant's whole session must not end its supervisor. The command
	// gets the defaults, since the signals have handlers here, or what zkgrant has
	// inherited.
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
			_, _ = s.out.WriteString(line) // if nobody reads it, zkgrant has ended
		}
	}()
	defer func() {
		close(s.reports)
		select {
		case <-written:
		case <-time.After(time.Second):
		}
	}()

	// The first deadline comes before the command starts.
	first, err := s.hear()
	if err != nil || first == dismissed {
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
	s.watch(children)
}

func (s *supervisor) start(path string, argv []string) error {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	dieWithParent(attr.Sys)
	switch {
	case s.foreground:
		attr.Sys.Foreground, attr.Sys.Ctty = true, 0
	case s.apart:
		attr.Sys.Setpgid, attr.Sys.Setsid = false, true // which makes a group, too
	}
	group, err := syscall.ForkExec(path, argv, attr)
	s.family = familyOf(group, os.Getpid(), s.apart)
	return err
}

// watch keeps the duty until nothing is left of the family, or the supervisor is
// dismissed.
func (s *supervisor) watch(children <-chan os.Signal) {
	told := make(chan int64)
	go func() {
		defer close(told)
		for {
			at, err := s.hear()
			if err != nil {
				return
			}
			told <- at
		}
	}()
	wake := time.NewTimer(0)
	for {
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
				_ = s.family.signal(s.asks) // what fails here is followed by KILL
				_ = s.family.signal(syscall.SIGCONT)
			case duty.Kill:
				_ = s.family.signal(syscall.SIGKILL) // repeated
				if !s.killed {
					s.say(reportKilled, 0)
				}
				s.killed = true
			case duty.Leave:
				if s.duty.Lost { // otherwise zkgrant says so, and dismisses this process
					s.complain()
					return
				}
			case duty.Release:
				return
			case duty.Lose, duty.Remind, duty.Stay: // zkgrant reports that
			}
		}
		// The timer stands still while the machine is suspended, so it is a short one.
		// And the last process of the family may be a child of one that has left it.
		wake.Reset(min(again.Sub(sinceBoot()), time.Second))
		select {
		case <-children:
		case <-wake.C:
		case at, ok := <-told:
			switch {
			case at == dismissed:
				return
			case !ok: // zkgrant has ended, and nobody renews the lease
				told = nil
				s.duty.Grace, s.duty.Lost = s.grace, true
			default:
				s.duty.Lease = time.Unix(0, at)
			}
		}
	}
}

// reap waits for the children that have ended, and reports when the command is halted. It
// reports whether no child is left.
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
			// A halt that finds no room is dropped, so that there is room for the end.
			// Its reader is halted, and asks nothing of the command.
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

// sayEnded reports the end of the command, and that of its family.
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

// hear returns what zkgrant tells next.
func (s *supervisor) hear() (at int64, err error) {
	err = binary.Read(s.in, binary.NativeEndian, &at)
	return at, err
}

func (s *supervisor) say(what string, number int) {
	s.reports <- what + " " + strconv.Itoa(number) + "\n"
}

// complain says that KILL does not end the command.
func (s *supervisor) complain() {
	ignoreBackground()
	c := newConsole(os.Stderr, &settings{})
	c.say(report{Event: "failed", loud: true, bad: true}, "KILL has not ended %s, and nothing watches the lock any longer", processes(s.family.members()))
	c.out.flush(time.Second)
}

// highPipe returns a pipe whose end for the supervisor, to write or to read, stays open
// in it. The number of that end is high, so that it is not one that the command inherits.
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
		high = int(min(uint64(high), uint64(most.Cur)/2)) //nolint:unconvert // FreeBSD has a signed one
	}
	fd, err := unix.FcntlInt(original.Fd(), unix.F_DUPFD, high)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("a pipe to the supervisor: %w", err), ours.Close())
	}
	return ours, os.NewFile(uintptr(fd), "pipe"), nil
}
