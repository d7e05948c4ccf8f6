package coordinator_test

import (
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAHolderWhoIsCutOffLosesItBeforeHeIsRemoved: he holds for less than a probe interval, so he has not looked at his node when he is
// asked; his session writes for another lock, so his lease goes on; and then nothing comes through any more. Timeouts are equal.
func TestAHolderWhoIsCutOffLosesItBeforeHeIsRemoved(t *testing.T) {
	const timeout = 40 * time.Second // with the ticks of 2 s, of which a lease pays for, that is a long one
	for _, cut := range []time.Duration{timeout / 20, timeout * 9 / 100, timeout * 98 / 1000, timeout / 9} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			long := coordinator.WithSessionTimeout(timeout)
			c, operator, other := coordtest.Connect(t, srv, long), coordtest.Connect(t, srv, long), coordtest.Connect(t, srv)
			coordtest.Warm(t, c, other)
			holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
			next := coordtest.Queue(other.Mutex(lockPath))
			done := make(chan error, 1)
			go func() { done <- operator.Revoke(t.Context(), lockPath, 0) }()
			const apart = 1300 * time.Millisecond // more than half a tick: the first write counts when the second is answered
			time.Sleep(cut - apart)
			for i := range 2 {
				if i > 0 {
					time.Sleep(apart)
				}
				if holder.Valid() {
					another, _ := coordtest.Hold(t, c.Mutex("/another"))
					another.Release()
					<-another.Done()
				}
			}
			srv.Mute(c.SessionID(), true)
			if _, err := next.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if holder.Valid() {
				t.Errorf("cut off after %v: two hold, for another %v", cut, time.Until(holder.Deadline()))
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			holder.Release()
			next.Release()
			srv.Mute(c.SessionID(), false)
		})
	}
}

// TestRevokeOfAMultiLockThatWaitsElsewhere: it is the first at the path, so it counts as a holder. Nobody hears of a wish without a
// Grant; at the end it loses its places, and queues up anew behind whoever has come meanwhile.
func TestRevokeOfAMultiLockThatWaitsElsewhere(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		inTheWay, _ := coordtest.Hold(t, other.Mutex(accountB))
		stream := c.Events(t.Context())
		all := coordtest.Queue(c.Multi(c.Mutex(accountA, coordinator.Revocable()), c.Mutex(accountB, coordinator.Revocable())))
		next := coordtest.Queue(other.Mutex(accountA))
		asked := time.Now()
		if err := operator.Revoke(t.Context(), accountA, grace); err != nil || !around(time.Since(asked), grace+patience) {
			t.Fatalf("Revoke: %v after %v", err, time.Since(asked))
		}
		coordtest.Soon(t, next)
		if n := heard[events.Requeued](stream); n != 1 {
			t.Errorf("Requeued came %d times", n)
		}
		inTheWay.Release()
		next.Release()
		coordtest.Soon(t, all)
		all.Release()
	})
}
