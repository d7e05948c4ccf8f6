package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Three minutes of reading and writing, of which half a minute in every minute
// without somebody, who is cut off for longer than a session lasts. Nobody sees
// what the lock forbids, the writers who look at their own work included.
func TestReadersAndWriters(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		screen := &stagetest.Screen{}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, screen, program.Within(server, 6*time.Second), 4) }()
		if err := stagetest.Accidents(server, 30*time.Second, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		check(t, screen)
		if !strings.Contains(screen.String(), "editor  has read version") {
			t.Error("the editor has written nothing")
		}
		if left := server.Children(pricesLock); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// check looks at the last line: there were changes, readings, and readers together.
func check(t *testing.T, screen *stagetest.Screen) {
	t.Helper()
	if !regexp.MustCompile(`[1-9]\d* times written, [1-9]\d* times read; at most [2-9] read at a time`).MatchString(screen.String()) {
		t.Errorf("the last line should tell of changes and readers together:\n%s", screen)
	}
}

// What must not be seen is seen.
func TestTableNotices(t *testing.T) {
	prices := &table{}
	_, done := prices.open()
	if _, err := prices.change(t.Context()); !isBroken(err) {
		t.Errorf("%v: it was read", err)
	}
	done()
	if _, err := prices.change(t.Context()); err != nil {
		t.Error(err)
	}
	if err := prices.enter(); err != nil {
		t.Error(err)
	}
	if err := prices.enter(); !isBroken(err) {
		t.Errorf("%v: it was written", err)
	}
}
