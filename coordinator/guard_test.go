package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
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
func holder(t *testing.T, srv *zktest.Server, servers string) (*coordinator.Coordinator, *coordinator.Acquisition, events.Grant) {
	t.Helper()
	coordtest.Must(t, srv.Create(ledgerPath, nil))
	c, err := coordinator.Connect(t.Context(), servers, srv.Option())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	a, grant := coordtest.Hold(t, c.Mutex(lockPath))
	return c, a, grant
}

func TestTxnOfAHolder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
		res, err := a.Txn(t.Context(),
			write("one"),
			&zk.CreateRequest{Path: "/jobs", Acl: zk.WorldACL(zk.PermAll)},
			&zk.CreateRequest{Path: "/jobs/job-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence},
			&zk.CheckVersionRequest{Path: ledgerPath, Version: 1})
		if err != nil || len(res) != 4 || res[0].Stat == nil || res[2].String != "/jobs/job-0000000000" {
			t.Fatalf("%+v, %v", res, err)
		}
		if written(srv) != "one" || !srv.Exists("/jobs/job-0000000000") {
			t.Errorf("executed: %q, %v", written(srv), srv.Tree())
		}
		res, err = a.Txn(t.Context(), write("two"), &zk.DeleteRequest{Path: "/none"})
		if !errors.Is(err, zk.ErrNoNode) || errors.Is(err, coordinator.ErrNodeRemoved) || len(res) != 2 || !errors.Is(res[1].Error, zk.ErrNoNode) {
			t.Errorf("with one that fails: %+v, %v", res, err)
		}
		if res, err := a.Txn(t.Context()); err != nil || len(res) != 0 {
			t.Errorf("nothing but the guard: %v, %v", res, err)
		}
		if written(srv) != "one" || !a.Valid() {
			t.Errorf("after a failed one: %q, valid %v", written(srv), a.Valid())
		}
	})
}

func TestTxnIsRelativeToTheChrootAndGuardIsNot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		coordtest.Must(t, srv.Create("/app/ledger", nil))
		_, a, grant := holder(t, srv, srv.Addr()+"/app")
		op := write("one")
		if _, err := a.Txn(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		if data, _ := srv.Data("/app/ledger"); string(data) != "one" || written(srv) != "" {
			t.Errorf("written: %q and %q", data, written(srv))
		}
		if op.Path != ledgerPath {
			t.Errorf("the caller's operation was changed: %v", op)
		}
		if g := a.Guard(); g.Path != "/app"+grant.Node || g.Version != -1 || !srv.Exists(g.Path) {
			t.Errorf("guard %+v", g)
		}
	})
}

// Whoever is not the holder changes nothing, and the servers are not even asked if it is known here.
func TestTxnOfOneWhoDoesNotHold(t *testing.T) {
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
			coordtest.Must(t, srv.Expire(c.SessionID()))
			<-a.Lost()
			return a
		}, coordinator.ErrSessionExpired},
		"closed": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) *coordinator.Acquisition {
			a, _ := coordtest.Hold(t, c.Mutex("/locks/other"))
			coordtest.Must(t, c.Close())
			return a
		}, coordinator.ErrClosed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				holder(t, srv, srv.Addr())
				a := tc.prepare(t, srv, coordtest.Connect(t, srv))
				synctest.Wait()
				before := srv.Requests(zktest.OpMulti)
				res, err := a.Txn(t.Context(), write("no"))
				if !errors.Is(err, tc.want) || res != nil || written(srv) != "" || srv.Requests(zktest.OpMulti) != before {
					t.Errorf("%v, %v; written %q", res, err, written(srv))
				}
			})
		})
	}
}

func TestTxnRefusesBadInput(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
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
			"too much data":      {&zk.SetDataRequest{Path: ledgerPath, Data: bytes.Repeat([]byte("x"), 1<<20)}, coordinator.ErrTooLarge},
		} {
			if res, err := a.Txn(t.Context(), write("no"), tc.op); !errors.Is(err, tc.want) || res != nil {
				t.Errorf("%s: %v, %v", name, res, err)
			}
		}
		if srv.Requests(zktest.OpMulti) != before || !a.Valid() || written(srv) != "" {
			t.Errorf("something was sent: %q, valid %v", written(srv), a.Valid())
		}
	})
}

func TestTxnWhoseReplyIsLost(t *testing.T) {
	for name, tc := range map[string]struct {
		action zktest.Action
		want   string
	}{
		"executed":     {zktest.CutAfter(), "one"},
		"not executed": {zktest.CutBefore(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				_, a, _ := holder(t, srv, srv.Addr())
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if writesLedger(r) {
						return tc.action
					}
					return zktest.Pass()
				})
				if _, err := a.Txn(t.Context(), write("one")); !errors.Is(err, coordinator.ErrOutcomeUnknown) {
					t.Errorf("%v", err)
				}
				synctest.Wait()
				if written(srv) != tc.want || !a.Valid() {
					t.Errorf("written %q, valid %v", written(srv), a.Valid())
				}
			})
		})
	}
}

// writesLedger tells whether the request is a transaction that writes the ledger.
func writesLedger(r zktest.Request) bool {
	return slices.ContainsFunc(r.Parts, func(p zktest.Part) bool { return p.Op == zktest.OpSetData && p.Path == ledgerPath })
}

// What nobody waits for any more is not made later, when nobody expects it.
func TestTxnWhoseContextEndsWhileThereIsNoConnection(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
		cause := errors.New("enough")
		srv.Down(true)
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if _, err := a.Txn(ctx, write("late")); !errors.Is(err, cause) || errors.Is(err, coordinator.ErrOutcomeUnknown) {
			t.Errorf("%v", err)
		}
		srv.Down(false)
		// It does wait if it is let.
		if _, err := a.Txn(t.Context(), &zk.CheckVersionRequest{Path: ledgerPath, Version: 0}); err != nil {
			t.Errorf("with a connection again: %v", err)
		}
		if written(srv) != "" {
			t.Errorf("written: %q", written(srv))
		}
	})
}

func TestTxnWhoseContextEndsWhileItIsUnderWay(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				return zktest.Delay(2 * time.Second)
			}
			return zktest.Pass()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Txn(ctx, write("one")); !errors.Is(err, coordinator.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if written(srv) != "one" {
			t.Error("it was executed")
		}
	})
}

// An overloaded server says that it has not executed the transaction; then it is made again.
func TestTxnThatIsTurnedAwayIsMadeAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
		turned := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) && turned < 3 {
				turned++
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		if _, err := a.Txn(t.Context(), write("one")); err != nil || written(srv) != "one" {
			t.Errorf("%v; written %q", err, written(srv))
		}
	})
}

// A node that somebody removed guards nothing: whoever notices first, the holder or the transaction, the error is the
// same.
func TestTxnWhenTheNodeIsRemoved(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, grant := holder(t, srv, srv.Addr())
		coordtest.Must(t, srv.Delete(grant.Node))
		if res, err := a.Txn(t.Context(), write("no")); !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Errorf("%v, %v", res, err)
		}
		if written(srv) != "" {
			t.Errorf("written: %q", written(srv))
		}
	})
}

// A function in Do finds its acquisition in its context.
func TestTxnInDo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, _, _ := holder(t, srv, srv.Addr())
		if _, ok := coordinator.FromContext(t.Context()); ok {
			t.Error("an acquisition out of nothing")
		}
		err := c.Mutex("/locks/other").Do(t.Context(), func(ctx context.Context, grant events.Grant) error {
			a, ok := coordinator.FromContext(ctx)
			if !ok || a.Guard().Path != grant.Node {
				t.Fatalf("%v, %v", a, ok)
			}
			_, err := a.Txn(ctx, write("one"))
			return err
		})
		if err != nil || written(srv) != "one" {
			t.Errorf("%v; written %q", err, written(srv))
		}
	})
}

// The guard of a past holder stops its writes, however late they come and on whatever connection.
func TestGuardOfAPastHolder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, grant := holder(t, srv, srv.Addr())
		waiting := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		raw := rawBubbleClient(t, srv)
		if g := waiting.Guard(); srv.Exists(g.Path) {
			t.Errorf("the guard of one who waits: %v", g)
		}
		guard := a.Guard()
		if guard.Path != grant.Node {
			t.Errorf("guard %+v of %+v", guard, grant)
		}
		if _, err := raw.Multi(guard, write("in time")); err != nil {
			t.Error(err)
		}
		coordtest.Must(t, srv.Expire(c.SessionID()))
		if _, err := waiting.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, g := range map[string]*zk.CheckVersionRequest{"kept": guard, "asked for again": a.Guard()} {
			if _, err := raw.Multi(g, write("too late")); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if written(srv) != "in time" {
			t.Errorf("written: %q", written(srv))
		}
		if _, err := raw.Multi(waiting.Guard(), write("next")); err != nil {
			t.Errorf("the next holder: %v", err)
		}
	})
}

// rawBubbleClient returns a client as anybody has it.
func rawBubbleClient(t *testing.T, srv *zktest.Server) *zk.Conn {
	t.Helper()
	conn, changes, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogInfo(false),
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			return srv.DialContext(t.Context(), network, address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range changes { // until it is closed: then the client's goroutines have ended
		}
	})
	return conn
}

// The guard makes a transaction harmless that is made too late, or once more: it
// finds no node, or the caller's own check a newer version. What these tests hold is
// that neither is sent.

// TestTxnOfASessionThatIsOverIsNotSent has a transaction wait for a connection until
// the session is over. Another session of the same coordinator comes with that
// connection.
func TestTxnOfASessionThatIsOverIsNotSent(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, grant := holder(t, srv, srv.Addr())
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
		coordtest.Must(t, srv.Expire(grant.Session))
		srv.Down(false)
		if err := <-ended; !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("%v", err)
		}
		coordtest.Hold(t, c.Mutex(lockPath)) // the next session is in use
		synctest.Wait()
		if sent > 0 || c.SessionID() == grant.Session {
			t.Errorf("sent %d times, session 0x%x after 0x%x", sent, c.SessionID(), grant.Session)
		}
	})
}

// TestTxnOfUnknownOutcomeIsSentOnce: whether it was executed is for the caller to find
// out, and whether it may be executed twice for him to know.
func TestTxnOfUnknownOutcomeIsSentOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
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
			t.Errorf("%v", err)
		}
		if _, err := a.Txn(t.Context(), write("two")); err != nil { // behind whatever waits for the connection
			t.Error(err)
		}
		synctest.Wait()
		if sent != 2 || written(srv) != "two" {
			t.Errorf("two transactions were sent %d times, and left %q", sent, written(srv))
		}
	})
}

// A real server executes a holder's transactions, and none of a past holder's.
func TestRealGuard(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	for _, path := range []string{"/app", "/app/ledger"} {
		if _, err := raw.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	c := coordtest.ConnectReal(t, e.Connect()+"/app")
	a := c.Mutex("/locks/guard").Acquire(t.Context())
	grant := coordtest.GrantOf(t, a)
	res, err := a.Txn(t.Context(), write("one"), &zk.CreateRequest{Path: "/job-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
	if err != nil || len(res) != 2 || res[0].Stat == nil || res[1].String == "" {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := a.Txn(t.Context(), write("two"), &zk.DeleteRequest{Path: "/none"}); !errors.Is(err, zk.ErrNoNode) || len(res) != 2 {
		t.Errorf("with one that fails: %+v, %v", res, err)
	}
	guard := a.Guard()
	if guard.Path != "/app"+grant.Node {
		t.Errorf("%+v of %+v", guard, grant)
	}
	onlyTheHolder := func(when string, want error) {
		t.Helper()
		if _, err := raw.Multi(guard, &zk.SetDataRequest{Path: "/app/ledger", Data: []byte(when), Version: -1}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	onlyTheHolder("held", nil)
	coordtest.Must(t, raw.Delete(guard.Path, -1))
	if _, err := a.Txn(t.Context(), write("three")); !errors.Is(err, coordinator.ErrNodeRemoved) {
		t.Errorf("without a node: %v", err)
	}
	onlyTheHolder("removed", zk.ErrNoNode)
	if data, _, err := raw.Get("/app/ledger"); string(data) != "held" || err != nil {
		t.Errorf("written: %q, %v", data, err)
	}
}
