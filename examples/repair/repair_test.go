package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stage"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Three minutes of changes, of which every third dies half-way, and of half a minute in every minute without somebody,
// who is cut off for longer than a session lasts. Nobody sees half a change, and somebody repairs each.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		screen := &stage.Screen{}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, screen, program.Within(server, 6*time.Second), 2, 3) }()
		if err := stage.Accidents(server, 30*time.Second, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		check(t, screen)
		if children := server.Children(pairLock); len(children) > 0 {
			t.Errorf("left behind: %v", children)
		}
	})
}

// check looks at the last line.
func check(t *testing.T, screen *stage.Screen) {
	t.Helper()
	if !regexp.MustCompile(`[1-9]\d* times written, [1-9]\d* times read; died half-way [1-9]\d* times, repaired [1-9]\d* times`).MatchString(screen.String()) {
		t.Errorf("the last line should tell of changes, deaths and repairs:\n%s", screen)
	}
}

func TestControlC(t *testing.T) {
	repaired := func(s *stage.Screen) { s.Await(t, "whole false", 2) }
	for name, servers := range map[string]string{"double": zktest.Start(t).Addr(), "real": ensemble.Start(t, 1).Connect()} {
		t.Run(name, func(t *testing.T) {
			check(t, stage.ControlC(t, servers, pairLock, repaired, "-for", "0", "-timeout", "2s"))
		})
	}
}

func TestUsage(t *testing.T) {
	var stderr bytes.Buffer
	if code := command([]string{"-readers", "0"}, os.Stdout, &stderr); code != 2 || stderr.Len() == 0 {
		t.Errorf("exit code %d, %q; want 2 and a word why", code, &stderr)
	}
}
