package main

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A job that has time comes to a safe point; one that has not loses the lock at the deadline.
func TestTheOperatorHasTheLockInTime(t *testing.T) {
	for name, c := range map[string]struct {
		each      time.Duration
		abandoned int
		lines     []string
	}{
		"in time":  {10 * time.Second, 0, []string{"job: gives the lock back", "operator: has the lock after 5s"}},
		"too slow": {21 * time.Second, 1, []string{"job: LOST the lock: revoked", "operator: has the lock after 8s"}},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				server := zktest.Start(t)
				screen := &stagetest.Screen{}
				j := &job{tables: 4, each: c.each, say: func(format string, args ...any) { fmt.Fprintf(screen, format+"\n", args...) }}
				opt := options{tables: 4, each: c.each, after: 25 * time.Second, grace: 8 * time.Second}
				if err := run(t.Context(), program.Within(server, 6*time.Second), opt, j); err != nil {
					t.Error(err)
				}
				screen.Must(t, append(c.lines, "job: the lock is wanted back within 8s", fmt.Sprintf("copied 4, abandoned %d", c.abandoned))...)
				if screen.Count("job: has the lock") != 2 || screen.Count("wanted back") != 1 {
					t.Errorf("%s", screen)
				}
				if left := server.Sessions(); len(left) > 0 {
					t.Errorf("sessions left: %v", left)
				}
			})
		})
	}
}
