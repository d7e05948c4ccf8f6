package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/textfile"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// wanted is the lock to take, and how to take it.
type wanted struct {
	*settings

	flags       *pflag.FlagSet
	kind        string
	paths       []string
	permits     int
	size        int
	try         bool
	wait        time.Duration // the longest wait, if the flag is given
	conflict    int           // the exit code if the lock is not granted
	data        string
	revocable   bool
	detectCrash bool
	lockDelay   time.Duration
	leaves      bool           // release the lock when the command has ended, even if other processes of its group have not
	grace       *time.Duration // between the signal and KILL; nil: a tenth of the session timeout

	minHold time.Duration // hold the lock for at least this long, unless its end is requested

	gave bool         // the lock was released, not lost
	last textfile.Run // the outcome of the latest attempt
	file string       // where to write it; empty for nowhere

	isHold  bool // grace is --lead, and READY is sent at the grant, not in the queue
	again   bool // the lock is taken again after a loss,
	stopped bool // unless a signal has asked for the end,
	left    bool // or KILL has not ended the command
	manager *manager

	granted atomic.Int64 // the session timeout that the servers have granted, or 0
	orphans orphans
}

// sessionTimeout returns the session timeout that the servers have granted, or else the
// requested one.
func (w *wanted) sessionTimeout() time.Duration {
	if granted := time.Duration(w.granted.Load()); granted > 0 {
		return granted
	}
	return w.timeout
}

// graceOf returns the grace in a session with that timeout. The grace is part of the
// lease: the command is asked to end that long before the lease runs out.
func (w *wanted) graceOf(timeout time.Duration) (time.Duration, error) {
	if w.grace == nil {
		return timeout / 10, nil
	}
	if *w.grace < 0 || *w.grace > timeout/4 {
		flag := "--grace"
		if w.isHold {
			flag = "--lead"
		}
		return 0, fmt.Errorf(flag+" %v is not between 0 and a quarter of the session timeout of %v, which is %v", *w.grace, timeout, timeout/4)
	}
	return *w.grace, nil
}

const (
	kindElection  = "election"
	kindMulti     = "multi"
	kindSemaphore = "semaphore"
)

// given reports whether the command line has the flag. A zero that is given is no default.
func (w *wanted) given(flag string) bool { return w.flags.Changed(flag) }

// bindKind gives a command the flags that choose a lock.
func (w *wanted) bindKind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&w.kind, "kind", "k", "mutex", "the kind of lock: mutex, read, write or unfair")
	f.IntVarP(&w.permits, "permits", "n", 1, "how many of the semaphore's permits to take")
	f.IntVar(&w.size, "size", 0, "make the lock a semaphore with this many permits")
	w.bindHolding(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"mutex", "read", "write", "unfair"}, cobra.ShellCompDirectiveNoFileComp))
}

// bindHolding gives a command the flags for crash detection and revocation.
func (w *wanted) bindHolding(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&w.detectCrash, "detect-crash", false, "report an earlier holder that crashed")
	f.DurationVar(&w.lockDelay, "lock-delay", 0, "like --detect-crash, and wait this long after a crash; at most 1m")
	f.BoolVar(&w.revocable, "revocable", false, "let other clients revoke the lock, for example with zkgrant revoke")
}

// bindWait gives a command the flags for how long it waits.
func (w *wanted) bindWait(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&w.try, "try", false, "do not wait for the lock; wait for a server for --wait or 10s")
	f.DurationVarP(&w.wait, "wait", "w", 0, "the longest `time` to wait for the lock; 0 means --try (default: no limit)")
	f.IntVarP(&w.conflict, "conflict-code", "E", codeTaken, "the exit code if the lock is not granted with --try or within --wait")
	f.StringVar(&w.data, "data", "", "text shown to others in the queue (default: the host, the process and the program, without its arguments)")
	w.flags = f
}

// check finds contradictions in the flags.
func (w *wanted) check() error {
	_, graceErr := w.graceOf(w.timeout)
	switch {
	case graceErr != nil:
		return graceErr
	case w.minHold < 0:
		return errors.New("--min-hold must not be negative")
	case w.wait < 0:
		return errors.New("--wait must not be negative")
	case w.conflict < 0 || w.conflict > 255:
		return errors.New("--conflict-code must be from 0 to 255")
	case w.given("size") && w.size < 1:
		return errors.New("--size must be at least 1")
	case w.given("permits") && !w.given("size"):
		return errors.New("--permits needs --size, the size of the semaphore")
	case w.given("size") && (w.given("kind") || len(w.paths) > 1):
		return errors.New("--size takes one path and no --kind")
	}
	return nil
}

// acquirer is a lock handle of any kind.
type acquirer interface {
	Queue(ctx context.Context) ([]events.Contender, error)
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
}

// handle returns the handle that the flags describe, and names its kind.
func (w *wanted) handle(c *coordinator.Coordinator) (acquirer, string, error) {
	options := w.lockOptions()
	if w.revocable {
		options = append(options, coordinator.Revocable())
	}
	if w.detectCrash {
		options = append(options, coordinator.DetectCrash())
	}
	if w.given("lock-delay") {
		options = append(options, coordinator.LockDelay(w.lockDelay))
	}
	if w.kind == kindElection {
		return c.Election(w.paths[0], options...), kindElection, nil
	}
	if w.size > 0 {
		return c.Semaphore(w.paths[0], w.size, options...), kindSemaphore, nil
	}
	var locks []*coordinator.Lock
	for _, path := range w.paths {
		switch w.kind {
		case "mutex":
			locks = append(locks, c.Mutex(path, options...))
		case "read":
			locks = append(locks, c.ReadWrite(path, options...).Read())
		case "write":
			locks = append(locks, c.ReadWrite(path, options...).Write())
		case "unfair":
			locks = append(locks, c.Unfair(path, options...))
		default:
			return nil, "", fmt.Errorf("--kind must be mutex, read, write or unfair, not %s", w.kind)
		}
	}
	if len(locks) > 1 {
		return c.Multi(locks...), kindMulti, nil
	}
	return locks[0], w.kind, nil
}

// name returns the lock's name for messages.
func (w *wanted) name() string { return strings.Join(w.paths, " ") }

// acquisition returns the options of an acquisition: the data that others see in the
// queue, which says who contends and for what.
func (w *wanted) acquisition(what string) []coordinator.AcquireOption {
	data := w.data
	if !w.given("data") {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		data = fmt.Sprintf("%s pid %d: %s", host, os.Getpid(), what)
	}
	options := []coordinator.AcquireOption{coordinator.Data([]byte(data))}
	if w.size > 0 {
		options = append(options, coordinator.Permits(w.permits))
	}
	if w.tries() {
		options = append(options, coordinator.Try())
	}
	if most, ok := w.most(); ok {
		options = append(options, coordinator.MaxWait(most))
	}
	return options
}

// tries reports whether to take the lock only if it is free. As with flock, --wait 0
// means the same as --try.
func (w *wanted) tries() bool { return w.try || w.given("wait") && w.wait == 0 }

// most returns the longest time to wait. A try does not queue, so it waits only for a
// server.
func (w *wanted) most() (time.Duration, bool) {
	const forServers = 10 * time.Second
	switch {
	case w.wait > 0:
		return w.wait, true
	case w.tries():
		return forServers, true
	}
	return 0, false
}
