//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/jobs"
)

// standing collects the facts about this process as a job.
func standing() jobs.Job {
	ignored, _ := atStart()
	j := jobs.Job{
		PID: os.Getpid(), Group: syscall.Getpgrp(), Contained: contained(), Supervised: supervised(),
		Unstopped: ignored>>(syscall.SIGTSTP-1)&1 == 1, Foreground: foreground(),
	}
	j.Session, _ = unix.Getsid(0) // it cannot fail
	members := visible(func(p stat) bool { return p.group == j.Group })
	if members == nil { // there is no /proc
		members = []stat{{parent: os.Getppid()}}
	}
	for _, p := range members {
		m := jobs.Member{Ended: p.ended(), Parent: p.parent}
		if p.parent != 0 {
			// If the parent has ended meanwhile, it will not continue us.
			m.ParentGroup, _ = unix.Getpgid(p.parent)
			m.ParentSession, _ = unix.Getsid(p.parent)
		}
		j.Members = append(j.Members, m)
	}
	return j
}

// supervised reports whether another zkgrant's supervisor is among the ancestors of this
// process, as far as they can be seen.
func supervised() bool {
	for at := os.Getppid(); at > 1; {
		p, ok := processStat(at)
		if !ok || p.supervises {
			return ok
		}
		at = p.parent
	}
	return false
}

// foreground returns the group in the foreground of this process's terminal, or 0.
func foreground() (group int) {
	_ = atTerminal(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group
}

// setForeground puts a group into the foreground of this process's terminal. In the
// background this works only while TTOU is ignored.
func setForeground(group int) error {
	return atTerminal(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) })
}

func atTerminal(do func(fd int) error) error {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(fd), unix.Close(fd))
}

// ignoreBackground lets this process write to the terminal from the background, even
// after `stty tostop`, which would otherwise halt it.
func ignoreBackground() { signal.Ignore(syscall.SIGTTOU) }
