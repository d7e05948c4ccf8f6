//go:build unix

package main

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// signals delivers the signals sent to this process. Like the kernel, it keeps one
// pending signal of each kind, so that many of one kind cannot crowd out another: a
// resized window sends lots of WINCH, but TERM comes only once.
type signals struct{ c chan os.Signal }

// listen catches signals until the process ends. It never stops earlier, because the Go
// runtime's own handler for QUIT writes to standard error, which may be a full pipe.
func listen() *signals {
	s := &signals{make(chan os.Signal)}
	// Writing to a reader that has exited must not kill this process. A handler is not
	// inherited, while an ignored signal would stay ignored in the command.
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

// catch is signal.Notify, except for signals that were ignored or blocked when this
// process started. For example, nohup ignores HUP, and a shell ignores INT and QUIT for
// background jobs. This process leaves them alone, and the command inherits them
// unchanged.
func catch(to chan<- os.Signal, signals ...syscall.Signal) {
	ignored, blocked := atStart()
	for _, sig := range signals {
		if (ignored|blocked)>>(sig-1)&1 == 0 {
			signal.Notify(to, sig)
		}
	}
	// The Go runtime has replaced an ignored QUIT with its own handler. Shells ignore INT
	// and QUIT together.
	if ignored>>(syscall.SIGINT-1)&1 == 1 {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// dieOfInterrupt ends the process with INT. After Ctrl-C, a shell continues its script or
// loop if a program exits with 130, because the program may have used Ctrl-C for something
// else, as editors do. dieOfInterrupt returns if INT cannot end the process.
func dieOfInterrupt() {
	if os.Getpid() == 1 || signal.Ignored(syscall.SIGINT) { // the kernel protects process 1
		return
	}
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(os.Getpid(), syscall.SIGINT) == nil {
		<-time.After(time.Second) // another thread may get it
	}
}

// atStart returns the signals that were ignored, and those that were blocked, when this
// process started. It must first be called before any signal is caught, because that
// changes the signal masks of the runtime's threads.
//
//nolint:gochecknoglobals // what a process inherits
var atStart = sync.OnceValues(func() (ignored, blocked uint64) {
	return ignoredAtStart(), statusMask("SigBlk")
})

// ignoredAtStart returns the signals that were ignored when this process started, as far
// as the Go runtime keeps them ignored: HUP, INT, and the signals that halt a process.
// QUIT is added if INT was ignored.
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

// statusMask returns a set of signals from this process's status in /proc. It is empty
// without /proc.
func statusMask(name string) (set uint64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			set, _ = strconv.ParseUint(strings.TrimSpace(value), 16, 64) // the kernel always writes hexadecimal
		}
	}
	return set
}

// whileWaiting handles a signal before the Grant. It returns the exit code if the signal
// ends the wait, otherwise 0.
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
// before the process is halted, so callers do the rest of the work on CONT.
func halt(c *console) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		c.say(report{Event: "failed", Error: err.Error(), loud: true}, "cannot halt: %v", err)
	}
}
