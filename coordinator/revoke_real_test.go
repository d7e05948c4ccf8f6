package coordinator_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealRevoke asks holders at one server of a real ensemble for their locks through another one.
func TestRealRevoke(t *testing.T) {
	t.Parallel()
	e := ensemble.Start(t, 3)
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := coordtest.RealContext(t)
			c, operator := coordtest.ConnectReal(t, e.Addr(0)+"/"+t.Name()), coordtest.ConnectReal(t, e.Addr(1)+"/"+t.Name())
			if err := operator.Revoke(ctx, lockPath, 0); !errors.Is(err, coordinator.ErrNotHeld) {
				t.Errorf("Revoke of a free lock: %v", err)
			}
			stream := c.Events(ctx)
			holder := lock(c).Acquire(ctx, coordinator.WithData([]byte("job 17")))
			coordtest.GrantOf(t, holder)
			waiter := lock(operator).Acquire(ctx)
			if name == "read" {
				waiter = operator.ReadWrite(lockPath, coordinator.Revocable()).Write().Acquire(ctx)
			}
			const grace = 2 * time.Second
			asked := time.Now()
			done := revoking(ctx, operator, grace)
			var told events.Revoked
			for told == (events.Revoked{}) {
				if r, ok := (<-stream).(events.Revoked); ok {
					told = r
				}
			}
			if told.ID != holder.ID() || told.Deadline.Before(asked.Add(grace)) {
				t.Errorf("told %+v, asked at %v", told, asked)
			}
			if got := dataOfHolder(t, operator, name); got != "job 17" {
				t.Errorf("the queue shows %q", got)
			}
			lost := <-holder.Lost()
			if lost.Reason != events.ReasonRevoked || time.Now().Before(told.Deadline) {
				t.Errorf("lost: %+v", lost)
			}
			coordtest.GrantOf(t, waiter)
			if err := <-done; err != nil {
				t.Errorf("Revoke: %v", err)
			}
			t.Logf("told by %v, and back after %v", told.Deadline.Sub(asked), time.Since(asked))
			waiter.Release()
			<-waiter.Done()
		})
	}
	t.Run("by force", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, grace = 2 * time.Second, 500 * time.Millisecond
		c, operator := coordtest.ConnectReal(t, e.Addr(0)), coordtest.ConnectReal(t, e.Addr(2), coordinator.WithSessionTimeout(timeout))
		began, end := make(chan events.Grant, 1), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- c.Semaphore(lockPath, 3, coordinator.Revocable()).Do(ctx, func(_ context.Context, g events.Grant) error {
				began <- g
				<-end
				return nil
			}, coordinator.WithPermits(3))
		}()
		<-began
		asked := time.Now()
		if err := operator.Revoke(ctx, lockPath, grace); err != nil || time.Since(asked) < timeout+grace {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
		if queue, err := operator.Semaphore(lockPath, 3).Queue(ctx); err != nil || len(queue) > 0 {
			t.Errorf("left: %+v, %v", queue, err)
		}
		close(end)
		if err := <-ended; !errors.Is(err, coordinator.ErrRevoked) {
			t.Errorf("Do: %v", err)
		}
	})
	t.Run("of another library", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, path = 2 * time.Second, "/foreign"
		operator := coordtest.ConnectReal(t, e.Addr(2), coordinator.WithSessionTimeout(timeout))
		stock := zk.NewLock(coordtest.Admin(t, e.Addr(1), new(net.Dialer).DialContext), path, zk.WorldACL(zk.PermAll))
		if err := stock.Lock(); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		if err := operator.Revoke(ctx, path, 0); err != nil || time.Since(asked) < timeout {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
		coordtest.Hold(t, operator.Mutex(path))
	})
}
