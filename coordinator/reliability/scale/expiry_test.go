package scale_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// TestAllAreLostAtOnce ends a session with many locks in it: each of them is told so once.
func TestAllAreLostAtOnce(t *testing.T) {
	srv := startServer(t)
	c := connect(t, srv)
	all := take(t, func(path string) *coordinator.Lock { return c.Mutex(path) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make([]time.Time, len(all))
	var wait sync.WaitGroup
	for i, h := range all {
		wait.Go(func() {
			select {
			case lost := <-h.lost:
				told[i] = time.Now()
				if lost.Reason != events.ReasonSessionExpired || h.lock.Valid() {
					t.Errorf("lost for %v, valid %v", lost.Reason, h.lock.Valid())
				}
			case <-h.done:
				t.Errorf("over without a loss: %v", h.lock.Err())
			case <-ctx.Done():
				t.Error("not told")
			}
		})
	}
	if n := srv.ask(t, askExpire); n != 1 {
		t.Errorf("%d sessions expired, want 1", n)
	}
	wait.Wait()
	first, last := told[0], told[0]
	for _, at := range told {
		if at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	t.Logf("%d losses, the last %v after the first", len(all), last.Sub(first))
}
