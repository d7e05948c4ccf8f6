package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// ledgerPath is what the holder writes in these tests.
const ledgerPath = "/ledger"

// write is a transaction's operation that writes the ledger.
func write(text string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: ledgerPath, Data: []byte(text), Version: -1}
}

// written returns what was written.
func written(srv *zktest.Server) string {
	data, _ := srv.Data(ledgerPath)
	return string(data)
}

// holder returns a server with a ledger, and the lock held.
func holder(t *testing.T, srv *zktest.Server, chroot string) (*coordinator.Coordinator, *coordinator.Acquisition, events.Grant) {
	t.Helper()
	eventstest.Must(t, srv.Create(ledgerPath, nil))
	c := connectBelow(t, srv, chroot)
	a, grant := coordtest.Hold(t, c.Mutex(lockPath))
	return c, a, grant
}

// An acquisition that does not hold the lock changes nothing. If that is known here, no request is sent.
func TestTxnOfOneThatDoesNotHoldSendsNothing(t *testing.T) {
	cases := map[string]struct {
		prepare func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition
		want    error
	}{
		"waiting": {func(_ *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			return coordtest.Queue(c.Mutex(lockPath))
		}, coordinator.ErrNotAcquired},
		"never asked for": {func(_ *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			return c.Mutex("no path").Acquire(context.Background())
		}, coordinator.ErrPath},
		"released": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			a, _ := coordtest.Hold(t, c.Mutex("/locks/other"))
			a.Release()
			return a
		}, coordinator.ErrReleased},
		"lost": {func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			a, _ := coordtest.Hold(t, c.Mutex("/locks/other"))
			eventstest.Must(t, srv.Expire(c.SessionID()))
			<-a.Lost()
			return a
		}, coordinator.ErrSessionExpired},
		"closed": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			a, _ := coordtest.Hold(t, c.Mutex("/locks/other"))
			eventstest.Must(t, c.Close())
			return a
		}, coordinator.ErrClosed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				holder(t, srv, "")
				a := tc.prepare(t, srv, coordtest.Connect(t, srv))
				synctest.Wait()
				before := srv.Requests(zktest.OpMulti)
				res, err := a.Txn(t.Context(), write("no"))
				if !errors.Is(err, tc.want) || res != nil || written(srv) != "" || srv.Requests(zktest.OpMulti) != before {
					t.Errorf("Txn = %v, %v, and %q is written by %d requests; want %v, and nothing sent",
						res, err, written(srv), srv.Requests(zktest.OpMulti)-before, tc.want)
				}
			})
		})
	}
}

// A Grant counts for a transaction from its moment on, taken or not.
func TestTxnOfAGrantThatWasNotTaken(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		eventstest.Must(t, srv.Create(ledgerPath, nil))
		a := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		if _, err := a.Txn(t.Context(), write("yes")); err != nil || written(srv) != "yes" {
			t.Errorf("Txn after a Grant that was not taken = %v, and %q is written; want nil and \"yes\"", err, written(srv))
		}
		a.Release()
		<-a.Done()
		if _, err := a.Txn(t.Context(), write("no")); !errors.Is(err, coordinator.ErrNotAcquired) || written(srv) != "yes" {
			t.Errorf("Txn of a Grant that was taken back = %v, and %q is written; want ErrNotAcquired and \"yes\"", err, written(srv))
		}
	})
}

func TestTxnRefusesBadInput(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, "")
		before := srv.Requests(zktest.OpMulti)
		for name, tc := range map[string]struct {
			op   any
			want error
		}{
			"nothing":            {nil, coordinator.ErrOperation},
			"another type":       {zk.SetDataRequest{Path: ledgerPath}, coordinator.ErrOperation},
			"a nil pointer":      {(*zk.DeleteRequest)(nil), coordinator.ErrOperation},
			"a relative path":    {&zk.DeleteRequest{Path: "ledger"}, coordinator.ErrPath},
			"a path with a dot":  {&zk.CheckVersionRequest{Path: "/a/../b"}, coordinator.ErrPath},
			"a slash at the end": {&zk.CreateRequest{Path: "/a/"}, coordinator.ErrPath},
			"no such flags":      {&zk.CreateRequest{Path: "/x", Flags: -1}, coordinator.ErrOperation},
			// A real server makes these, and the client cannot read the answer.
			"a container":        {&zk.CreateRequest{Path: "/x", Flags: zk.FlagContainer}, coordinator.ErrOperation},
			"a node with a time": {&zk.CreateRequest{Path: "/x", Flags: zk.FlagTTL}, coordinator.ErrOperation},
			"too much data":      {&zk.SetDataRequest{Path: ledgerPath, Data: bytes.Repeat([]byte("x"), 1<<20)}, coordinator.ErrTooLarge},
		} {
			if res, err := a.Txn(t.Context(), write("no"), tc.op); !errors.Is(err, tc.want) || res != nil {
				t.Errorf("Txn with %s = %v, %v; want %v", name, res, err, tc.want)
			}
		}
		if srv.Requests(zktest.OpMulti) != before || !a.Valid() || written(srv) != "" {
			t.Errorf("after bad input %q is written, valid: %v; want nothing sent, and the lock held", written(srv), a.Valid())
		}
	})
}

// writesLedger tells whether the request is a transaction that writes the ledger.
func writesLedger(r zktest.Request) bool {
	return slices.ContainsFunc(r.Parts, func(p zktest.Part) bool { return p.Op == zktest.OpSetData && p.Path == ledgerPath })
}

// A transaction that was given up is not made later.
func TestTxnWhoseContextEndsWhileThereIsNoConnection(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, "")
		cause := errors.New("enough")
		srv.Down(true)
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if _, err := a.Txn(ctx, write("late")); !errors.Is(err, cause) || errors.Is(err, coordinator.ErrOutcomeUnknown) {
			t.Errorf("Txn without a connection = %v, want the cause of its context", err)
		}
		srv.Down(false)
		// It does wait if it is let.
		if _, err := a.Txn(t.Context(), &zk.CheckVersionRequest{Path: ledgerPath, Version: 0}); err != nil {
			t.Errorf("Txn with a connection again = %v, want nil", err)
		}
		if written(srv) != "" {
			t.Errorf("%q is written, want nothing of the transaction that was given up", written(srv))
		}
	})
}

func TestTxnWhoseContextEndsWhileItIsUnderWay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, "")
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				return zktest.Delay(2 * time.Second)
			}
			return zktest.Pass()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Txn(ctx, write("one")); !errors.Is(err, coordinator.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Txn = %v, want ErrOutcomeUnknown and the end of its context", err)
		}
		if written(srv) != "one" {
			t.Errorf("%q is written, want that of the transaction under way", written(srv))
		}
	})
}

// An overloaded server says that it has not executed the transaction; then it is made again.
func TestTxnThatIsTurnedAwayIsMadeAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, "")
		turned := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) && turned < 3 {
				turned++
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		if _, err := a.Txn(t.Context(), write("one")); err != nil || written(srv) != "one" {
			t.Errorf("turned away three times, Txn = %v, and %q is written; want nil and its own", err, written(srv))
		}
	})
}

// A removed node guards nothing. Whether the holder or the transaction notices first, the error is the same.
func TestTxnWithoutANodeIsErrNodeRemoved(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, grant := holder(t, srv, "")
		eventstest.Must(t, srv.Delete(grant.Node))
		if res, err := a.Txn(t.Context(), write("no")); !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Errorf("Txn without a node = %v, %v; want ErrNodeRemoved", res, err)
		}
		if written(srv) != "" {
			t.Errorf("without a node %q is written, want nothing", written(srv))
		}
	})
}

// A function in Do finds its acquisition in its context.
func TestTheFunctionOfDoFindsItsAcquisition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, _, _ := holder(t, srv, "")
		if _, ok := coordinator.FromContext(t.Context()); ok {
			t.Error("FromContext finds an acquisition outside of Do, want none")
		}
		err := c.Mutex("/locks/other").Do(t.Context(), func(ctx context.Context, grant events.Grant) error {
			a, ok := coordinator.FromContext(ctx)
			if !ok || a.Guard().Path != grant.Node {
				t.Fatalf("FromContext = %v, %v; want the acquisition of Do", a, ok)
			}
			_, err := a.Txn(ctx, write("one"))
			return err
		})
		if err != nil || written(srv) != "one" {
			t.Errorf("Do = %v, and %q is written; want nil and the function's", err, written(srv))
		}
	})
}

// The guard of a past holder stops its writes, however late they come and on any connection.
func TestTheGuardOfAPastHolderStopsItsWrites(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, grant := holder(t, srv, "")
		waiting := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		raw := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		if g := waiting.Guard(); srv.Exists(g.Path) {
			t.Errorf("one that waits is guarded by %v, which is there; want no such node", g)
		}
		guard := a.Guard()
		if guard.Path != grant.Node {
			t.Errorf("the guard of %+v is %+v, want its node", grant, guard)
		}
		if _, err := raw.Multi(guard, write("in time")); err != nil {
			t.Errorf("a guarded write while the lock is held: %v, want nil", err)
		}
		eventstest.Must(t, srv.Expire(c.SessionID()))
		if _, err := waiting.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, g := range map[string]*zk.CheckVersionRequest{"kept": guard, "asked for again": a.Guard()} {
			if _, err := raw.Multi(g, write("too late")); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("a write guarded by a past holder's guard, %s: %v, want zk.ErrNoNode", name, err)
			}
		}
		if written(srv) != "in time" {
			t.Errorf("%q is written, want that of the holder", written(srv))
		}
		if _, err := raw.Multi(waiting.Guard(), write("next")); err != nil {
			t.Errorf("a write guarded by the next holder: %v, want nil", err)
		}
	})
}

// If a transaction is made too late, or twice, the guard makes it harmless: it finds no node, or the caller's own check finds a
// newer version. These tests check that neither is sent.

// TestTxnOfASessionThatIsOverIsNotSent has a transaction wait for a connection until
// the session is over. Another session of the same coordinator comes with that
// connection.
func TestTxnOfASessionThatIsOverIsNotSent(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, grant := holder(t, srv, "")
		sent := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				sent++
			}
			return zktest.Pass()
		})
		srv.Down(true)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			_, err := a.Txn(t.Context(), write("late"))
			ended <- err
		}()
		synctest.Wait()
		eventstest.Must(t, srv.Expire(grant.Session))
		srv.Down(false)
		if err := <-ended; !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("Txn of a session that is over = %v, want ErrSessionExpired", err)
		}
		coordtest.Hold(t, c.Mutex(lockPath)) // the next session is in use
		synctest.Wait()
		if sent > 0 || c.SessionID() == grant.Session {
			t.Errorf("sent %d times, in session 0x%x after 0x%x; want never, and another session", sent, c.SessionID(), grant.Session)
		}
	})
}

// TestTxnOfUnknownOutcomeIsSentOnce: the caller finds out whether it was executed, and knows whether it may be executed twice.
func TestTxnOfUnknownOutcomeIsSentOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, "")
		sent := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if !writesLedger(r) {
				return zktest.Pass()
			}
			if sent++; sent == 1 {
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		if _, err := a.Txn(t.Context(), write("one")); !errors.Is(err, coordinator.ErrOutcomeUnknown) {
			t.Errorf("Txn with a lost reply = %v, want ErrOutcomeUnknown", err)
		}
		if _, err := a.Txn(t.Context(), write("two")); err != nil { // behind requests that wait for the connection
			t.Errorf("the next Txn = %v, want nil", err)
		}
		synctest.Wait()
		if sent != 2 || written(srv) != "two" {
			t.Errorf("two transactions were sent %d times, and left %q; want twice, and \"two\"", sent, written(srv))
		}
	})
}

// TestTransactionsOfAHolderAreWholeAndGuarded: they are executed as a whole, below the chroot. The path of the guard is below it,
// too.
func TestTransactionsOfAHolderAreWholeAndGuarded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := &site{
			connect: func(...coordinator.Option) *coordinator.Coordinator { return connectBelow(t, srv, "/app") },
			raw:     coordtest.Admin(t, srv.Addr(), srv.DialContext), root: "/app",
		}
		s.transactions(t)
	})
}

// TestRealGuard is the same on a real server.
func TestRealGuard(t *testing.T) {
	t.Parallel()
	onARealServer(t).transactions(t)
}

// transactions makes a holder's transactions, until its node is removed.
func (s *site) transactions(t *testing.T) {
	t.Helper()
	makeNodes(t, s.raw, [2]string{s.root}, [2]string{s.root + ledgerPath})
	ledger := func(when, want string) {
		t.Helper()
		if data, _, err := s.raw.Get(s.root + ledgerPath); string(data) != want || err != nil {
			t.Errorf("%s the ledger has %q, %v; want %q", when, data, err, want)
		}
	}
	a := s.connect().Mutex(lockPath).Acquire(t.Context())
	grant := coordtest.GrantOf(t, a)
	op := write("one")
	res, err := a.Txn(t.Context(),
		op,
		&zk.CreateRequest{Path: "/jobs", Acl: zk.WorldACL(zk.PermAll)},
		&zk.CreateRequest{Path: "/jobs/job-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence},
		&zk.CheckVersionRequest{Path: ledgerPath, Version: 1})
	if err != nil || len(res) != 4 || res[0].Stat == nil || res[2].String != "/jobs/job-0000000000" {
		t.Fatalf("Txn of four operations = %+v, %v; want four results, with the names below the chroot", res, err)
	}
	if there, _, err := s.raw.Exists(s.root + "/jobs/job-0000000000"); !there {
		t.Errorf("the job is there: %v, %v; want it made below the chroot", there, err)
	}
	if op.Path != ledgerPath {
		t.Errorf("the caller's operation has become one of %s, want it unchanged", op.Path)
	}
	ledger("after the first transaction", "one")
	res, err = a.Txn(t.Context(), write("two"), &zk.DeleteRequest{Path: "/none"})
	if !errors.Is(err, zk.ErrNoNode) || errors.Is(err, coordinator.ErrNodeRemoved) || len(res) != 2 || !errors.Is(res[1].Error, zk.ErrNoNode) {
		t.Errorf("Txn with an operation that fails = %+v, %v; want ErrNoNode from the second", res, err)
	}
	if res, err := a.Txn(t.Context()); err != nil || len(res) != 0 {
		t.Errorf("Txn of nothing but the guard = %v, %v; want no result and nil", res, err)
	}
	coordtest.NotLost(t, a)
	ledger("after one that fails", "one")
	guard := a.Guard()
	if there, _, err := s.raw.Exists(guard.Path); guard.Path != s.root+grant.Node || guard.Version != -1 || !there {
		t.Errorf("the guard of %+v is %+v, and its node there: %v, %v; want the node's whole path", grant, guard, there, err)
	}
	onlyTheHolder := func(when string, want error) {
		t.Helper()
		if _, err := s.raw.Multi(guard, &zk.SetDataRequest{Path: s.root + ledgerPath, Data: []byte(when), Version: -1}); !errors.Is(err, want) {
			t.Errorf("a guarded write of another client, when the lock is %s: %v, want %v", when, err, want)
		}
	}
	onlyTheHolder("held", nil)
	eventstest.Must(t, s.raw.Delete(guard.Path, -1))
	if _, err := a.Txn(t.Context(), write("three")); !errors.Is(err, coordinator.ErrNodeRemoved) {
		t.Errorf("a transaction when the node has gone: %v, want ErrNodeRemoved", err)
	}
	onlyTheHolder("removed", zk.ErrNoNode)
	ledger("when the node has gone", "held")
}

// Transactions at the edges of what they are guarded by: the Grant, the Release, Close, the chroot.

// A transaction that is tried from the moment of Acquire on is never unguarded: it is not sent, or its guard is the lock's node.
func TestTxnAroundTheGrantIsNeverUnguarded(t *testing.T) {
	acquisitions := eventstest.Amount(20, 200)
	srv := zktest.Start(t)
	eventstest.Must(t, srv.Create("/app"+ledgerPath, nil))
	c := connectBelow(t, srv, "/app")
	var guards sync.Map
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if len(r.Parts) > 1 && r.Parts[1].Op == zktest.OpSetData {
			guards.Store(path.Dir(r.Parts[0].Path), true)
		}
		return zktest.Pass()
	})
	for range acquisitions {
		a := c.Mutex(lockPath).Acquire(t.Context())
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() {
				err := coordinator.ErrNotAcquired
				for errors.Is(err, coordinator.ErrNotAcquired) {
					_, err = a.Txn(t.Context(), write("x"))
				}
			})
		}
		writers.Wait()
		coordtest.End(a)
	}
	guards.Range(func(dir, _ any) bool {
		if dir != "/app"+lockPath {
			t.Errorf("a transaction was guarded by a node of %v, want one of %s", dir, "/app"+lockPath)
		}
		return true
	})
}

// After a Release the error is ErrReleased, whichever request finds first that the node is gone.
func TestTxnBesideReleaseIsNilOrErrReleased(t *testing.T) {
	for name, meanwhile := range map[string]func(srv *zktest.Server, a *coordinator.Acquisition, txn func()){
		"while it is turned away": func(srv *zktest.Server, a *coordinator.Acquisition, txn func()) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if !writesLedger(r) {
					return zktest.Pass()
				}
				a.Release()
				return zktest.Fail(zktest.Throttled)
			})
			txn()
			srv.Intercept(nil)
		},
		"while there is no connection": func(srv *zktest.Server, a *coordinator.Acquisition, txn func()) {
			srv.Down(true)
			synctest.Wait()
			txn()
			a.Release()
			synctest.Wait()
			srv.Down(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				_, a, _ := holder(t, srv, "")
				ended := make(chan error, 1)
				meanwhile(srv, a, func() {
					go func() {
						_, err := a.Txn(t.Context(), write("x"))
						ended <- err
					}()
					synctest.Wait()
				})
				if err := <-ended; err != nil && !errors.Is(err, coordinator.ErrReleased) {
					t.Errorf("Txn beside a release = %v, want nil or ErrReleased", err)
				}
				if <-a.Done(); a.Err() != nil {
					t.Errorf("released, it ends with %v, want nil", a.Err())
				}
			})
		})
	}
}

// A transaction that a server has turned away waits for its second try, or for its answer, while Close is done.
func TestTxnIsAnsweredWhenTheCoordinatorIsClosedMeanwhile(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"turned away":   zktest.Fail(zktest.Throttled),
		"answered late": zktest.Delay(time.Second),
		"not answered":  zktest.Swallow(),
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, a, _ := holder(t, srv, "")
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if writesLedger(r) {
						return action
					}
					return zktest.Pass()
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, err := a.Txn(ctx, write("x"))
					ended <- err
				}()
				synctest.Wait()
				start := time.Now()
				if err := c.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
				if err := <-ended; errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
					t.Errorf("Txn = %v %v after Close, want an answer within 10 s", err, time.Since(start))
				}
				if _, err := a.Txn(ctx, write("x")); !errors.Is(err, coordinator.ErrClosed) {
					t.Errorf("Txn after Close = %v, want ErrClosed", err)
				}
			})
		})
	}
}

// gated is a connection that takes what is written when the gate is open.
type gated struct {
	net.Conn
	gate *atomic.Pointer[chan struct{}]
}

func (g gated) Write(p []byte) (int, error) {
	if shut := g.gate.Load(); shut != nil {
		<-*shut
	}
	return g.Conn.Write(p)
}

// The caller may reuse its data when Txn has returned, though they may be sent later.
func TestTxnKeepsNothingOfTheCallers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const fillerPath = "/filler"
		for _, path := range []string{ledgerPath, fillerPath} {
			eventstest.Must(t, srv.Create(path, nil))
		}
		var gate atomic.Pointer[chan struct{}]
		c := coordtest.Connect(t, srv, coordinator.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, addr)
			return gated{conn, &gate}, err
		}))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		shut := make(chan struct{})
		gate.Store(&shut)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		data := []byte("right")
		var writers sync.WaitGroup
		write := func(path string, data []byte) {
			writers.Go(func() {
				_, err := a.Txn(ctx, &zk.SetDataRequest{Path: path, Data: data, Version: -1})
				if !errors.Is(err, coordinator.ErrOutcomeUnknown) {
					t.Errorf("Txn = %v, want ErrOutcomeUnknown", err)
				}
			})
			synctest.Wait()
		}
		for range 4 { // as much as the connection takes: the last one waits to be written
			write(fillerPath, make([]byte, 600_000))
		}
		for range 3 { // and these behind it
			write(ledgerPath, data)
		}
		writers.Wait()
		copy(data, "wrong")
		gate.Store(nil)
		close(shut)
		synctest.Wait()
		if got := written(srv); got != "right" {
			t.Errorf("%q is written, want %q: what the caller gave", got, "right")
		}
	})
}

// What one transaction answers the next one takes, and no path leads out of the chroot.
func TestTxnStaysInTheChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		eventstest.Must(t, srv.Create("/app/ledger", nil))
		_, a, _ := holder(t, srv, "/app")
		for _, name := range []string{"/job-", "/"} {
			res, err := a.Txn(t.Context(), &zk.CreateRequest{Path: name, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
			if err != nil {
				t.Fatal(err)
			}
			made := res[0].String
			if !strings.HasPrefix(made, name) || !srv.Exists("/app"+made) {
				t.Errorf("the result names %q for %q, and there are %v; want the node below the chroot", made, name, srv.Tree())
			}
			if _, err := a.Txn(t.Context(), &zk.DeleteRequest{Path: made, Version: -1}); err != nil {
				t.Errorf("Txn that deletes %q = %v, want nil", made, err)
			}
		}
	})
}

// TestTxnSaysWhatBecameOfIt makes transactions under random faults, each of which creates a node of its own, and counts the nodes
// afterwards. A transaction that returned nil was executed once, one of unknown outcome at most once, and any other never. All of
// them return.
func TestTxnSaysWhatBecameOfIt(t *testing.T) {
	seeds := uint64(eventstest.Amount(15, 150))
	var sum fates
	for seed := range seeds {
		eventstest.Bubble(t, func(t *testing.T) {
			s := newTxnStory(t, seed)
			s.play()
			s.judge(&sum)
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d done, %d unknown, %d not executed", sum.done, sum.unknown, sum.not)
	if seeds >= 100 && (sum.done < 500 || sum.unknown < 200 || sum.not < 50) {
		t.Error("too few of one kind, want 500 done, 200 unknown and 50 not executed")
	}
}

// fates counts the outcomes of transactions.
type fates struct{ done, unknown, not int }

// txnStory is a coordinator that makes transactions while its connection, server and locks are disturbed.
type txnStory struct {
	*testing.T
	seed    uint64
	timeout time.Duration
	srv     *zktest.Server
	network *faultnet.Network
	c       *coordinator.Coordinator
	running sync.WaitGroup

	mu     sync.Mutex
	rng    *rand.Rand
	healed bool
	asked  []string         // the prefix of the node that each transaction makes
	told   map[string]error // what it returned
}

func newTxnStory(t *testing.T, seed uint64) *txnStory {
	const tick = time.Second
	s := &txnStory{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), told: map[string]error{}}
	s.timeout = tick * time.Duration(2+s.roll(8))
	s.srv = zktest.Start(t, zktest.Tick(tick), zktest.Followers())
	eventstest.Must(t, s.srv.Create("/app/made", nil))
	s.srv.Intercept(s.server)
	s.network = faultnet.New(s.srv.DialContext, s.frame)
	var err error
	s.c, err = coordinator.Connect(t.Context(), s.srv.Addr()+"/app", coordinator.WithDialer(s.network.Dial),
		coordinator.WithSessionTimeout(s.timeout), coordinator.WithTickTime(tick))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// roll returns a number below n. It may be called from any goroutine.
func (s *txnStory) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// some returns a time below d.
func (s *txnStory) some(d time.Duration) time.Duration { return time.Duration(s.roll(int(d))) }

func (s *txnStory) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healed
}

// server decides the fate of transactions at the server.
func (s *txnStory) server(r zktest.Request) zktest.Action {
	if r.Op != zktest.OpMulti || len(r.Parts) < 2 || s.whole() {
		return zktest.Pass()
	}
	switch s.roll(14) {
	case 0:
		return zktest.Fail(zktest.Throttled)
	case 1:
		return zktest.Fail(zktest.SessionMoved)
	case 2:
		return zktest.CutAfter()
	case 3:
		return zktest.CutBefore()
	case 4:
		return zktest.Delay(s.some(s.timeout))
	default:
		return zktest.Pass()
	}
}

// frame decides the fate of any frame on the network.
func (s *txnStory) frame(faultnet.Frame) faultnet.Verdict {
	if s.whole() || s.roll(40) > 0 {
		return faultnet.Pass()
	}
	switch s.roll(4) {
	case 0:
		return faultnet.CutAfter()
	case 1:
		return faultnet.CutBefore()
	case 2:
		return faultnet.Swallow()
	default:
		return faultnet.HoldFor(s.some(s.timeout))
	}
}

func (s *txnStory) play() {
	for range 6 {
		a := s.c.Mutex("/locks/a").Acquire(context.Background())
		select {
		case <-a.Granted():
		case <-time.After(s.some(5 * s.timeout)): // not held, or the Grant was not taken: it is tried all the same
		}
		for range s.roll(12) {
			s.transact(a)
			if s.roll(2) == 0 {
				time.Sleep(s.some(s.timeout / 4))
			}
		}
		s.disturb()
		a.Release()
	}
	if s.roll(2) == 0 {
		time.Sleep(s.timeout)
	}
	_ = s.c.Close() // whether the servers could be told does not matter here
	s.mu.Lock()
	s.healed = true
	s.mu.Unlock()
	s.network.Heal()
	s.running.Wait() // or the bubble says that it is deadlocked
	time.Sleep(10 * s.timeout)
	s.network.Close()
}

// transact makes a transaction that creates a node.
func (s *txnStory) transact(a *coordinator.Acquisition) {
	prefix := fmt.Sprintf("/made/%d-", len(s.asked))
	s.asked = append(s.asked, prefix)
	ctx, cancel := context.WithCancel(context.Background())
	if s.roll(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, s.some(s.timeout))
	}
	s.running.Go(func() {
		defer cancel()
		_, err := a.Txn(ctx, &zk.CreateRequest{Path: prefix, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told[prefix] = err
	})
}

func (s *txnStory) disturb() {
	session := s.c.SessionID()
	switch s.roll(8) {
	case 0:
		_ = s.srv.Expire(session) // there may be none at the moment
	case 1:
		s.network.Cut()
	case 2:
		s.network.Partition()
		time.Sleep(s.some(2 * s.timeout))
		s.network.Heal()
	case 3:
		s.srv.Strand(session, true)
		time.Sleep(s.some(s.timeout))
		s.srv.Strand(session, false)
	default: // nothing
	}
}

func (s *txnStory) judge(sum *fates) {
	made := map[string]int{}
	for _, child := range s.srv.Children("/app/made") {
		number, _, _ := strings.Cut(child, "-")
		made["/made/"+number+"-"]++
	}
	for _, prefix := range s.asked {
		err, n := s.told[prefix], made[prefix]
		var wrong bool
		switch {
		case err == nil:
			sum.done++
			wrong = n != 1
		case errors.Is(err, coordinator.ErrOutcomeUnknown):
			sum.unknown++
			wrong = n > 1
		default:
			sum.not++
			wrong = n != 0
		}
		if errors.Is(err, coordinator.ErrNodeRemoved) {
			s.Errorf("seed %d: %s: Txn returned %v, want another error: no node is removed by hand", s.seed, prefix, err)
		}
		if wrong {
			s.Errorf("seed %d: %s was executed %d times, and Txn returned %v; want once for nil, at most once for an unknown outcome, and never for the rest",
				s.seed, prefix, n, err)
		}
	}
}
