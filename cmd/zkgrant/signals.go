//go:build unix

package main

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// signals are the signals sent to this process. Of each kind one is kept until it is
// received, as by the kernel, so that no number of one kind drops another: WINCH comes
// with each line by which a window grows, and TERM once.
type signals struct{ c chan os.Signal }

// listen catches signals until the process ends. It does not stop before: the Go runtime,
// left alone with a QUIT, writes to standard error first, which may be a full pipe.
func listen() *signals {
	s := &signals{make(chan os.Signal)}
	// A line for a reader that has ended must not end this process. A handler, unlike an
	// ignored signal, leaves the command the default.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ignoreBackground()
	for _, sig := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
		syscall.SIGTSTP, syscall.SIGCONT,
	} {
		one := make(chan os.Signal, 1)
		catch(one, sig)
		go func() {
			for sig := range one { // which is never closed
				s.c <- sig
			}
		}()
	}
	return s
}

// catch is signal.Notify without the signals that were ignored or blocked when this
// process started, as nohup does with HUP and a shell with INT and QUIT of what runs in
// the background. Those mean nothing to this process, and the command inherits them as
// they are.
func catch(to chan<- os.Signal, signals ...syscall.Signal) {
	ignored, blocked := atStart()
	for _, sig := range signals {
		if (ignored|blocked)>>(sig-1)&1 == 0 {
			signal.Notify(to, sig)
		}
	}
	// The Go runtime has installed its own handler for QUIT. A shell ignores INT and QUIT
	// together.
	if ignored>>(syscall.SIGINT-1)&1 == 1 {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// atStart returns the signals that were ignored, and those that were blocked, when this
// process started. The first call has to come before the first signal is caught: then the
// runtime gives its threads masks of their own.
//
//nolint:gochecknoglobals // what a process inherits
var atStart = sync.OnceValues(func() (ignored, blocked uint64) {
	return ignoredAtStart(), statusMask("SigBlk")
})

// ignoredAtStart returns the signals that were ignored when this process started, as far
// as the Go runtime leaves them so: HUP, INT, and the signals that halt a process; and
// QUIT with INT.
func ignoredAtStart() (set uint64) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if signal.Ignored(sig) {
			set |= 1 << (sig - 1)
		}
	}
	if set |= statusMask("SigIgn"); set>>(syscall.SIGINT-1)&1 == 1 {
		set |= 1 << (syscall.SIGQUIT - 1)
	}
	return set
}

// statusMask returns a set of signals from what the kernel says of this process. It is
// empty where the kernel does not.
func statusMask(name string) (set uint64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			set, _ = strconv.ParseUint(strings.TrimSpace(value), 16, 64) // the kernel writes it so
		}
	}
	return set
}

// whileWaiting acts on a signal before the Grant. It returns the exit code if the signal
// ends the wait.
func (s *signals) whileWaiting(sig os.Signal, c *console) int {
	switch sig {
	case syscall.SIGTSTP:
		if standing().Watched() {
			halt(c)
		}
	case syscall.SIGCONT, syscall.SIGWINCH:
	default:
		if number, ok := sig.(syscall.Signal); ok {
			return codeSignal + int(number)
		}
	}
	return 0
}

// halt does what TSTP does to a program that does not catch it. It may return a moment
// before the process is halted, so what comes afterwards is done on CONT.
func halt(c *console) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		c.say(report{Event: "failed", Error: err.Error(), loud: true}, "halting: %v", err)
	}
}
