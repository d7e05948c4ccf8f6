package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newShow() *show {
	return &show{out: &eventstest.Screen{}, holders: map[string]*coordinator.Acquisition{}, counts: map[string]*count{}}
}

// Both loops are granted each lock. An interrupted program leaves no session, hence no
// node, which Bubble checks.
func TestRun(t *testing.T) {
	for name, at := range map[string]string{
		"to the end": "", "interrupted among grants": "left has had 100,", "interrupted among releases": "right has had 500,",
	} {
		t.Run(name, func(t *testing.T) {
			stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var want error
				if at != "" {
					want = context.Canceled
					p.When(at, 1, cancel)
				}
				eventstest.ErrorIs(t, run(ctx, p, p.ZK, 500, time.Second), want, "the end of the program")
				if at == "" {
					p.Must(t, "left   granted 500, lost 0", "right  granted 500, lost 0", "1000 grants in")
				}
			})
		})
	}
}

// A loop whose session ends requests its lost locks again, and holds each new Grant for
// its full time.
func TestLoopLosesASession(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		l := newShow().newLoop("left", p.Connect(t), time.Hour)
		handle := func(until func() bool) {
			t.Helper()
			for !until() {
				eventstest.Must(t, l.handle(t.Context(), eventstest.Receive(t, l.group.Events(), "an event")))
			}
		}
		n := l.show.counts["left"]
		l.ask(t.Context(), lockRoot+"/lock")
		handle(func() bool { return n.grants == 1 })
		first := l.dues[0].lock.ID()
		eventstest.Must(t, p.Server.Expire(l.c.SessionID()))
		handle(func() bool { return n.losses == 1 && len(l.under) == 1 && l.under[first] == nil })
		eventstest.Expect(t, len(l.held) == 0 && len(l.under) == 1,
			"%d locks held and %d asked for; want none and the one that was lost", len(l.held), len(l.under))
		handle(func() bool { return n.grants == 2 })

		l.giveBack(l.dues[0].at) // when the first Grant was due
		eventstest.Expect(t, len(l.held) == 1, "the second Grant was given back at the time of the first")
		l.giveBack(l.dues[0].at)
		handle(func() bool { return l.finished == 1 })
		if len(l.held)+len(l.under)+len(l.dues) != 0 {
			t.Errorf("in the loop's books are left %v held, %v asked for and the dues %v; want none", l.held, l.under, l.dues)
		}
	})
}

// The show notices a second holder. The two loops use different servers, so neither sees
// the other's nodes.
func TestTwoHoldersAreNoticed(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		s, other := newShow(), zktest.Start(t)
		left := s.newLoop("left", p.Connect(t), time.Second)
		right := s.newLoop("right", stagetest.Connect(t, other.Addr(), other.Option()), time.Second)
		ended := make(chan error, 2)
		for _, l := range []*loop{left, right} {
			go func() { ended <- l.run(t.Context(), []string{lockRoot + "/a", lockRoot + "/b"}) }()
		}
		eventstest.Contains(t, fmt.Sprint(errors.Join(<-ended, <-ended)), "both held", "the loops' ends")
	})
}

// If a lock is refused, the loop ends with the reason.
func TestLoopReportsARefusal(t *testing.T) {
	refused := errors.New("refused")
	err := newShow().newLoop("left", nil, 0).handle(t.Context(), events.Ended{Path: "/path", Err: refused})
	eventstest.Expect(t, errors.Is(err, refused) && strings.Contains(err.Error(), "left: /path"),
		"%v, want %v with the loop and the path", err, refused)
}
