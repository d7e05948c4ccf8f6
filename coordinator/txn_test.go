package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"net"
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
			if !ok || a.Grant().Node != grant.Node {
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

// A transaction that reaches the servers when another contender holds the lock is not executed.
func TestTxnOfAPastHolderWritesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, grant := holder(t, srv, "")
		waiting := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		arrived, goOn := make(chan struct{}), make(chan struct{})
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				close(arrived)
				<-goOn
			}
			return zktest.Pass()
		})
		ended := make(chan error, 1)
		go func() {
			_, err := a.Txn(t.Context(), write("too late"))
			ended <- err
		}()
		<-arrived
		srv.Intercept(nil)
		eventstest.Must(t, srv.Delete(grant.Node))
		if _, err := waiting.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		if _, err := waiting.Txn(t.Context(), write("next")); err != nil {
			t.Errorf("a transaction of the next holder: %v, want nil", err)
		}
		if err := <-ended; !errors.Is(err, coordinator.ErrNodeRemoved) || written(srv) != "next" {
			t.Errorf("a transaction that comes too late: %v, and %q is written; want ErrNodeRemoved, and that of the next holder", err, written(srv))
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

// TestTransactionsOfAHolderAreWholeAndGuarded: they are executed as a whole, below the chroot, and only while the node is there.
func TestTransactionsOfAHolderAreWholeAndGuarded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := &site{
			connect: func(...coordinator.Option) *coordinator.Coordinator { return connectBelow(t, srv, "/app") },
			raw:     coordtest.Admin(t, srv.Addr(), srv.DialContext), root: "/app",
		}
		s.transactions(t)
	})
}

// TestRealTxn is the same on a real server.
func TestRealTxn(t *testing.T) {
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
	eventstest.Must(t, s.raw.Delete(s.root+grant.Node, -1))
	if _, err := a.Txn(t.Context(), write("three")); !errors.Is(err, coordinator.ErrNodeRemoved) {
		t.Errorf("a transaction when the node has gone: %v, want ErrNodeRemoved", err)
	}
	ledger("when the node has gone", "one")
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
