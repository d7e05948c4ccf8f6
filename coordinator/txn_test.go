package coordinator_test

import (
	"bytes"
	"cmp"
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

// ledgerPath is the node that the holder writes in these tests.
const ledgerPath = "/ledger"

// write returns an operation that writes the ledger.
func write(text string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: ledgerPath, Data: []byte(text), Version: -1}
}

// written returns the ledger's data.
func written(srv *zktest.Server) string {
	data, _ := srv.Data(ledgerPath)
	return string(data)
}

// holder creates the ledger and returns a coordinator that holds the lock.
func holder(t *testing.T, srv *zktest.Server) (*coordinator.Coordinator, *coordinator.Acquisition, events.Grant) {
	t.Helper()
	eventstest.Must(t, srv.Create(ledgerPath, nil))
	c := coordtest.Connect(t, srv)
	a, grant := coordtest.Hold(t, c.Mutex(lockPath))
	return c, a, grant
}

func TestTxnRefusesBadInput(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv)
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
			// A real server executes these, but the client cannot read the answer.
			"a container":        {&zk.CreateRequest{Path: "/x", Flags: zk.FlagContainer}, coordinator.ErrOperation},
			"a node with a time": {&zk.CreateRequest{Path: "/x", Flags: zk.FlagTTL}, coordinator.ErrOperation},
			"too much data":      {&zk.SetDataRequest{Path: ledgerPath, Data: bytes.Repeat([]byte("x"), 1<<20)}, coordinator.ErrTooLarge},
		} {
			res, err := a.Txn(t.Context(), write("no"), tc.op)
			expect(t, errors.Is(err, tc.want) && res == nil, "Txn with %s = %v, %v; want %v", name, res, err, tc.want)
		}
		expect(t, srv.Requests(zktest.OpMulti) == before && a.Valid() && written(srv) == "",
			"after bad input %q is written, valid: %v; want nothing sent, and the lock held", written(srv), a.Valid())
	})
}

// writesLedger reports whether the request is a transaction with the ledger in it.
func writesLedger(r zktest.Request) bool {
	return slices.ContainsFunc(r.Parts, func(p zktest.Part) bool { return p.Path == ledgerPath })
}

// txnOf sends a transaction that writes the ledger, in a goroutine, and returns a channel
// for its error.
func txnOf(ctx context.Context, a *coordinator.Acquisition, text string) <-chan error {
	defer synctest.Wait()
	return inBackground(func() error { return txnErr(a.Txn(ctx, write(text))) })
}

// txnErr returns the error of a transaction.
func txnErr(_ []zk.MultiResponse, err error) error { return err }

// TestWhatATransactionSaysOfAFault: a transaction is sent once, unless a server says that
// it was not executed. After it was given up, it is not sent later. The next transaction
// is unaffected.
func TestWhatATransactionSaysOfAFault(t *testing.T) {
	enough, lost := errors.New("enough"), coordinator.ErrOutcomeUnknown
	type story struct {
		arrange func(srv *zktest.Server, node string)
		strikes int // how many of its requests
		action  zktest.Action
		wait    time.Duration // the timeout of its context; 0: an hour
		want    error
		unknown bool // the outcome is unknown
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
		_, a, grant := holder(t, srv)
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
		_, err := a.Txn(ctx, write("one"))
		expect(t, errors.Is(err, x.want) && errors.Is(err, coordinator.ErrOutcomeUnknown) == x.unknown,
			"Txn = %v, want %v, of unknown outcome: %v", err, x.want, x.unknown)
		srv.Down(false)
		expect(t, written(srv) == x.written, "%q is written, want %q", written(srv), x.written)
		if errors.Is(x.want, coordinator.ErrNodeRemoved) {
			return
		}
		eventstest.Check(t, <-txnOf(t.Context(), a, "two")) // after the requests that wait for the connection
		time.Sleep(time.Minute)
		expect(t, sent == x.sent+1 && written(srv) == "two",
			"two transactions were sent %d times, and left %q; want %d, and \"two\"", sent, written(srv), x.sent+1)
	})
}

// A transaction that reaches the servers while another contender holds the lock is not
// executed.
func TestTxnOfAPastHolderWritesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, grant := holder(t, srv)
		waiting := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		goOn := make(chan struct{})
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if writesLedger(r) {
				<-goOn
			}
			return zktest.Pass()
		})
		ended := txnOf(t.Context(), a, "too late") // the request has arrived
		srv.Intercept(nil)
		eventstest.Must(t, srv.Delete(grant.Node))
		coordtest.GrantOf(t, waiting)
		close(goOn)
		expectError(t, txnErr(waiting.Txn(t.Context(), write("next"))), nil, "a transaction of the next holder")
		expectError(t, <-ended, coordinator.ErrNodeRemoved, "a transaction that comes too late")
		expect(t, written(srv) == "next", "%q is written, want what the next holder wrote", written(srv))
	})
}

// If a transaction is sent too late, or twice, the guard makes it harmless: it finds no
// node, or the caller's own check finds a newer version. These tests check that neither
// is sent.

// TestTxnOfASessionThatIsOverIsNotSent: a transaction and a Get wait for a connection
// until their session is over. The next connection belongs to a new session of the same
// coordinator, which might read older data than the last holder wrote.
func TestTxnOfASessionThatIsOverIsNotSent(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, a, grant := holder(t, srv)
		sent := counting(srv, func(r zktest.Request) bool { return writesLedger(r) || r.Path == ledgerPath })
		srv.Down(true)
		synctest.Wait()
		ended := txnOf(t.Context(), a, "late")
		read := inBackground(func() error {
			_, _, err := a.Get(context.Background(), ledgerPath)
			return err
		})
		synctest.Wait()
		eventstest.Must(t, srv.Expire(grant.Session))
		srv.Down(false)
		expectError(t, <-ended, coordinator.ErrSessionExpired, "Txn of a session that is over")
		expectError(t, <-read, coordinator.ErrSessionExpired, "Get in a session that is over")
		coordtest.Hold(t, c.Mutex(lockPath)) // the next session is in use
		synctest.Wait()
		expect(t, sent.Load() == 0 && c.SessionID() != grant.Session,
			"sent %d times, in session %#x after %#x; want none, another", sent.Load(), c.SessionID(), grant.Session)
	})
}

// TestTransactionsOfAHolderAreWholeAndGuarded: they are executed as a whole, below the
// chroot, and only while the node exists. The results of one can be used in the next.
func TestTransactionsOfAHolderAreWholeAndGuarded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := &site{
			connect: func(...coordinator.Option) *coordinator.Coordinator { return connectBelow(t, srv, "/app") },
			raw:     coordtest.Admin(t, srv.Addr(), srv.DialContext), root: "/app",
		}
		s.transactions(t)
	})
}

// TestRealTxn does the same on a real server.
func TestRealTxn(t *testing.T) {
	t.Parallel()
	onARealServer(t).transactions(t)
}

// transactions sends a holder's transactions, until its node is removed.
func (s *site) transactions(t *testing.T) {
	t.Helper()
	makeNodes(t, s.raw, [2]string{s.root}, [2]string{s.root + ledgerPath})
	ledger := func(when, want string) {
		data, _, err := s.raw.Get(s.root + ledgerPath)
		expect(t, string(data) == want && err == nil, "%s the ledger has %q, %v; want %q", when, data, err, want)
	}
	a, grant := coordtest.HoldReal(t, s.connect().Mutex(lockPath))
	op := write("one")
	res, err := a.Txn(t.Context(),
		op,
		&zk.CreateRequest{Path: "/jobs", Acl: zk.WorldACL(zk.PermAll)},
		&zk.CreateRequest{Path: "/jobs/job-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence},
		&zk.CheckVersionRequest{Path: ledgerPath, Version: 1})
	if err != nil || len(res) != 4 || res[0].Stat == nil || res[2].String != "/jobs/job-0000000000" {
		t.Fatalf("Txn of four operations = %+v, %v; want four results, with the names below the chroot", res, err)
	}
	sequence := &zk.CreateRequest{Path: "/", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}
	nameless, err := a.Txn(t.Context(), sequence)
	eventstest.Must(t, err)
	for _, made := range []string{res[2].String, nameless[0].String} {
		there, _, err := s.raw.Exists(s.root + made)
		expect(t, there, "%s is there: %v, %v; want it made below the chroot", made, there, err)
		eventstest.Check(t, txnErr(a.Txn(t.Context(), &zk.DeleteRequest{Path: made, Version: -1})))
	}
	expect(t, op.Path == ledgerPath, "the caller's operation has become one of %s, want it unchanged", op.Path)
	ledger("after the first transaction", "one")
	res, err = a.Txn(t.Context(), write("two"), &zk.DeleteRequest{Path: "/none"})
	expect(t, errors.Is(err, zk.ErrNoNode) && !errors.Is(err, coordinator.ErrNodeRemoved), "Txn that fails = %v", err)
	expect(t, len(res) == 2 && errors.Is(res[1].Error, zk.ErrNoNode), "%+v, want ErrNoNode from the second", res)
	res, err = a.Txn(t.Context())
	expect(t, err == nil && len(res) == 0, "Txn of the guard alone = %v, %v; want no result and nil", res, err)
	coordtest.NotLost(t, a)
	ledger("after one that fails", "one")
	eventstest.Must(t, s.raw.Delete(s.root+grant.Node, -1))
	err = txnErr(a.Txn(t.Context(), write("three")))
	expectError(t, err, coordinator.ErrNodeRemoved, "a transaction when the node has gone")
	ledger("when the node has gone", "one")
}

// The caller may reuse its data once Txn has returned, even if they are sent later.
func TestTxnKeepsNothingOfTheCallers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const fillerPath = "/filler"
		eventstest.Must(t, srv.Create(ledgerPath, nil))
		eventstest.Must(t, srv.Create(fillerPath, nil))
		var gate atomic.Pointer[chan struct{}]
		c := coordtest.Connect(t, srv, coordinator.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, addr)
			return gated{conn, &gate}, err
		}))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		shut := make(chan struct{})
		gate.Store(&shut)
		ctx, data := within(t, 100*time.Millisecond), []byte("right")
		var writers sync.WaitGroup
		write := func(path string, data []byte) {
			writers.Go(func() {
				_, err := a.Txn(ctx, &zk.SetDataRequest{Path: path, Data: data, Version: -1})
				expectError(t, err, coordinator.ErrOutcomeUnknown, "Txn")
			})
			synctest.Wait()
		}
		for range 4 { // as much as the connection accepts: the last one waits to be written
			write(fillerPath, make([]byte, 600_000))
		}
		for range 3 { // and these wait behind it
			write(ledgerPath, data)
		}
		writers.Wait()
		copy(data, "wrong")
		gate.Store(nil)
		close(shut)
		synctest.Wait()
		expect(t, written(srv) == "right", "%q is written, want %q: what the caller gave", written(srv), "right")
	})
}

// Transactions near the limits of their guard: the Grant, the Release, Close, the chroot.

// A transaction that is tried from Acquire on is never unguarded: it is not sent, or its
// guard is the lock's node.
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
		expect(t, dir == "/app"+lockPath, "guarded by a node of %v, want one of %s", dir, "/app"+lockPath)
		return true
	})
}

// After a Release the error is ErrReleased, whichever request is the first to find the
// node gone.
func TestTxnBesideReleaseIsNilOrErrReleased(t *testing.T) {
	forEach(t, map[string]bool{
		"while it is turned away": true, "while there is no connection": false,
	}, func(t *testing.T, srv *zktest.Server, turnedAway bool) {
		_, a, _ := holder(t, srv)
		if turnedAway {
			strike(srv, zktest.Fail(zktest.Throttled), func(r zktest.Request) (meant bool) {
				if meant = writesLedger(r); meant {
					a.Release()
				}
				return meant
			})
		} else {
			srv.Down(true)
			synctest.Wait()
		}
		ended := txnOf(t.Context(), a, "x")
		a.Release()
		synctest.Wait()
		srv.Intercept(nil)
		srv.Down(false)
		err := <-ended
		expect(t, err == nil || errors.Is(err, coordinator.ErrReleased), "Txn = %v, want nil or ErrReleased", err)
		expectError(t, coordtest.EndOf(t, a), nil, "the release")
	})
}

// A transaction that a server has refused waits for its retry, or for its answer, while
// Close runs.
func TestTxnIsAnsweredWhenTheCoordinatorIsClosedMeanwhile(t *testing.T) {
	forEach(t, map[string]zktest.Action{
		"turned away":   zktest.Fail(zktest.Throttled),
		"answered late": zktest.Delay(time.Second),
		"not answered":  zktest.Swallow(),
	}, func(t *testing.T, srv *zktest.Server, action zktest.Action) {
		c, a, _ := holder(t, srv)
		strike(srv, action, writesLedger)
		ctx := within(t, time.Hour)
		ended, start := txnOf(ctx, a, "x"), time.Now()
		eventstest.Check(t, c.Close())
		err := <-ended
		expect(t, !errors.Is(err, context.DeadlineExceeded) && time.Since(start) <= 10*time.Second,
			"Txn = %v %v after Close, want an answer within 10 s", err, time.Since(start))
		expectError(t, <-txnOf(ctx, a, "x"), coordinator.ErrClosed, "Txn after Close")
	})
}

// gated is a connection that writes only while the gate is open.
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

// TestTxnSaysWhatBecameOfIt sends transactions under random faults, and counts the nodes
// afterwards: each transaction creates its own. A transaction that returned nil was
// executed once, one of unknown outcome at most once, and any other never. All of them
// return.
func TestTxnSaysWhatBecameOfIt(t *testing.T) {
	seeds, fates := uint64(eventstest.Amount(15, 150)), map[string]int{}
	for seed := range seeds {
		eventstest.Bubble(t, func(t *testing.T) {
			s := newTxnStory(t, seed)
			s.play()
			s.judge(fates)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(fates)
	expect(t, seeds < 100 || (fates["done"] >= 500 && fates["unknown"] >= 200 && fates["not executed"] >= 50),
		"too few of one kind, want 500 done, 200 unknown and 50 not executed")
}

// txnStory is a coordinator that sends transactions while its connection, server and
// locks are disturbed.
type txnStory struct {
	*testing.T
	timeout time.Duration
	srv     *zktest.Server
	network *faultnet.Network
	c       *coordinator.Coordinator
	running sync.WaitGroup
	healed  atomic.Bool

	mu   sync.Mutex
	rng  *rand.Rand
	told map[string]error // the error of each transaction, by the prefix of its node
}

func newTxnStory(t *testing.T, seed uint64) *txnStory {
	const tick = time.Second
	s := &txnStory{T: t, rng: rand.New(rand.NewPCG(seed, 0)), told: map[string]error{}}
	s.timeout = tick * time.Duration(2+s.roll(8))
	s.srv = zktest.Start(t, zktest.Tick(tick), zktest.Followers())
	eventstest.Must(t, s.srv.Create("/app/made", nil))
	s.srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Op != zktest.OpMulti || len(r.Parts) < 2 || s.healed.Load() {
			return zktest.Pass()
		}
		return oneOf(s, 14, zktest.Pass(), zktest.Fail(zktest.Throttled), zktest.Fail(zktest.SessionMoved),
			zktest.CutAfter(), zktest.CutBefore(), zktest.Delay(s.some(s.timeout)))
	})
	s.network = faultnet.New(s.srv.DialContext, func(faultnet.Frame) faultnet.Verdict {
		if s.healed.Load() {
			return faultnet.Pass()
		}
		return oneOf(s, 4*40, faultnet.Pass(), faultnet.CutAfter(), faultnet.CutBefore(), faultnet.Swallow(),
			faultnet.HoldFor(s.some(s.timeout)))
	})
	var err error
	s.c, err = coordinator.Connect(t.Context(), s.srv.Addr()+"/app", coordinator.WithDialer(s.network.Dial),
		coordinator.WithSessionTimeout(s.timeout), coordinator.WithTickTime(tick))
	eventstest.Must(t, err)
	return s
}

// oneOf returns each of the others with probability 1/n, and otherwise the usual value.
func oneOf[T any](s *txnStory, n int, usual T, others ...T) T {
	if i := s.roll(n); i < len(others) {
		return others[i]
	}
	return usual
}

// roll returns a number below n. It may be called from any goroutine.
func (s *txnStory) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// some returns a duration below d.
func (s *txnStory) some(d time.Duration) time.Duration { return time.Duration(s.roll(int(d))) }

func (s *txnStory) play() {
	for round := range 6 {
		a := s.c.Mutex("/locks/a").Acquire(context.Background())
		select {
		case <-a.Granted():
		case <-time.After(s.some(5 * s.timeout)): // not held, or the Grant not taken: transact anyway
		}
		for i := range s.roll(12) {
			s.transact(a, fmt.Sprintf("/made/%d.%d-", round, i))
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
	_ = s.c.Close() // it does not matter here whether the servers were reachable
	s.healed.Store(true)
	s.network.Heal()
	s.running.Wait() // otherwise the bubble reports a deadlock
	time.Sleep(10 * s.timeout)
	s.network.Close()
}

// transact sends a transaction that creates a node.
func (s *txnStory) transact(a *coordinator.Acquisition, prefix string) {
	ctx := context.Background()
	if s.roll(3) == 0 {
		ctx = within(s.T, s.some(s.timeout))
	}
	s.running.Go(func() {
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
		_ = s.srv.Expire(session) // there may be no session at the moment
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

func (s *txnStory) judge(fates map[string]int) {
	made := map[string]int{}
	for _, child := range s.srv.Children("/app/made") {
		name, _, _ := strings.Cut(child, "-")
		made["/made/"+name+"-"]++
	}
	for prefix, err := range s.told {
		n, fate, least, most := made[prefix], "not executed", 0, 0
		switch {
		case err == nil:
			fate, least, most = "done", 1, 1
		case errors.Is(err, coordinator.ErrOutcomeUnknown):
			fate, most = "unknown", 1
		case errors.Is(err, coordinator.ErrNodeRemoved):
			s.Errorf("%s: Txn returned %v, want another error: no node is removed by hand", prefix, err)
		}
		fates[fate]++
		expect(s.T, n >= least && n <= most,
			"%s was executed %d times, and Txn returned %v; want %d to %d times", prefix, n, err, least, most)
	}
}
