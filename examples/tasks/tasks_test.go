package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each task is done once, and the one over which somebody died is begun twice.
func TestEachTaskIsDoneOnce(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		if err := run(t.Context(), p, p.ZK, options{tasks: 1000, workers: 8, each: time.Second}); err != nil {
			t.Errorf("the program ended with %v, want success", err)
		}
		p.Must(t, "worker 1  is dead", "again\n", "1000 tasks done, each once; begun 1001 times")
		p.Empty(t, claims)
	})
}

// A dead worker's claim stays while its session does, and the others see whose it is.
func TestClaimOfTheDead(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		began := time.Now()
		if err := run(t.Context(), p, p.ZK, options{tasks: 24, workers: 8, each: 100 * time.Millisecond}); err != nil {
			t.Errorf("the program ended with %v, want success", err)
		}
		p.Must(t, "claimed by worker 1", "24 tasks done, each once; begun 25 times")
		if took := time.Since(began); took < p.ZK.Timeout {
			t.Errorf("the claim of the dead was over after %v, want its session's %v or more", took, p.ZK.Timeout)
		}
	})
}

// All who are at work are cut off for longer than a session lasts: their tasks are
// done again, and nobody marks a task as done that has become somebody else's.
func TestAccidents(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		ended := make(chan error, 1)
		go func() {
			ended <- run(t.Context(), p, p.ZK, options{tasks: 40, workers: 8, each: 20 * time.Second})
		}()
		time.Sleep(10 * time.Second) // all are at their first task
		sessions := p.Server.Sessions()
		for _, session := range sessions[:4] {
			p.Server.Mute(session, true)
		}
		time.Sleep(20 * time.Second)
		for _, session := range sessions[:4] {
			p.Server.Mute(session, false)
		}
		if err := <-ended; err != nil {
			t.Errorf("the program ended with %v, want success", err)
		}
		p.Must(t, "LOST its claim", "40 tasks done, each once")
		p.Empty(t, claims)
	})
}

// What must not be is noticed, and a past claim does not count.
func TestTheBoardNoticesWhatMustNotBe(t *testing.T) {
	b := newBoard(2)
	if b.begin(0, 5) != 1 || b.begin(0, 7) != 2 {
		t.Error("an open task was not begun a first and a second time")
	}
	if err := b.finish(0, 5); err != nil {
		t.Error(err)
	}
	if open := b.open(); len(open) != 2 {
		t.Errorf("open after a past claim's end are %v, want both tasks", open)
	}
	if err := b.finish(0, 7); err != nil {
		t.Error(err)
	}
	if err := b.finish(0, 7); err == nil {
		t.Error("a task is done twice, and nobody says so")
	}
	if b.begin(0, 9) != 0 {
		t.Error("the task is done already")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for the task that is left ends with %v, want %v", err, context.Canceled)
	}
}
