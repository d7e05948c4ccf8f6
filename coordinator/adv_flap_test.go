package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestContendedOnceThoughThereWasRoom: a waiter that does not use the room that it has for a moment is no newcomer behind that.
func TestContendedOnceThoughThereWasRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		h := c.Semaphore("/s", 1)
		a, err := h.Hold(t.Context())
		eventstest.Must(t, err)
		told := a.Contended()
		w := other.Semaphore("/s", 1).Acquire(t.Context())
		if n := values(t, told); n != 1 {
			t.Errorf("%d values, want 1", n)
		}
		srv.Mute(other.SessionID(), true)
		for _, size := range []int{2, 1} {
			eventstest.Must(t, h.Resize(t.Context(), size))
			time.Sleep(2 * time.Second)
		}
		srv.Mute(other.SessionID(), false)
		if n := values(t, told); n != 0 {
			t.Errorf("%d values for a waiter that was told of before, want none (it holds: %v)", n, w.Valid())
		}
		w.Release()
		a.Release()
	})
}
