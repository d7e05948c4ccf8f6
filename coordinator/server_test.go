package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Servers and connections with faults.

// The client library does not notice if the server refuses to restore its watches.
func TestAWaiterIsWokenAlthoughItsWatchesWereNotRestored(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex(lockPath))
		var refused atomic.Bool
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpSetWatches && refused.CompareAndSwap(false, true) {
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		srv.Cut(c.SessionID())
		time.Sleep(time.Minute)
		holder.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Wait(ctx); err != nil {
			t.Errorf("an hour after the release: %v, with the nodes %v; want a grant", err, srv.Children(lockPath))
		}
	})
}

// A server that is overloaded, or answers with an unknown code, turns requests away for a second: they are
// retried, with pauses.
func TestAServerThatTurnsRequestsAwayIsNotStormed(t *testing.T) {
	forEach(t, map[string]zktest.Code{
		"throttled": zktest.Throttled, "moved": zktest.SessionMoved, "unknown": zktest.MarshallingError,
	}, func(t *testing.T, srv *zktest.Server, code zktest.Code) {
		c, refused := coordtest.Connect(t, srv), 0
		strike(srv, zktest.Fail(code), func(r zktest.Request) bool {
			meant := isA(zktest.OpCreate, zktest.OpMulti, zktest.OpDelete)(r)
			if meant {
				refused++
			}
			return meant
		})
		a := c.Mutex(lockPath).Acquire(t.Context())
		time.Sleep(time.Second)
		srv.Intercept(nil)
		if refused < 2 || refused > 50 {
			t.Errorf("%d requests in a second of refusals, want 2 to 50", refused)
		}
		if _, err := a.Wait(t.Context()); err != nil {
			t.Errorf("when requests are served again: %v, want a grant", err)
		}
	})
}

// Sessions that end right after they were made, as behind a front that spreads connections over two ensembles: new
// ones are not asked for in a storm.
func TestSessionsThatEndAtOnceAreNoStorm(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var made atomic.Int64
		c := coordtest.Connect(t, srv)
		go func() {
			for time.Now().Before(time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC)) {
				for _, id := range srv.Sessions() {
					_ = srv.Expire(id)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpConnect && r.Session == 0 {
				made.Add(1)
			}
			return zktest.Pass()
		})
		time.Sleep(10 * time.Second)
		if made.Load() > 40 { // with the dialer's own back-off, up to 1 s, it would be about 15
			t.Errorf("%d sessions in 10 s, want at most 40", made.Load())
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if c.State() != coordinator.StateConnected {
			t.Errorf("when sessions live again the coordinator is %v, want it connected", c.State())
		}
	})
}

// A node that may not be deleted blocks other contenders while the session lives, so it is logged.
func TestARefusedDeleteIsLogged(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.ErrorLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		strike(srv, zktest.Fail(zktest.NoAuth), isA(zktest.OpDelete))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		if coordtest.End(a); !errors.Is(a.Err(), coordinator.ErrNoAuth) || logs.Len() != 1 {
			t.Errorf("Err = %v, logged %v; want ErrNoAuth, and one line of it", a.Err(), logs.All())
		}
		srv.Intercept(nil)
	})
}

func TestTheLogIsLimitedAboveDebug(t *testing.T) {
	const locks = 500
	for level, want := range map[zapcore.Level]map[string]int{
		zapcore.DebugLevel: {"lock lost": 10, "session expired": 1, "lock granted": locks},
		zapcore.InfoLevel:  {"lock lost": 10, "session expired": 1, "lock granted": 0},
		zapcore.ErrorLevel: {"": 0},
	} {
		t.Run(level.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(level)
				c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
				for i := range locks {
					coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/%d", i)))
				}
				expire(t, srv, c)
				time.Sleep(time.Second)
				for message, n := range want {
					if got := logs.FilterMessageSnippet(message).Len(); got != n {
						t.Errorf("%d lines with %q are logged, want %d", got, message, n)
					}
				}
			})
		})
	}
}

// TestRealSmoke runs wherever a real server is found, also if real tests are not asked for. Twenty contenders in
// four sessions are granted one at a time, in the order of arrival, with growing tokens, and leave nothing.
func TestRealSmoke(t *testing.T) {
	t.Parallel()
	e := coordtest.Servers(t, 1)
	const root = "/smoke"
	raw := coordtest.RawClient(t, e.Addr(0))
	var coordinators []*coordinator.Coordinator
	for range 4 {
		coordinators = append(coordinators, coordtest.ConnectReal(t, e.Connect()+root))
	}
	queue := make([]*coordinator.Acquisition, 20)
	for i := range queue {
		queue[i] = coordinators[i%len(coordinators)].Mutex(lockPath).Acquire(t.Context())
		coordtest.Queued(t, raw, root+lockPath, i+1) // so that the order of acceptance is that of the slice
	}
	exists := func(node string) bool {
		there, _, err := raw.Exists(root + node)
		eventstest.Must(t, err)
		return there
	}
	grantedInOrder(t, queue, exists)
	coordtest.Queued(t, raw, root+lockPath, 0)
	e.Needs(t, ensemble.Containers)
	// The directory was made as a container, and goes by itself.
	eventstest.Eventually(t, "the directory is gone", func() bool { return !exists(lockPath) })
}
