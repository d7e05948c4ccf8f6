package coordinator_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestNoSizeForAnotherKindOfLock: a path that is in use as another kind of lock gets no size, whether this process uses it
// or, where that can be seen, another one.
func TestNoSizeForAnotherKindOfLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, a.Mutex(lockPath))
		coordtest.Hold(t, a.Unfair(taskPath))
		before := srv.Tree()
		for what, err := range map[string]error{
			"Resize of a mutex":             a.Semaphore(lockPath, 2).Resize(t.Context(), 3),
			"Resize of an unfair lock":      a.Semaphore(taskPath, 2).Resize(t.Context(), 3),
			"Resize of another's":           b.Semaphore(taskPath, 2).Resize(t.Context(), 3),
			"permit of an unfair lock":      coordtest.EndOf(t, b.Semaphore(taskPath, 2).Acquire(t.Context())),
			"permit of an unfair one tried": coordtest.EndOf(t, b.Semaphore(taskPath, 2).Acquire(t.Context(), coordinator.Try())),
		} {
			if !errors.Is(err, coordinator.ErrKind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if after := srv.Tree(); !slices.Equal(after, before) {
			t.Errorf("left %v", after)
		}
	})
}
