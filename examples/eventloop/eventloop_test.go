package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachLockIsGrantedOnBothSides(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		screen := &stagetest.Screen{}
		opt := options{zk: stagetest.Open(t, "", 6*time.Second), locks: 500, hold: 20 * time.Millisecond, terminal: terminal}
		if err := run(t.Context(), screen, opt); err != nil {
			t.Fatal(err)
		}
		screen.Must(t, "left   granted 500, lost 0", "right  granted 500, lost 0", "1000 grants in", "100%")
	}
}

// A side whose session is over asks again for what it has lost, and does not give
// back before its time what it then gets.
func TestLoopLosesASession(t *testing.T) {
	server := zktest.Start(t)
	l := newLoop(stagetest.Connect(t, server.Addr()), stagetest.Connect(t, server.Addr()), io.Discard, options{hold: time.Hour})
	left := l.sides[0]
	left.news = left.c.Events(t.Context())
	handle := func(until func() bool) {
		t.Helper()
		for !until() {
			if err := l.handle(t.Context(), left, eventstest.Receive(t, left.news, "an event of the left side")); err != nil {
				t.Fatal(err)
			}
		}
	}
	left.ask(t.Context(), lockRoot+"/lock")
	handle(func() bool { return left.grants == 1 })
	if err := server.Expire(left.c.SessionID()); err != nil {
		t.Fatal(err)
	}
	handle(func() bool { return left.losses == 1 })
	if len(left.held) != 0 || len(left.under) != 1 {
		t.Errorf("%d locks held and %d asked for; want none and the one that was lost", len(left.held), len(left.under))
	}
	handle(func() bool { return left.grants == 2 })

	l.giveBack(l.dues[0].at) // of the first Grant
	if len(left.held) != 1 {
		t.Error("the second Grant was given back at the time of the first")
	}
	l.giveBack(l.dues[0].at)
	handle(func() bool { return left.finished == 1 })
	if len(left.held)+len(left.under)+len(l.dues) != 0 {
		t.Errorf("in the loop's books are left %d locks held, %d asked for and %d dues; want none", len(left.held), len(left.under), len(l.dues))
	}
}

// The loop notices a second holder.
func TestLoopNoticesTwoHolders(t *testing.T) {
	server := zktest.Start(t)
	// The two sides are on two servers, so that neither sees the other's nodes.
	other := zktest.Start(t)
	left, right := stagetest.Connect(t, server.Addr()), stagetest.Connect(t, other.Addr())
	l := newLoop(left, right, io.Discard, options{locks: 3, hold: time.Second})
	if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "both held") {
		t.Errorf("%v, want which lock both held", err)
	}
}

// A lock that cannot be had ends the program with the reason.
func TestLoopReportsARefusal(t *testing.T) {
	refused := errors.New("refused")
	l := newLoop(nil, nil, io.Discard, options{})
	err := l.handle(t.Context(), l.sides[0], events.Ended{Path: "/path", Err: refused})
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "left: /path") {
		t.Errorf("%v, want %v with side and path", err, refused)
	}
}

func TestInterruptedRun(t *testing.T) {
	for _, at := range []struct {
		name  string
		locks int
		hold  time.Duration
	}{{"among grants and releases", 2000, time.Millisecond}, {"waiting", 200, time.Hour}} {
		t.Run(at.name, func(t *testing.T) {
			server := zktest.Start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			screen := &stagetest.Screen{}
			screen.When("[", 1, cancel)
			err := run(ctx, screen, options{zk: program.Within(server, 6*time.Second), locks: at.locks, hold: at.hold, terminal: true})
			t.Log(screen)
			if !errors.Is(err, program.ErrInterrupted) {
				t.Errorf("%v, want %v", err, program.ErrInterrupted)
			}
			if left := stagetest.Ephemerals(t, server.Addr(), lockRoot); len(left) > 0 {
				t.Errorf("left behind: %v, want no node of a session", left)
			}
		})
	}
}
