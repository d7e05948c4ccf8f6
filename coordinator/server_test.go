package coordinator_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Servers and connections with faults.

// The client library does not notice a server's refusal to restore its watches.
func TestAWaiterIsWokenAlthoughItsWatchesWereNotRestored(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex(lockPath))
		once(srv, zktest.Fail(zktest.Throttled), isA(zktest.OpSetWatches))
		srv.Cut(c.SessionID())
		time.Sleep(time.Minute)
		holder.Release()
		_, err := w.Wait(within(t, time.Hour))
		expectError(t, err, nil, "the waiter, an hour after the release")
	})
}

// A server that is overloaded, or answers with an unknown code, refuses requests for a
// second. They are retried, with pauses.
func TestAServerThatTurnsRequestsAwayIsNotStormed(t *testing.T) {
	forEach(t, map[string]zktest.Code{
		"throttled": zktest.Throttled, "moved": zktest.SessionMoved, "unknown": zktest.MarshallingError,
	}, func(t *testing.T, srv *zktest.Server, code zktest.Code) {
		c := coordtest.Connect(t, srv)
		refused := striking(srv, zktest.Fail(code), isA(zktest.OpCreate, zktest.OpMulti, zktest.OpDelete))
		a := c.Mutex(lockPath).Acquire(t.Context())
		time.Sleep(time.Second)
		srv.Intercept(nil)
		n := refused.Load()
		expect(t, n >= 2 && n <= 50, "%d requests in a second of refusals, want 2 to 50", n)
		_, err := a.Wait(t.Context())
		expectError(t, err, nil, "when requests are served again")
	})
}

// TestAMovedSessionConnectsAgain: for the leader, the session has moved to another
// connection, because a slow server has passed on a handshake that the client had given up.
// Before 3.6, servers refuse every transaction of such a connection, and keep it.
func TestAMovedSessionConnectsAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		var moved atomic.Bool
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case r.Op == zktest.OpConnect:
				moved.Store(false)
			case r.Op == zktest.OpMulti && moved.Load():
				return zktest.Fail(zktest.SessionMoved)
			}
			return zktest.Pass()
		})

		moved.Store(true)
		time.Sleep(time.Minute)
		expect(t, !moved.Load() && a.Valid(), "a minute after the move: moved %t, held %t; want a new connection, and the lock held",
			moved.Load(), a.Valid())

		coordtest.End(a)
		moved.Store(true)
		_, err := c.Mutex(lockPath).Acquire(t.Context()).Wait(within(t, time.Minute))
		expectError(t, err, nil, "an acquisition in a moved session")
		expect(t, !moved.Load(), "the lock was granted on the old connection")
	})
}

// Sessions may end right after they were created, as behind a load balancer in front of
// two ensembles. New ones must not be requested in a storm.
func TestSessionsThatEndAtOnceAreNoStorm(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		go func() {
			for time.Now().Before(time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC)) {
				for _, id := range srv.Sessions() {
					_ = srv.Expire(id)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		made := counting(srv, of(0, zktest.OpConnect))
		time.Sleep(10 * time.Second)
		// With only the dialer's back-off of up to 1 s, there would be about 15.
		expect(t, made.Load() <= 40, "%d sessions in 10 s, want at most 40", made.Load())
		time.Sleep(15 * time.Second)
		synctest.Wait()
		expect(t, c.State() == coordinator.StateConnected, "when sessions live again it is %v", c.State())
	})
}

// A node that may not be deleted blocks others while the session lives, so the refusal is
// logged.
func TestARefusedDeleteIsLogged(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, logs := logged(t, srv, zap.ErrorLevel)
		strike(srv, zktest.Fail(zktest.NoAuth), isA(zktest.OpDelete))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		coordtest.End(a)
		expectError(t, a.Err(), coordinator.ErrNoAuth, "the release")
		expect(t, logs.Len() == 1, "logged %v, want one line", logs.All())
	})
}

func TestTheLogIsLimitedAboveDebug(t *testing.T) {
	const locks = 500
	for level, want := range map[zapcore.Level]map[string]int{
		zapcore.DebugLevel: {"lock lost": 10, "session expired": 1, "lock granted": locks},
		zapcore.InfoLevel:  {"lock lost": 10, "session expired": 1, "lock granted": 0},
		zapcore.ErrorLevel: {"": 0},
	} {
		coordtest.Case(t, level.String(), func(t *testing.T, srv *zktest.Server) {
			c, logs := logged(t, srv, level)
			granted(t, burst(c, locks))
			expire(t, srv, c)
			time.Sleep(time.Second)
			for message, n := range want {
				expectEqual(t, logs.FilterMessageSnippet(message).Len(), n, "lines with %q", message)
			}
		})
	}
}

// TestRealSmoke runs wherever a real server is found, even if tests on real servers were
// not requested. Twenty contenders in four sessions are granted the lock one at a time,
// in order of arrival, with growing tokens, and leave nothing behind.
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
		coordtest.Queued(t, raw, root+lockPath, i+1) // so that they queue in the order of the slice
	}
	exists := func(node string) bool {
		there, _, err := raw.Exists(root + node)
		eventstest.Must(t, err)
		return there
	}
	grantedInOrder(t, queue, exists)
	coordtest.Queued(t, raw, root+lockPath, 0)
	e.Needs(t, ensemble.Containers)
	// The directory was created as a container, and is removed by the server.
	eventstest.Eventually(t, "the directory is gone", func() bool { return !exists(lockPath) })
}

// TestRealStorms lets crowds of contenders meet on one ensemble. The schedules and the
// explorer cover them in virtual time.
func TestRealStorms(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	for name, test := range map[string]func(*testing.T, *ensemble.Ensemble){
		"elections": realElections,
		"watchers":  realWatch, "contended": realContended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// Directories that other clients fill or remove.

// sessions returns n coordinators, and waiters for the lock that queue up one after the
// other.
func sessions(t *testing.T, srv *zktest.Server, n, waiters int) (cs []*coordinator.Coordinator, all []*coordinator.Acquisition) {
	t.Helper()
	for range n {
		cs = append(cs, coordtest.Connect(t, srv))
	}
	for i := range waiters {
		all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
	}
	return cs, all
}

// TestTheHolderIsToldAndTheWaitersQueueAgainWhenTheDirectoryIsDeleted. The next in line
// may still be granted the lock when the holder's node is deleted; it then loses the lock
// with its own node.
func TestTheHolderIsToldAndTheWaitersQueueAgainWhenTheDirectoryIsDeleted(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, all := sessions(t, srv, 3, 31)
		first, all := all[0], all[1:]
		last := coordtest.Soon(t, first).Token
		stream := cs[1].Events(t.Context())
		srv.MuteAll(true) // otherwise they would return before the directory is empty
		for _, child := range srv.Children(lockPath) {
			eventstest.Must(t, srv.Delete(lockPath+"/"+child))
		}
		eventstest.Must(t, srv.Delete(lockPath))
		eventstest.Must(t, srv.Delete("/locks"))
		srv.MuteAll(false)
		expectEqual(t, (<-first.Lost()).Reason, events.ReasonNodeRemoved, "the reason of the loss")
		for requeued := map[uint64]bool{}; len(requeued) < 10; {
			switch ev := (<-stream).(type) {
			case events.Requeued, events.Grant: // a Grant replaces an unread Requeued
				requeued[ev.AcquisitionID()] = true
			}
		}
		synctest.Wait()
		if errors.Is(all[0].Err(), coordinator.ErrNodeRemoved) {
			all = all[1:]
		}
		for range all {
			synctest.Wait()
			i := slices.IndexFunc(all, (*coordinator.Acquisition).Valid)
			if i < 0 || slices.ContainsFunc(all[i+1:], (*coordinator.Acquisition).Valid) {
				t.Fatal("none or two of those that queue again hold the lock, want one")
			}
			grant := coordtest.Soon(t, all[i])
			expect(t, grant.Token > last, "%+v is granted, want a token above %d", grant, last)
			last = grant.Token
			all[i].Release()
		}
		synctest.Wait()
		expect(t, len(srv.Children(lockPath)) == 0, "%v are left, want no node", srv.Children(lockPath))
	})
}
