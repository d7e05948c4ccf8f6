package main

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A job with enough time comes to a safe point. A job without loses the lock at the deadline.
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
			stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
				j := &job{tables: 4, each: c.each, say: p.Say}
				opt := options{tables: 4, each: c.each, after: 25 * time.Second, grace: 8 * time.Second}
				if err := run(t.Context(), p.ZK, opt, j); err != nil {
					t.Errorf("the program ended with %v, want success", err)
				}
				p.Must(t, append(c.lines, "job: the lock is asked back within 8s", fmt.Sprintf("copied 4, abandoned %d", c.abandoned))...)
				if p.Count("job: has the lock") != 2 || p.Count("asked back") != 1 {
					t.Errorf("the job had the lock %d times and was asked %d times, want 2 and 1:\n%s",
						p.Count("job: has the lock"), p.Count("asked back"), p)
				}
			})
		})
	}
}

// An operator that comes to a free lock has it at once, and does not take it from itself.
func TestTheOperatorComesToAFreeLock(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		c := p.Connect(t)
		for range 10 {
			began := time.Now()
			if err := maintain(t.Context(), c, time.Minute, p.Say); err != nil || time.Since(began) > time.Second {
				t.Errorf("after %v the maintenance ended with %v, want success at once", time.Since(began), err)
			}
		}
	})
}
