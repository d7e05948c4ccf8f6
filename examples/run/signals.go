//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are those sent to this process.
type signals struct {
	c chan os.Signal // capacity enough for one of each kind
}

// listen catches signals until stop.
func listen() *signals {
	s := &signals{make(chan os.Signal, 16)}
	signal.Notify(s.c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)
	return s
}

func (s *signals) stop() { signal.Stop(s.c) }

// whileWaiting deals with a signal while there is no command, and returns the exit
// code if that is the end.
func (s *signals) whileWaiting(sig os.Signal) int {
	switch sig {
	case syscall.SIGTSTP:
		halt()
	case syscall.SIGCONT, syscall.SIGWINCH:
	default:
		if number, ok := sig.(syscall.Signal); ok {
			return codeSignal + int(number)
		}
	}
	return 0
}

// pass deals with a signal while the command runs: it is passed on.
func (s *signals) pass(sig os.Signal, command *group, valid func() bool) {
	switch sig {
	case syscall.SIGTSTP:
		// Nobody looks after the lock while this process is halted, so the command is
		// first. It gets STOP, which it cannot ignore.
		command.signal(syscall.SIGSTOP)
		halt()
	case syscall.SIGCONT:
		// The lock may have gone in the meantime; the loss, which is then about to be
		// told, ends the command.
		if valid() {
			command.signal(syscall.SIGCONT)
		}
	default:
		if number, ok := sig.(syscall.Signal); ok {
			command.signal(number)
		}
	}
}

// halt does what TSTP does to a program that does not catch it. It may return a
// moment before the process is halted: what is to be done afterwards is done on
// CONT.
func halt() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		say("halting: %v", err)
	}
}
