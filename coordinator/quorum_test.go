package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealOutageIsNotTooLong: servers that are down for longer than three session
// timeouts, all of them or all but one, cost no waiter its place. The one that is up
// refuses the sessions, because it has no quorum.
func TestRealOutageIsNotTooLong(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("TestNoOutageIsTooLongForASession does this in virtual time; ZKGRANT_FULL=1 runs this one")
	}
	const timeout = 4 * time.Second
	for name, first := range map[string]int{"all are down": 0, "one has no quorum": 1} {
		t.Run(name, func(t *testing.T) {
			e := ensemble.Start(t, 3)
			short := coordinator.WithSessionTimeout(timeout)
			holds, waits := coordtest.ConnectReal(t, e.Connect(), short), coordtest.ConnectReal(t, e.Connect(), short)
			held, _ := coordtest.HoldReal(t, holds.Mutex(lockPath))
			waiter := waits.Mutex(lockPath).Acquire(t.Context())
			coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), lockPath, 2)
			before := waits.SessionID()
			for i := first; i < 3; i++ {
				eventstest.Must(t, e.Kill(i))
			}
			began := time.Now()
			coordtest.LossOf(t, held)
			eventstest.Eventually(t, "the outage has lasted", func() bool { return time.Since(began) > 3*timeout })
			for i := first; i < 3; i++ {
				eventstest.Must(t, e.Restart(i))
			}
			coordtest.GrantOf(t, waiter)
			expectEqual(t, waits.SessionID(), before, "the waiter's session after the outage")
			finish(t, waiter)
		})
	}
}
