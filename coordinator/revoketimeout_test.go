package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The holder's session timeout, and the one of the session that asks for the lock.
const (
	longHolder    = 30 * time.Second
	hastyOperator = 4 * time.Second
)

// TestAHastyRevokerWaitsForTheHoldersLease: the holder is cut off, and its session timeout is much longer than that of who revokes.
func TestAHastyRevokerWaitsForTheHoldersLease(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(longHolder))
				operator := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(hastyOperator))
				holder := lock(c).Acquire(t.Context())
				coordtest.Soon(t, holder)
				time.Sleep(20 * time.Second)
				srv.Mute(c.SessionID(), true)
				next := behind(name, lock, operator).Acquire(t.Context())
				asked := time.Now()
				done := revoking(t.Context(), operator, 0)
				if _, err := next.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if holder.Valid() {
					t.Errorf("%v after the wish there are two valid holders, for another %v; want the first one lost",
						time.Since(asked), time.Until(holder.Deadline()))
				}
				if err := <-done; err != nil {
					t.Errorf("Revoke: %v, want nil", err)
				}
				coordtest.End(next)
				srv.Mute(c.SessionID(), false)
				holder.Release()
			})
		})
	}
}

// behind returns a handle that waits for a holder of the kind.
func behind(kind string, lock func(*coordinator.Coordinator) acquirer, c *coordinator.Coordinator) acquirer {
	if kind == "read" {
		return c.ReadWrite(lockPath, coordinator.Revocable()).Write()
	}
	return lock(c)
}
