package main

import (
	"context"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Three minutes of changes, of which every third dies half-way, and of half a minute in every minute without somebody,
// who is cut off for longer than a session lasts. Nobody sees half a change, and somebody repairs each.
func TestEachHalfChangeIsRepaired(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.Accidents(t, 3*time.Minute, 30*time.Second, func(ctx context.Context) error {
			return run(ctx, p, p.ZK, 2, 3)
		})
		last := regexp.MustCompile(`[1-9]\d* times written, [1-9]\d* times read; died half-way [1-9]\d* times, repaired [1-9]\d* times`)
		if !last.MatchString(p.String()) {
			t.Errorf("printed %s\nwant a last line like %v", p, last)
		}
		time.Sleep(8 * time.Second) // the session of a writer that was cut off at the end expires: its timeout, and a tick
		p.Empty(t, pairLock)
	})
}
