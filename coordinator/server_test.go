package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Servers and connections with faults.

// The answer that the session is over proves that it is not alive. The holder is behind a follower that has lost
// its leader; none of its other requests is answered.
func TestAnAnswerThatTheSessionIsOverRenewsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		id := c.SessionID()
		next := coordtest.Queue(other.Mutex(lockPath))
		srv.Strand(id, true)
		var told atomic.Bool
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case r.Session != id || r.Op == zktest.OpConnect:
				return zktest.Pass()
			case r.Op == zktest.OpGetChildren2 && told.CompareAndSwap(false, true):
				return zktest.Fail(zktest.SessionExpired)
			default:
				return zktest.Swallow()
			}
		})
		time.Sleep(6 * time.Second) // less than the client's read timeout
		before := a.Deadline()
		c.Mutex("/locks/other").Acquire(t.Context(), coordinator.Try()) // some request
		time.Sleep(time.Millisecond)
		if after := a.Deadline(); after.After(before) {
			t.Errorf("the deadline moved by %v on being told that the session is over, want it to stay", after.Sub(before))
		}
		if _, err := next.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.Valid() {
			t.Errorf("two holders: when the next one is granted the first is still valid for %v, want not valid", time.Until(a.Deadline()))
		}
		srv.Strand(id, false)
	})
}

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
	for _, code := range []zktest.Code{zktest.Throttled, zktest.SessionMoved, zktest.MarshallingError} {
		t.Run(code.Error(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				var refusing atomic.Bool
				var refused atomic.Int64
				refusing.Store(true)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if refusing.Load() && (r.Op == zktest.OpCreate || r.Op == zktest.OpMulti || r.Op == zktest.OpDelete) {
						refused.Add(1)
						return zktest.Fail(code)
					}
					return zktest.Pass()
				})
				a := c.Mutex(lockPath).Acquire(t.Context())
				time.Sleep(time.Second)
				refusing.Store(false)
				if n := refused.Load(); n < 2 || n > 50 {
					t.Errorf("%d requests in a second of refusals, want 2 to 50", n)
				}
				if _, err := a.Wait(t.Context()); err != nil {
					t.Errorf("when requests are served again: %v, want a grant", err)
				}
			})
		})
	}
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
		core, logs := observer.New(zap.InfoLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpDelete {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		coordtest.End(a)
		if !errors.Is(a.Err(), coordinator.ErrNoAuth) || logs.FilterLevelExact(zap.ErrorLevel).Len() != 1 {
			t.Errorf("Err = %v, logged %v; want ErrNoAuth, and one line of it", a.Err(), logs.All())
		}
		srv.Intercept(nil)
	})
}

func TestTheLogIsLimitedAboveDebug(t *testing.T) {
	const locks = 500
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel, zapcore.ErrorLevel} {
		t.Run(level.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(level)
				c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
				for i := range locks {
					coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/%d", i)))
				}
				eventstest.Must(t, srv.Expire(c.SessionID()))
				time.Sleep(time.Second)
				lost, grants := logs.FilterMessage("lock lost").Len(), logs.FilterMessage("lock granted").Len()
				expired := logs.FilterMessage("session expired").Len()
				switch level {
				case zapcore.DebugLevel:
					if lost != 10 || expired != 1 || grants != locks {
						t.Errorf("%d losses, %d expiries and %d grants are logged, want 10, 1 and %d",
							lost, expired, grants, locks)
					}
				case zapcore.InfoLevel:
					if lost != 10 || expired != 1 || grants != 0 {
						t.Errorf("%d losses, %d expiries and %d grants are logged, want 10, 1 and 0", lost, expired, grants)
					}
				default:
					if logs.Len() != 0 {
						t.Errorf("%d lines, the first %+v, want none", logs.Len(), logs.All()[0])
					}
				}
			})
		})
	}
}

// outage is two coordinators, a holder and a waiter, while a fault strikes the servers.
type outage struct {
	holder, waiter *coordinator.Coordinator
	held, wanted   *coordinator.Acquisition
	grant          events.Grant
	ids            [2]int64
	names          []string
}

func beforeOutage(t *testing.T, servers string, raw *zk.Conn) *outage {
	t.Helper()
	o := &outage{holder: coordtest.ConnectReal(t, servers), waiter: coordtest.ConnectReal(t, servers)}
	o.ids = [2]int64{o.holder.SessionID(), o.waiter.SessionID()}
	o.held = o.holder.Mutex("/locks/outage").Acquire(t.Context())
	o.grant = coordtest.GrantOf(t, o.held)
	o.wanted = o.waiter.Mutex("/locks/outage").Acquire(t.Context())
	o.names = coordtest.Queued(t, raw, "/locks/outage", 2)
	return o
}

// survived checks that neither has lost its place, and that the lock goes from one to the other.
func (o *outage) survived(t *testing.T, raw *zk.Conn) {
	t.Helper()
	for _, c := range []*coordinator.Coordinator{o.holder, o.waiter} {
		eventstest.Eventually(t, "the coordinators are connected again", func() bool { return c.State() == coordinator.StateConnected },
			func() string { return fmt.Sprint("one is ", c.State()) })
	}
	if ids := [2]int64{o.holder.SessionID(), o.waiter.SessionID()}; ids != o.ids {
		t.Errorf("the sessions %#x became %#x, want the same", o.ids, ids)
	}
	if names := coordtest.Queued(t, raw, "/locks/outage", 2); !slices.Equal(names, o.names) {
		t.Errorf("the queue %v became %v, want the same", o.names, names)
	}
	coordtest.NotLost(t, o.held)
	select {
	case <-o.wanted.Granted():
		t.Error("the waiter is granted while the holder holds, want one at a time")
	default:
	}
	o.held.Release()
	if err := coordtest.EndOf(t, o.held); err != nil {
		t.Errorf("released, the holder ends with %v, want nil", err)
	}
	next := coordtest.GrantOf(t, o.wanted)
	if next.Token <= o.grant.Token || path.Base(next.Node) != o.names[1] || next.Session != o.ids[1] {
		t.Errorf("%+v is granted after %+v, want a greater token and the node %s of %#x", next, o.grant, o.names[1], o.ids[1])
	}
	o.wanted.Release()
	if err := coordtest.EndOf(t, o.wanted); err != nil {
		t.Errorf("released, the waiter ends with %v, want nil", err)
	}
	coordtest.Queued(t, raw, "/locks/outage", 0)
}

func TestRealServerIsKilledAndComesBack(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	o := beforeOutage(t, e.Connect(), raw)
	eventstest.Must(t, e.Kill(0))
	for _, c := range []*coordinator.Coordinator{o.holder, o.waiter} {
		eventstest.Eventually(t, "the coordinators notice", func() bool { return c.State() == coordinator.StateSuspended },
			func() string { return fmt.Sprint("one is ", c.State()) })
	}
	coordtest.NotLost(t, o.held) // suspended is not lost
	eventstest.Must(t, e.Restart(0))
	eventstest.Must(t, e.Wait(coordtest.RealContext(t)))
	o.survived(t, raw)
}

func TestRealLeaderIsKilled(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	leader, err := e.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	raw := coordtest.RawClient(t, e.Addr((leader+1)%e.Size()))
	o := beforeOutage(t, e.Connect(), raw)
	eventstest.Must(t, e.Kill(leader))
	next, err := e.Leader(ctx)
	if err != nil || next == leader {
		t.Fatalf("the leader is %d after %d: %v; want another one", next, leader, err)
	}
	o.survived(t, raw)
}

// The tests for which one server is enough.
func TestRealServer(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 1)
	for name, test := range map[string]func(*testing.T, *ensemble.Ensemble){
		"nodes deleted by hand": realDeletedByHand,
		"close leaves no node":  realClose,
		"access control":        realACL,
		"chroot":                realChroot,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
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
	// The directory was made as a container, and goes by itself.
	eventstest.Eventually(t, "the directory is gone", func() bool { return !exists(lockPath) })
}

func realDeletedByHand(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/locks/byhand"
	raw := coordtest.RawClient(t, e.Addr(0))
	holder, waiter := coordtest.ConnectReal(t, e.Connect()), coordtest.ConnectReal(t, e.Connect())
	stream := waiter.Events(t.Context())
	held := holder.Mutex(dir).Acquire(t.Context())
	grant := coordtest.GrantOf(t, held)
	wanted := waiter.Mutex(dir).Acquire(t.Context())
	for ahead := -1; ahead != 1; { // until it has listed, and waits
		select {
		case ev := <-stream:
			if q, ok := ev.(events.Queued); ok {
				ahead = q.Ahead
			}
		case <-coordtest.RealContext(t).Done():
			t.Fatal("no Queued with one ahead is heard, want one")
		}
	}
	names := coordtest.Queued(t, raw, dir, 2)

	eventstest.Must(t, raw.Delete(path.Join(dir, names[1]), -1))
	for requeued := false; !requeued; {
		select {
		case ev := <-stream:
			requeued = ev == events.Event(events.Requeued{ID: wanted.ID(), Path: dir})
		case <-coordtest.RealContext(t).Done():
			t.Fatal("no Requeued is heard after the removal of the waiter's node, want one")
		}
	}
	coordtest.Queued(t, raw, dir, 2)

	eventstest.Must(t, raw.Delete(grant.Node, -1))
	lost := coordtest.LossOf(t, held)
	if lost.Reason != events.ReasonNodeRemoved || !errors.Is(lost.Err, coordinator.ErrNodeRemoved) || held.Valid() {
		t.Errorf("the holder hears %+v, valid: %v; want that its node was removed", lost, held.Valid())
	}
	if next := coordtest.GrantOf(t, wanted); next.Token <= grant.Token || path.Base(next.Node) == names[1] {
		t.Errorf("%+v is granted after %+v, want a greater token and a new node", next, grant)
	}
	wanted.Release()
	if err := coordtest.EndOf(t, wanted); err != nil {
		t.Errorf("released, the waiter ends with %v, want nil", err)
	}
}

func realClose(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/locks/close"
	raw := coordtest.RawClient(t, e.Addr(0))
	c := coordtest.ConnectReal(t, e.Connect())
	held := c.Mutex(dir).Acquire(t.Context())
	coordtest.GrantOf(t, held)
	var waiting []*coordinator.Acquisition
	for range 5 {
		waiting = append(waiting, c.Mutex(dir).Acquire(t.Context()))
	}
	coordtest.Queued(t, raw, dir, 6)
	late := c.Mutex(dir).Acquire(t.Context()) // its create is under way
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if names := coordtest.QueueOf(t, raw, dir); len(names) != 0 {
		t.Errorf("after Close the nodes %v are left, want none", names)
	}
	for _, a := range append(waiting, late) {
		if err := coordtest.EndOf(t, a); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("after Close a waiter ends with %v, want ErrClosed", err)
		}
	}
	if err := coordtest.EndOf(t, held); !errors.Is(err, coordinator.ErrClosed) {
		t.Errorf("after Close the holder ends with %v, want ErrClosed", err)
	}
}

func realACL(t *testing.T, e *ensemble.Ensemble) {
	const dir = "/private/lock"
	acl := coordinator.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))
	ann := func() *coordinator.Coordinator {
		return coordtest.ConnectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("ann:secret")), acl)
	}
	held, wanted := ann().Mutex(dir).Acquire(t.Context()), ann().Mutex(dir).Acquire(t.Context())
	first, second := held, wanted
	select { // which of the two was faster is not ours to say
	case <-held.Granted():
	case <-wanted.Granted():
		first, second = wanted, held
	case <-coordtest.RealContext(t).Done():
		t.Fatal("neither is granted, want one")
	}
	for name, c := range map[string]*coordinator.Coordinator{
		"no identity":               coordtest.ConnectReal(t, e.Connect()),
		"bob":                       coordtest.ConnectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("bob:secret"))),
		"ann with another password": coordtest.ConnectReal(t, e.Connect(), coordinator.WithAuth("digest", []byte("ann:wrong"))),
	} {
		if err := coordtest.EndOf(t, c.Mutex(dir).Acquire(t.Context())); !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("%s: the acquisition ends with %v, want ErrNoAuth", name, err)
		}
	}
	coordtest.NotLost(t, first)
	first.Release()
	coordtest.GrantOf(t, second)
	second.Release()

	if _, err := coordinator.Connect(coordtest.RealContext(t), e.Connect(), coordinator.WithAuth("nosuch", []byte("x"))); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("Connect with an unknown scheme = %v, want ErrNoAuth", err)
	}
}

func realChroot(t *testing.T, e *ensemble.Ensemble) {
	raw := coordtest.RawClient(t, e.Addr(0))
	c := coordtest.ConnectReal(t, e.Connect()+"/made/by/us") // and not there yet
	a := c.Mutex("/locks/chroot").Acquire(t.Context())
	grant := coordtest.GrantOf(t, a)
	if path.Dir(grant.Node) != "/locks/chroot" || grant.Path != "/locks/chroot" {
		t.Errorf("%+v is granted below a chroot, want names below it", grant)
	}
	_, stat, err := raw.Get("/made/by/us" + grant.Node)
	if err != nil || stat.EphemeralOwner != grant.Session || stat.Czxid != grant.Token {
		t.Errorf("the granted node is %+v, %v; want that of %+v", stat, err, grant)
	}
	// Without the chroot it is a lock at a longer path.
	other := coordtest.ConnectReal(t, e.Connect()).Mutex("/made/by/us/locks/chroot").Acquire(t.Context())
	coordtest.Queued(t, raw, "/made/by/us/locks/chroot", 2)
	a.Release()
	if next := coordtest.GrantOf(t, other); next.Token <= grant.Token {
		t.Errorf("%+v is granted after %+v, want a greater token", next, grant)
	}
	other.Release()
}
