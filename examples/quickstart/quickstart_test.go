package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The contender that is cut off is notified of the loss before the next Grant.
func TestQuickstart(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		eventstest.Check(t, run(t.Context(), p, p.ZK, time.Second))
		p.Must(t, "one at a time             yes", "tokens growing            yes", "nodes left                0")
		eventstest.Equal(t, p.Count(" granted "), 6, "grants of five contenders, one of them twice")
		_, behind, lost := strings.Cut(p.String(), "cid   LOST       lease ran out")
		eventstest.Expect(t, lost && strings.Count(behind, " granted ") == 3,
			"printed %s\nwant the loss before the last three grants", p)
	})
}

// The leader dies while the second contender works. The sessions outlive the election, so
// contenders lose only their connections. Whether the holder reconnects before it has
// finished its work depends on timing.
func TestQuickstartWhileTheLeaderIsKilled(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3)
	leader, err := e.Leader(t.Context())
	eventstest.Must(t, err)
	screen := &eventstest.Screen{}
	screen.When(" granted ", 2, func() { eventstest.Check(t, e.Kill(leader)) })
	zk, err := program.Open(e.Connect(), 10*time.Second)
	eventstest.Must(t, err)
	err = run(t.Context(), screen, zk, 300*time.Millisecond)
	t.Log(screen)
	eventstest.Must(t, err)
	screen.Must(t, " suspended ", "cid   LOST       lease ran out", "nodes left                0")
}

// Whenever the program is interrupted, it leaves nothing behind.
func TestInterruptedRun(t *testing.T) {
	for _, at := range []struct {
		text  string
		count int
	}{{"contenders for one lock", 1}, {" granted ", 1}, {" queued ", 3}, {" granted ", 2}, {" struck ", 1}, {" LOST ", 1}, {" granted ", 6}} {
		t.Run(strings.TrimSpace(at.text), func(t *testing.T) {
			stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p.When(at.text, at.count, cancel)
				eventstest.ErrorIs(t, run(ctx, p, p.ZK, time.Second), program.ErrInterrupted, "the end")
				p.Must(t, "nodes left: 0")
				left := p.Server.Children(lockPath)
				eventstest.Expect(t, len(left) == 0, "left in %s: %v, want nothing", lockPath, left)
			})
		})
	}
}
