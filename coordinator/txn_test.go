package coordinator_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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

// writesLedger reports whether the request is a transaction that writes the ledger.
func writesLedger(r zktest.Request) bool {
	return slices.ContainsFunc(r.Parts, func(p zktest.Part) bool { return p.Op == zktest.OpSetData && p.Path == ledgerPath })
}

// txnOf makes a transaction that writes the ledger, in a goroutine, and returns how it ends.
func txnOf(ctx context.Context, a *coordinator.Acquisition, text string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := a.Txn(ctx, write(text))
		ended <- err
	}()
	synctest.Wait()
	return ended
}

// TestWhatATransactionSaysOfAFault: it is sent once, unless a server says that it has not executed it. A transaction that was given up
// before that is not made later. A removed node guards nothing: whether the holder or the transaction notices first, the error is the
// same. The next transaction is made as if there had been none.
func TestWhatATransactionSaysOfAFault(t *testing.T) {
	enough, lost := errors.New("enough"), coordinator.ErrOutcomeUnknown
	type story struct {
		arrange func(srv *zktest.Server, node string)
		strikes int // so many of its requests
		action  zktest.Action
		wait    time.Duration // of its context; 0: an hour
		want    error
		unknown bool // the outcome
		written string
		sent    int
	}
	forEach(t, map[string]story{
		"there is no connection": {
			arrange: func(srv *zktest.Server, _ string) { srv.Down(true); synctest.Wait() }, wait: time.Second, want: enough,
		},
		"the node is removed": {
			arrange: func(srv *zktest.Server, node string) { _ = srv.Delete(node) }, want: coordinator.ErrNodeRemoved,
		},
		"it is given up under way": {
			strikes: 1, action: zktest.Delay(2 * time.Second), wait: time.Second, want: enough, unknown: true, written: "one", sent: 1,
		},
		"it is turned away":   {strikes: 3, action: zktest.Fail(zktest.Throttled), written: "one", sent: 4},
		"its answer is lost":  {strikes: 1, action: zktest.CutAfter(), want: lost, unknown: true, written: "one", sent: 1},
		"its request is lost": {strikes: 1, action: zktest.CutBefore(), want: lost, unknown: true, sent: 1},
	}, func(t *testing.T, srv *zktest.Server, x story) {
		_, a, grant := holder(t, srv, "")
		sent := 0
		strike(srv, x.action, func(r zktest.Request) bool {
			if !writesLedger(r) {
				return false
			}
			sent++
			return sent <= x.strikes
		})
		if x.arrange != nil {
			x.arrange(srv, grant.Node)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), cmp.Or(x.wait, time.Hour), enough)
		defer cancel()
		if _, err := a.Txn(ctx, write("one")); !errors.Is(err, x.want) || errors.Is(err, coordinator.ErrOutcomeUnknown) != x.unknown {
			t.Errorf("Txn = %v, want %v, of unknown outcome: %v", err, x.want, x.unknown)
		}
		srv.Down(false)
		if written(srv) != x.written {
			t.Errorf("%q is written, want %q", written(srv), x.written)
		}
		if errors.Is(x.want, coordinator.ErrNodeRemoved) {
			return
		}
		eventstest.Check(t, <-txnOf(t.Context(), a, "two")) // behind requests that wait for the connection
		time.Sleep(time.Minute)
		if sent != x.sent+1 || written(srv) != "two" {
			t.Errorf("two transactions were sent %d times, and left %q; want %d, and \"two\"",
				sent, written(srv), x.sent+1)
		}
	})
}

// A transaction that reaches the servers when another contender holds the lock is not executed.
func TestTxnOfAPastHolderWritesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, grant := holder(t, srv, "")
		waiting := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		goOn := make(chan struct{})
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				<-goOn
			}
			return zktest.Pass()
		})
		ended := txnOf(t.Context(), a, "too late") // it has arrived
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
		ended := txnOf(t.Context(), a, "late")
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
	type race = func(t *testing.T, srv *zktest.Server, a *coordinator.Acquisition) <-chan error
	forEach(t, map[string]race{
		"while it is turned away": func(t *testing.T, srv *zktest.Server, a *coordinator.Acquisition) <-chan error {
			t.Helper()
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if !writesLedger(r) {
					return zktest.Pass()
				}
				a.Release()
				return zktest.Fail(zktest.Throttled)
			})
			defer srv.Intercept(nil)
			return txnOf(t.Context(), a, "x")
		},
		"while there is no connection": func(t *testing.T, srv *zktest.Server, a *coordinator.Acquisition) <-chan error {
			t.Helper()
			srv.Down(true)
			synctest.Wait()
			ended := txnOf(t.Context(), a, "x")
			a.Release()
			synctest.Wait()
			srv.Down(false)
			return ended
		},
	}, func(t *testing.T, srv *zktest.Server, happens race) {
		_, a, _ := holder(t, srv, "")
		if err := <-happens(t, srv, a); err != nil && !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("Txn beside a release = %v, want nil or ErrReleased", err)
		}
		if <-a.Done(); a.Err() != nil {
			t.Errorf("released, it ends with %v, want nil", a.Err())
		}
	})
}

// A transaction that a server has turned away waits for its second try, or for its answer, while Close is done.
func TestTxnIsAnsweredWhenTheCoordinatorIsClosedMeanwhile(t *testing.T) {
	forEach(t, map[string]zktest.Action{
		"turned away":   zktest.Fail(zktest.Throttled),
		"answered late": zktest.Delay(time.Second),
		"not answered":  zktest.Swallow(),
	}, func(t *testing.T, srv *zktest.Server, action zktest.Action) {
		c, a, _ := holder(t, srv, "")
		strike(srv, action, writesLedger)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended, start := txnOf(ctx, a, "x"), time.Now()
		eventstest.Check(t, c.Close())
		if err := <-ended; errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
			t.Errorf("Txn = %v %v after Close, want an answer within 10 s", err, time.Since(start))
		}
		if err := <-txnOf(ctx, a, "x"); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Txn after Close = %v, want ErrClosed", err)
		}
	})
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
