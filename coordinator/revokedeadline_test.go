package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestDeadlineEndsWithTheGrace: for every kind of lock, Deadline is the moment by which the lock is wanted back once the holder
// was told of it, though the lease goes on for longer.
func TestDeadlineEndsWithTheGrace(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				held := lock(a).Acquire(t.Context())
				coordtest.Soon(t, held)
				time.Sleep(2 * timeoutOfAll) // its node is watched by now
				lease := time.Until(held.Deadline())
				done := revoking(t.Context(), operator, grace)
				time.Sleep(time.Millisecond)
				if got := time.Until(held.Deadline()); got > grace || got < grace-10*time.Millisecond || lease <= grace {
					t.Errorf("a millisecond behind a Revoke within %v Deadline is in %v, want the same; the lease was %v", grace, got, lease)
				}
				<-held.Lost()
				if err := <-done; err != nil {
					t.Errorf("Revoke: %v, want nil", err)
				}
			})
		})
	}
}
