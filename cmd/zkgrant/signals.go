//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are the signals sent to this process.
type signals struct {
	c chan os.Signal // room for one of each kind
}

// listen catches signals until stop.
func listen() *signals {
	s := &signals{make(chan os.Signal, 16)}
	// A line for a reader that has ended must not end this process. A handler, unlike an ignored
	// signal, leaves the command the default.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signal.Notify(s.c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)
	return s
}

func (s *signals) stop() { signal.Stop(s.c) }

// whileWaiting acts on a signal before the Grant. It returns the exit code if the signal ends the wait.
func (s *signals) whileWaiting(sig os.Signal, c *console) int {
	switch sig {
	case syscall.SIGTSTP:
		halt(c)
	case syscall.SIGCONT, syscall.SIGWINCH:
	default:
		if number, ok := sig.(syscall.Signal); ok {
			return codeSignal + int(number)
		}
	}
	return 0
}

// halt does what TSTP does to a program that does not catch it. It may return a moment before the process is halted, so what comes
// afterwards is done on CONT.
func halt(c *console) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		c.say(report{Event: "failed", Error: err.Error(), loud: true}, "halting: %v", err)
	}
}
