//go:build unix

package main

import (
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
	"github.com/zkgrant/zkgrant/events"
)

func newHold(s *settings) *cobra.Command {
	w := &wanted{settings: s}
	cmd := &cobra.Command{
		Use:   "hold [flags] PATH...",
		Short: "Hold a lock until standard input ends",
		Long: `hold waits for the lock and prints one line of JSON when it is granted. It releases the
lock when standard input ends, or on INT, TERM, HUP or QUIT. It exits with 123 if the
lock is lost, and with 124 if it is not granted before standard input ends, or within
--wait. If standard input is /dev/null, its end does not end hold.
` + codesHelp(),
		Example:           "  mkfifo held granted; zkgrant hold /locks/disk < held > granted & exec 3> held; read -r grant < granted",
		GroupID:           "hold",
		Args:              arguments(1, math.MaxInt, "give a path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.paths = args
			return w.work(newStay(s.console, cmd.OutOrStdout(), *w.grace > 0), "zkgrant hold")
		},
	}
	w.grace, w.isHold = new(time.Duration), true
	cmd.Flags().DurationVar(w.grace, "lead", 0, "notify the service manager this `time` before the lease runs out, so that it can stop the work;\nafter a signal, too, the lock is released only after that time; at most a quarter of the session timeout")
	w.bindKind(cmd)
	w.bindWait(cmd)
	return cmd
}

// stay is the work of the hold command. It lasts until standard input ends, or a signal
// comes.
type stay struct {
	*console

	out    io.Writer
	leads  bool // after a signal the lock is held until kill, so that a service manager can end the work
	asked  chan struct{}
	over   chan struct{}
	yield  func()        // closes asked, once
	finish func()        // closes both, once
	told   chan struct{} // closed once the Grant was printed
	failed atomic.Bool
}

func newStay(c *console, out io.Writer, leads bool) *stay {
	s := &stay{console: c, out: out, leads: leads, asked: make(chan struct{}), over: make(chan struct{}), told: make(chan struct{})}
	s.yield = sync.OnceFunc(func() { close(s.asked) })
	s.finish = sync.OnceFunc(func() { close(s.over); s.yield() })
	if null, err := os.Stat(os.DevNull); err == nil {
		if in, err := os.Stdin.Stat(); err != nil || os.SameFile(null, in) {
			return s
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it, too
		s.finish()
	}()
	return s
}

// start prints the Grant. It does not wait, because the reader may be slow or not read at
// all.
func (s *stay) start(grant events.Grant, kind string, _ terms) error {
	go func() {
		if err := object(s.out, granted(grant, kind)); err != nil {
			s.say(report{Event: "failed", Error: err.Error(), loud: true, bad: true}, "cannot print the grant: %v", err)
			s.failed.Store(true)
			s.finish()
			return
		}
		close(s.told)
	}()
	return nil
}

func (s *stay) renew(time.Time) {}

func (s *stay) ended() <-chan struct{} { return s.asked }

func (s *stay) late() bool { return false }

func (s *stay) pass(sig os.Signal, _ func() bool) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		s.ask()
	default:
	}
	return true
}

func (s *stay) halts() <-chan syscall.Signal { return nil }

func (s *stay) halted(syscall.Signal, func() bool) {}

func (s *stay) ask() {
	if s.leads {
		s.yield()
	} else {
		s.finish()
	}
}

func (s *stay) kill() { s.finish() }

func (s *stay) empty() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (s *stay) left() []int { return nil }

// printing is how long end waits for a write. Only one that is blocked, or has failed,
// takes as long.
const printing = 10 * time.Millisecond

// end counts the work as begun once the Grant was printed. Until then nobody can know of
// it. Its reader may end the work before the write has returned here.
func (s *stay) end() duty.End {
	select {
	case <-s.told:
		return duty.Done
	case <-time.After(printing):
		return duty.NotBegun
	}
}

func (s *stay) interrupted() bool { return false }

func (s *stay) code() int {
	if s.failed.Load() {
		return codeFailed
	}
	return 0
}

func (s *stay) reset() {}
