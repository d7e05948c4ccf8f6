package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the process when the thread that starts it ends,
// and so also when this process ends for any reason.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adopt makes this process the new parent of descendants whose own parent has ended. It
// reports whether that succeeded.
func adopt() bool {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil // since Linux 3.4
}

// keepRunning continues the child whenever it is halted, until it ends.
func keepRunning(pid int) {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil || info.Code != cldStopped:
			return
		default:
			_ = unix.Kill(pid, unix.SIGCONT) // it cannot fail: the child was not reaped yet
		}
	}
}

const cldStopped = 5 // CLD_STOPPED of signal.h

// self returns the path of this program, even if its file was replaced. Without /proc it
// falls back to the file named by the first argument.
func self() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Lstat(link); err == nil {
		return link, nil
	}
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", fmt.Errorf("zkgrant cannot find its own program without /proc: %w", err)
	}
	return program, nil
}

// sinceBoot reads a clock that continues while the machine is suspended, and is the same
// in every process. It is not the time of day.
func sinceBoot() time.Time {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil { // before Linux 2.6.39
		return time.Now()
	}
	return time.Unix(t.Unix())
}
