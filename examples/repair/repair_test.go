package main

import (
	"context"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Three minutes of changes, of which every third dies half-way. For half of each minute one session is cut off, for longer than it lasts.
// No reader sees half a change, and each half change is repaired.
func TestEachHalfChangeIsRepaired(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.Accidents(t, 3*time.Minute, 30*time.Second, func(ctx context.Context) error {
			return run(ctx, p, p.ZK, 2, 3)
		})
		last := regexp.MustCompile(`[1-9]\d* times written, [1-9]\d* times read; died half-way [1-9]\d* times, repaired [1-9]\d* times`)
		if !last.MatchString(p.String()) {
			t.Errorf("printed %s\nwant a last line like %v", p, last)
		}
		eventstest.Eventually(t, "the session of a writer that was cut off at the end has expired", func() bool {
			return len(p.Server.Sessions()) == 0
		})
		p.Empty(t, pairLock)
	})
}
