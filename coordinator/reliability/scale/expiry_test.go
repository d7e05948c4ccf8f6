package scale

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestAllAreLostAtOnce ends a session with many locks: each of them is told its loss once.
func TestAllAreLostAtOnce(t *testing.T) {
	srv := startServer(t)
	c := connect(t, srv)
	all := take(t, func(path string) *coordinator.Lock { return c.Mutex(path) })
	at := make([]time.Time, len(all))
	var told sync.WaitGroup
	for i, h := range all {
		told.Go(func() {
			select {
			case lost := <-h.lost:
				at[i] = time.Now()
				if lost.Reason != events.ReasonSessionExpired || h.lock.Valid() {
					t.Errorf("lost for %v, valid %v; want %v, false", lost.Reason, h.lock.Valid(), events.ReasonSessionExpired)
				}
			case <-h.done:
				t.Errorf("over without a loss: %v", h.lock.Err())
			}
		})
	}
	if n := srv.ask(t, askExpire); n != 1 {
		t.Errorf("%d sessions expired, want 1", n)
	}
	done := make(chan struct{})
	go func() { told.Wait(); close(done) }()
	eventstest.Receive(t, done, "a Lost of each lock")
	slices.SortFunc(at, time.Time.Compare)
	t.Logf("%d losses, the last %v after the first", len(all), at[len(at)-1].Sub(at[0]))
}
