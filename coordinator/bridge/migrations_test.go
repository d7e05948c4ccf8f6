package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { coordtest.Main(m) }

func wantLoss(t *testing.T, err error, what string) {
	t.Helper()
	eventstest.Expect(t, errors.As(err, new(*coordinator.LostError)), "%s: %v, want a loss", what, err)
}

// TestPathsOfNames: any name becomes one component, which PathEscape makes.
func TestPathsOfNames(t *testing.T) {
	eventstest.Equal(t, bridge.Path("/r", "acme/v02"), "/r/acme%2Fv02", "the path of acme/v02 below /r")
	eventstest.Equal(t, bridge.Path("/", "a"), "/a", "the path of a below /")
}

// migrations returns a Migrations with its own session, and a channel with the calls of
// its OnLost.
func migrations(t *testing.T, srv *zktest.Server) (*coordinator.Coordinator, *bridge.Migrations, chan error) {
	t.Helper()
	c, lost := coordtest.Connect(t, srv), make(chan error, 1)
	return c, bridge.NewMigrations(c.Mutex("/m"), bridge.OnLost(func(err error) { lost <- err }),
		bridge.WithAcquire(coordinator.Data([]byte("ann")))), lost
}

// TestMigrationsExclude: one caller at a time has the lock, in this process and in
// others. The next one gets it after the unlock, which is not a loss. The holder has the
// options of WithAcquire.
func TestMigrationsExclude(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, ours, lost := migrations(t, srv)
		_, theirs, _ := migrations(t, srv)
		for who, m := range map[string]*bridge.Migrations{"the holder's own": ours, "another": theirs} {
			eventstest.Must(t, ours.Lock(t.Context(), nil))
			queue, err := c.Mutex("/m").Queue(t.Context())
			eventstest.Expect(t, err == nil && len(queue) == 1 && string(queue[0].Data) == "ann",
				"the queue is %v, %v; want the holder with the data ann", queue, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			eventstest.ErrorIs(t, m.Lock(ctx, nil), context.DeadlineExceeded, "Lock in %s process", who)
			cancel()
			entered := make(chan error, 1)
			go func() { entered <- m.SessionLock(t.Context(), nil) }()
			synctest.Wait()
			eventstest.Equal(t, len(entered), 0, "Lock in %s process while it is locked", who)
			eventstest.Must(t, ours.Unlock(t.Context(), nil))
			eventstest.Must(t, <-entered)
			eventstest.Must(t, m.SessionUnlock(t.Context(), nil))
		}
		eventstest.ErrorIs(t, ours.Unlock(t.Context(), nil), bridge.ErrNotLocked, "a second Unlock")
		eventstest.Equal(t, len(lost), 0, "OnLost after a release")
	})
}

// TestUnlockWaitsForTheRelease, but no longer than its context lasts.
func TestUnlockWaitsForTheRelease(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, m, _ := migrations(t, srv)
		srv.Intercept(func(r zktest.Request) zktest.Action { // a slow server
			if r.Op == zktest.OpMulti || r.Op == zktest.OpDelete {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		eventstest.Must(t, m.Lock(t.Context(), nil))
		asked := time.Now()
		eventstest.Check(t, m.Unlock(t.Context(), nil))
		took := time.Since(asked)
		eventstest.Expect(t, took >= time.Second, "Unlock returned after %v, want it to wait", took)
		eventstest.Must(t, m.Lock(t.Context(), nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		eventstest.ErrorIs(t, m.Unlock(ctx, nil), context.DeadlineExceeded, "Unlock with a millisecond")
		eventstest.Check(t, m.Lock(t.Context(), nil)) // the lock was released
		eventstest.Check(t, m.Unlock(t.Context(), nil))
	})
}

// TestUnlockDuringAnOutage waits for the servers, although the lock is no longer held.
func TestUnlockDuringAnOutage(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, m, _ := migrations(t, srv)
		eventstest.Must(t, m.Lock(t.Context(), nil))
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpConnect {
				return zktest.Delay(2 * time.Second)
			}
			return zktest.Pass()
		})
		srv.Cut(c.SessionID())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		eventstest.ErrorIs(t, m.Unlock(ctx, nil), coordinator.ErrReleasePending, "Unlock with a second")
		eventstest.Equal(t, len(srv.Children("/m")), 1, "the nodes during the outage")

		eventstest.Must(t, m.Lock(t.Context(), nil))
		srv.Cut(c.SessionID())
		synctest.Wait()
		eventstest.Check(t, m.Unlock(t.Context(), nil))
		eventstest.Equal(t, len(srv.Children("/m")), 0, "the nodes after Unlock")
	})
}

// TestLossOfALock: OnLost and Unlock report it, and no other caller in this process gets
// the lock before the Unlock.
func TestLossOfALock(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(*testing.T, *zktest.Server, *coordinator.Coordinator)
		want error
	}{
		"the session expires": {func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
			eventstest.Must(t, srv.Expire(c.SessionID()))
		}, coordinator.ErrSessionExpired},
		"Close": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) { eventstest.Must(t, c.Close()) }, coordinator.ErrClosed},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c, m, lost := migrations(t, srv)
			eventstest.Must(t, m.Lock(t.Context(), nil))
			second := make(chan error, 1)
			go func() { second <- m.Lock(t.Context(), nil) }()
			test.lose(t, srv, c)
			eventstest.ErrorIs(t, <-lost, test.want, "OnLost")
			time.Sleep(time.Minute)
			eventstest.Equal(t, len(second), 0, "the second caller has the lock while the first one works")
			eventstest.ErrorIs(t, m.Unlock(t.Context(), nil), test.want, "Unlock of the lost lock")
			if err := <-second; err == nil {
				eventstest.Check(t, m.Unlock(t.Context(), nil))
			} else {
				eventstest.ErrorIs(t, err, coordinator.ErrClosed, "the second caller")
			}
		})
	}
}

// TestUnlockTellsOfALossAtTheEndOfItsContext: the coordinator was closed, the node still
// exists, and there is no time to wait.
func TestUnlockTellsOfALossAtTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		c, m, lost := migrations(t, srv)
		closed := make(chan error, 1)
		eventstest.Must(t, m.Lock(t.Context(), nil))
		srv.MuteAll(true)
		go func() { closed <- c.Close() }()
		eventstest.ErrorIs(t, <-lost, coordinator.ErrClosed, "OnLost")
		eventstest.ErrorIs(t, m.Unlock(ended, nil), coordinator.ErrClosed, "Unlock with an ended context")
		srv.MuteAll(false)
		eventstest.Check(t, <-closed)
	})
}
