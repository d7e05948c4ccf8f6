package coordinator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestATryGetsALockThatIsCachedElsewhereAndIdle: an idle node and a held node have the same name, so the try waits until an idle
// node would have gone.
func TestATryGetsALockThatIsCachedElsewhereAndIdle(t *testing.T) {
	for _, held := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			l, other := kept(t, coordtest.Connect(t, srv)), coordtest.Connect(t, srv)
			if held {
				coordtest.Hold(t, l)
			}
			began := time.Now()
			a := other.Mutex(coordtest.LockPath).Acquire(t.Context(), coordinator.Try())
			_, err := a.Wait(t.Context())
			took := time.Since(began)
			switch {
			case !held && err != nil:
				t.Errorf("a try of a lock that is idle elsewhere: %v", err)
			case held && !errors.Is(err, coordinator.ErrNotAcquired):
				t.Errorf("a try of a lock that is held elsewhere: %v, want ErrNotAcquired", err)
			case held && (took < 50*time.Millisecond || took > 60*time.Millisecond):
				t.Errorf("a try of a lock that is held elsewhere took %v, want the 50 ms of the bound", took)
			}
			a.Release()
			<-a.Done()
		})
	}
}
