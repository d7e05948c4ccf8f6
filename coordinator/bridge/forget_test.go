package bridge

import (
	"context"
	"errors"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestNamesAreForgotten: a locker of ever new names does not grow, however a call ends.
func TestNamesAreForgotten(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		n := NewNames(c, "/r")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		if held, err := n.TryLock(t.Context(), "a"); held || err != nil {
			t.Errorf("TryLock of a locked name: %v, %v, want false", held, err)
		}
		for _, name := range []string{"a", "b"} {
			if err := n.Lock(ended, name); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock of %s with an ended context: %v, want its cause", name, err)
			}
		}
		coordtest.Hold(t, c.Mutex(Path("/r", "c")))
		if held, err := n.TryLock(t.Context(), "c"); held || err != nil {
			t.Errorf("TryLock of a name that another caller has: %v, %v, want false", held, err)
		}
		if err := n.Lock(t.Context(), ""); !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("Lock of no name: %v, want ErrPath", err)
		}
		if len(n.slots) != 1 {
			t.Errorf("it knows %d names, want the one that is locked", len(n.slots))
		}
		eventstest.Must(t, n.Unlock(t.Context(), "a"))
		if len(n.slots) != 0 {
			t.Errorf("it knows %d names, want 0", len(n.slots))
		}
	})
}
