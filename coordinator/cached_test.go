package coordinator_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// kept returns a handle whose node is kept by now, idle.
func kept(t *testing.T, c *coordinator.Coordinator, options ...coordinator.LockOption) *coordinator.Lock {
	t.Helper()
	l := c.Mutex(coordtest.LockPath, append([]coordinator.LockOption{coordinator.Cached()}, options...)...)
	for range 2 { // it pays from the second node in succession on
		a, _ := coordtest.Hold(t, l)
		a.Release()
		synctest.Wait()
	}
	return l
}

// after is the number of a Grant within the order of all of a path.
func after(a, b events.Grant) bool { return a.Token > b.Token || a.Token == b.Token && a.Turn > b.Turn }

// TestACachedLockIsAcquiredWithoutARequest counts what acquisitions ask for, one after the other.
func TestACachedLockIsAcquiredWithoutARequest(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		traffic := coordtest.Traffic(srv)
		var last events.Grant
		for i := range 100 {
			a, g := coordtest.Hold(t, l)
			if i > 0 && !after(g, last) {
				t.Errorf("grant %d is %+v, want it behind %+v", i, g, last)
			}
			last = g
			a.Release()
			<-a.Done()
		}
		if got := traffic.Load(); got != 0 {
			t.Errorf("100 acquisitions took %d requests, want none", got)
		}
	})
}
