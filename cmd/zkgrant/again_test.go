//go:build unix

package main

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/duty"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// unstarted is work that is never to be started.
type unstarted struct{}

func (unstarted) start(events.Grant, string, terms) error { return errors.New("it was started") }
func (unstarted) renew(time.Time)                         {}
func (unstarted) ended() <-chan struct{}                  { return nil }
func (unstarted) late() bool                              { return false }
func (unstarted) pass(os.Signal, func() bool) bool        { return false }
func (unstarted) halts() <-chan syscall.Signal            { return nil }
func (unstarted) halted(syscall.Signal, func() bool)      {}
func (unstarted) ask()                                    {}
func (unstarted) kill()                                   {}
func (unstarted) empty() bool                             { return false }
func (unstarted) left() []int                             { return nil }
func (unstarted) end() duty.End                           { return duty.NotBegun }
func (unstarted) code() int                               { return 0 }
func (unstarted) reset()                                  {}

// A Grant that is lost before it was taken starts nothing. The command ends with the code of a loss, and --again campaigns again after it.
func TestLostBeforeItWasTaken(t *testing.T) {
	ctx := eventstest.Patiently(t, time.Minute)
	server := zktest.Start(t)
	server.Down(true) // until the events are listened to
	s := &settings{servers: server.Addr(), timeout: 10 * time.Second, verbose: true}
	s.console = newConsole(os.Stderr, s)
	var said eventstest.Screen
	busy, goOn := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { // the goroutine that holds the lock is busy while the Grant comes and goes
		close(busy)
		<-goOn
	})
	s.divert(func(line string) {
		if said.Say("%s", line); strings.Contains(line, "connected to") {
			first()
		}
	})
	c, err := s.open()
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, c.Close()) }()
	granted, expired := make(chan events.Event, 1), make(chan events.Event, 1)
	news := c.Events(ctx)
	go func() {
		for ev := range news {
			switch ev.(type) {
			case events.Grant:
				granted <- ev
			case events.SessionExpired:
				expired <- ev
			}
		}
	}()
	w := &wanted{settings: s, kind: kindElection, permits: 1, paths: []string{lockPath}, conflict: codeTaken}
	signals := &signals{make(chan os.Signal)}
	ended := make(chan error, 1)
	go func() {
		code, err := w.hold(c, signals, unstarted{}, "")
		if err == nil && code != codeLost {
			err = &exit{code: code}
		}
		ended <- err
	}()
	signals.c <- syscall.SIGWINCH // taken once hold listens, and means nothing to it
	server.Down(false)
	eventstest.Receive(t, busy, "the session")
	eventstest.Receive(t, granted, "the Grant")
	expire(t, server)
	eventstest.Receive(t, expired, "the loss")
	close(goOn)
	if err := eventstest.Receive(t, ended, "the end of the work"); err != nil {
		t.Errorf("it ends with %v, want the code %d and no error", err, codeLost)
	}
	said.Must(t, "LOST "+lockPath)
}

// TestWhichWarningsAreShown: before there is a session all of them, and afterwards what no event tells, that servers
// leave a lock waiting.
func TestWhichWarningsAreShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level              slog.Level
		verbose, connected bool
		text               string
		shown              bool
		quiet              bool
	}{
		{slog.LevelWarn, false, false, "any", true, false},
		{slog.LevelWarn, false, false, "any", false, true},
		{slog.LevelWarn, false, true, "any", false, false},
		{slog.LevelWarn, true, true, "any", true, false},
		{slog.LevelWarn, false, true, session.TurnedAway, true, false},
		{slog.LevelWarn, false, true, session.TurnedAway, false, true},
		{slog.LevelError, false, true, "any", true, false},
		{slog.LevelInfo, true, false, "any", false, false},
	} {
		var lines []string
		out := newConsole(os.Stderr, &settings{verbose: c.verbose, quiet: c.quiet})
		out.divert(func(line string) { lines = append(lines, line) })
		out.connected.Store(c.connected)
		slog.New(warnings{out}).Log(t.Context(), c.level, c.text, "error", "its cause")
		if shown := slices.Contains(lines, "zkgrant: "+c.text+", error: its cause"); shown != c.shown {
			t.Errorf("%+v: the lines are %q", c, lines)
		}
	}
}

// After a TERM that the command ignores, a loss is the end: what was stopped does not lead again.
func TestAStoppedLeaderDoesNotCampaignAgain(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	line := []string{"elect", "--again", "-v", "--servers", server.Addr(), "--session-timeout", "1s", lockPath}
	run := begin(t, "", append(line, commandLine("stubborn")...)...)
	ready(t, run, "command")
	run.Send(syscall.SIGTERM)
	run.Await(t, "command got "+syscall.SIGTERM.String(), 1)
	expire(t, server)
	run.Exits(codeLost)
	if n := run.Count("granted " + lockPath); n != 1 {
		t.Errorf("it was granted %d times, want once\n%s", n, run)
	}
}
