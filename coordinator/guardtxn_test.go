package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Transactions at the edges of what they are guarded by: the Grant, the Release, Close, the chroot.

// A transaction that is tried from the moment of Acquire on has no guard, and is not sent, or has the lock's node for one.
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

// Released is released, whoever finds first that the node is gone.
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
					t.Errorf("Txn behind Close = %v, want ErrClosed", err)
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

// What the caller has given is his again when Txn has returned, though it may be sent later.
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

// What one transaction answers the next one takes, and nothing leads out of the chroot.
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

// TestTxnSaysWhatBecameOfIt makes transactions under random faults, each of which creates a node of its own, and counts
// the nodes afterwards: one that returned nil was executed once, one of unknown outcome once at most, and any other
// never. All of them return.
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

// fates counts what became of transactions.
type fates struct{ done, unknown, not int }

// txnStory is a coordinator whose connection, server and locks are disturbed while it makes transactions.
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

// server is what the server does to transactions.
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

// frame is what the network does to any frame.
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
		case <-time.After(s.some(5 * s.timeout)): // not held, or nobody has taken the Grant: it is tried all the same
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
	_ = s.c.Close() // whether the servers could be told is no matter here
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
