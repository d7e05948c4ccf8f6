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

func isLoss(err error) bool { return errors.As(err, new(*coordinator.LostError)) }

// TestPathsOfNames: any name is one component of a valid path.
func TestPathsOfNames(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		for want, name := range map[string]string{
			"/r/plain-1.example":       "plain-1.example",
			"/r/acme%2Fv02%2Fa@b.json": "acme/v02/a@b.json",
			"/r/acme%252Fv02":          "acme%2Fv02",
			"/r/%2E":                   ".",
			"/r/.%2E":                  "..",
			"/r/...":                   "...",
			"/r/%252E":                 "%2E",
			"/r/%00%7F":                "\x00\x7f",
			"/r/%2A.example":           "*.example",
			"/r/%F0%9F%94%92":          "🔒",
			"/r/%FF%FE":                "\xff\xfe",
			"/r/%20%0A":                " \n",
			"/r/lock-000000000%30":     "lock-0000000000",
			"/r/%":                     "",
		} {
			if got := bridge.Path("/r", name); got != want {
				t.Errorf("the path of %q is %s, want %s", name, got, want)
			}
			a, _ := coordtest.Hold(t, c.Mutex(want))
			coordtest.End(a)
		}
		if got := bridge.Path("/", "a"); got != "/a" {
			t.Errorf("the path of a below / is %s, want /a", got)
		}
	})
}

// migrations returns a locker of this process, which has a new session, and what its
// OnLost receives.
func migrations(t *testing.T, srv *zktest.Server) (*coordinator.Coordinator, *bridge.Migrations, chan error) {
	t.Helper()
	c, lost := coordtest.Connect(t, srv), make(chan error, 1)
	return c, bridge.NewMigrations(c.Mutex("/m"), bridge.OnLost(func(err error) { lost <- err }),
		bridge.WithAcquire(coordinator.Data([]byte("ann")))), lost
}

// TestMigrationsExclude: one caller has the lock, in this process and beside others. The
// next one gets it after the unlock, which is no loss. The options of WithAcquire are
// those of the holder.
func TestMigrationsExclude(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, ours, lost := migrations(t, srv)
		_, theirs, _ := migrations(t, srv)
		for who, m := range map[string]*bridge.Migrations{"the holder's own": ours, "another": theirs} {
			eventstest.Must(t, ours.Lock(t.Context(), nil))
			if queue, err := c.Mutex("/m").Queue(t.Context()); err != nil || len(queue) != 1 || string(queue[0].Data) != "ann" {
				t.Errorf("the queue is %v, %v; want the holder with the data ann", queue, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := m.Lock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock in %s process with a second to wait: %v, want its deadline", who, err)
			}
			cancel()
			entered := make(chan error, 1)
			go func() { entered <- m.SessionLock(t.Context(), nil) }()
			synctest.Wait()
			if len(entered) > 0 {
				t.Errorf("Lock in %s process while it is locked returns %v, want it to wait", who, <-entered)
			}
			eventstest.Must(t, ours.Unlock(t.Context(), nil))
			eventstest.Must(t, <-entered)
			eventstest.Must(t, m.SessionUnlock(t.Context(), nil))
		}
		if err := ours.Unlock(t.Context(), nil); !errors.Is(err, bridge.ErrNotLocked) {
			t.Errorf("a second Unlock: %v, want ErrNotLocked", err)
		}
		if len(lost) > 0 {
			t.Errorf("OnLost after a release: %v", <-lost)
		}
	})
}

// TestUnlockWaitsForTheRelease: and no longer than its context lasts.
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
		if took := time.Since(asked); took < time.Second {
			t.Errorf("Unlock returned after %v, want it to wait for the answer that takes a second", took)
		}
		eventstest.Must(t, m.Lock(t.Context(), nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := m.Unlock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Unlock with a millisecond: %v, want its deadline", err)
		}
		eventstest.Check(t, m.Lock(t.Context(), nil)) // it was given back
		eventstest.Check(t, m.Unlock(t.Context(), nil))
	})
}

// TestLossOfALock: OnLost and Unlock tell it, and in this process no other caller has the
// lock before the Unlock.
func TestLossOfALock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lose func(*testing.T, *zktest.Server, *coordinator.Coordinator)
		want error
	}{
		"the session expires": {func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
			eventstest.Must(t, srv.Expire(c.SessionID()))
		}, coordinator.ErrSessionExpired},
		"Close": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) { eventstest.Must(t, c.Close()) }, coordinator.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, m, lost := migrations(t, srv)
				eventstest.Must(t, m.Lock(t.Context(), nil))
				second := make(chan error, 1)
				go func() { second <- m.Lock(t.Context(), nil) }()
				test.lose(t, srv, c)
				if err := <-lost; !errors.Is(err, test.want) {
					t.Errorf("OnLost says %v, want %v", err, test.want)
				}
				time.Sleep(time.Minute)
				if len(second) > 0 {
					t.Errorf("the second caller has the lock while the first one works: %v", <-second)
				}
				if err := m.Unlock(t.Context(), nil); !errors.Is(err, test.want) {
					t.Errorf("Unlock of the lost lock: %v, want %v", err, test.want)
				}
				if err := <-second; err != nil && !errors.Is(err, coordinator.ErrClosed) {
					t.Errorf("the second caller: %v", err)
				} else if err == nil {
					eventstest.Check(t, m.Unlock(t.Context(), nil))
				}
			})
		})
	}
}

// TestUnlockTellsOfALossAtTheEndOfItsContext: the coordinator was closed, its node is
// still there, and there is no time to wait.
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
		if err := <-lost; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("OnLost says %v, want ErrClosed", err)
		}
		if err := m.Unlock(ended, nil); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Unlock of the lost lock, with an ended context: %v, want ErrClosed", err)
		}
		srv.MuteAll(false)
		eventstest.Check(t, <-closed)
	})
}
