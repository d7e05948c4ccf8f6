package main

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Three minutes of changes, of which every third dies half-way, and of half a minute in every minute without somebody,
// who is cut off for longer than a session lasts. Nobody sees half a change, and somebody repairs each.
func TestRepair(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		screen := &stagetest.Screen{}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, screen, program.Within(server, 6*time.Second), 2, 3) }()
		if err := stagetest.Accidents(server, 30*time.Second, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		check(t, screen)
		if children := server.Children(pairLock); len(children) > 0 {
			t.Errorf("left behind: %v", children)
		}
	})
}

// check looks at the last line.
func check(t *testing.T, screen *stagetest.Screen) {
	t.Helper()
	if !regexp.MustCompile(`[1-9]\d* times written, [1-9]\d* times read; died half-way [1-9]\d* times, repaired [1-9]\d* times`).MatchString(screen.String()) {
		t.Errorf("the last line should tell of changes, deaths and repairs:\n%s", screen)
	}
}
