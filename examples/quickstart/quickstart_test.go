package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuickstart(t *testing.T) {
	screen := &stagetest.Screen{}
	err := run(t.Context(), screen, options{zk: stagetest.Open(t, "", 6*time.Second), hold: 50 * time.Millisecond})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.Must(t, "cid   LOST       session expired", "nodes left                0", "tokens growing            yes")
	if n := screen.Count(" granted "); n != 6 {
		t.Errorf("%d grants, want 6: five contenders, one of them twice", n)
	}
}

// The leader dies while the second contender works. The sessions outlive the
// election, so nobody loses anything but the connection.
func TestQuickstartWhileTheLeaderIsKilled(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3)
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	screen := &stagetest.Screen{}
	screen.When(" granted ", 2, func() {
		if err := e.Kill(leader); err != nil {
			t.Error(err)
		}
	})
	err = run(t.Context(), screen, options{zk: stagetest.Open(t, e.Connect(), 10*time.Second), hold: 300 * time.Millisecond})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.Must(t, " suspended ", " resumed ", "cid   LOST       session expired", "nodes left                0")
}

// Whenever the program is told to stop, it leaves nothing behind.
func TestInterruptedRun(t *testing.T) {
	for _, at := range []struct {
		text  string
		count int
	}{{"contenders for one lock", 1}, {" granted ", 1}, {" queued ", 3}, {" granted ", 2}, {" struck ", 1}, {" LOST ", 1}, {" granted ", 6}} {
		t.Run(strings.TrimSpace(at.text), func(t *testing.T) {
			server := zktest.Start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			screen := &stagetest.Screen{}
			screen.When(at.text, at.count, cancel)
			err := run(ctx, screen, options{zk: program.Within(server, 6*time.Second), hold: 100 * time.Millisecond})
			t.Log(screen)
			if !errors.Is(err, program.ErrInterrupted) {
				t.Errorf("%v, want %v", err, program.ErrInterrupted)
			}
			if left := server.Children(lockPath); len(left) > 0 {
				t.Errorf("left behind: %v, want no node", left)
			}
			if sessions := server.Sessions(); len(sessions) > 0 {
				t.Errorf("sessions left: %#x, want none", sessions)
			}
		})
	}
}
