package coordinator_test

import (
	"context"
	"errors"
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
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Transactions at the edges of what they are guarded by: the Grant, the Release, Close, the chroot.

// A transaction that is tried from the moment of Acquire on has no guard, and is not sent, or has the lock's node for one.
func TestTxnAroundTheGrantIsNeverUnguarded(t *testing.T) {
	const acquisitions = 200
	srv := zktest.Start(t)
	if err := srv.Create("/app"+ledgerPath, nil); err != nil {
		t.Fatal(err)
	}
	c, err := coordinator.Connect(t.Context(), srv.Addr()+"/app", srv.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
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
		a.Release()
		<-a.Done()
	}
	guards.Range(func(dir, _ any) bool {
		if dir != "/app"+lockPath {
			t.Errorf("guarded by a node of %v", dir)
		}
		return true
	})
}

// Released is released, whoever finds first that the node is gone.
func TestTxnBesideRelease(t *testing.T) {
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
				_, a, _ := holder(t, srv, srv.Addr())
				ended := make(chan error, 1)
				meanwhile(srv, a, func() {
					go func() {
						_, err := a.Txn(t.Context(), write("x"))
						ended <- err
					}()
					synctest.Wait()
				})
				if err := <-ended; err != nil && !errors.Is(err, coordinator.ErrReleased) {
					t.Errorf("Txn = %v", err)
				}
				if <-a.Done(); a.Err() != nil {
					t.Errorf("Err = %v", a.Err())
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
				c, a, _ := holder(t, srv, srv.Addr())
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
					t.Error(err)
				}
				if err := <-ended; errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
					t.Errorf("Txn = %v after %v", err, time.Since(start))
				}
				if _, err := a.Txn(ctx, write("x")); !errors.Is(err, coordinator.ErrClosed) {
					t.Errorf("after Close: %v", err)
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
			if err := srv.Create(path, nil); err != nil {
				t.Fatal(err)
			}
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
					t.Errorf("Txn = %v", err)
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
			t.Errorf("written: %q", got)
		}
	})
}

// What one transaction answers the next one takes, and nothing leads out of the chroot.
func TestTxnStaysInTheChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		if err := srv.Create("/app/ledger", nil); err != nil {
			t.Fatal(err)
		}
		_, a, _ := holder(t, srv, srv.Addr()+"/app")
		for _, name := range []string{"/job-", "/"} {
			res, err := a.Txn(t.Context(), &zk.CreateRequest{Path: name, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
			if err != nil {
				t.Fatal(err)
			}
			made := res[0].String
			if !strings.HasPrefix(made, name) || !srv.Exists("/app"+made) {
				t.Errorf("made %q of %q; there are %v", made, name, srv.Tree())
			}
			if _, err := a.Txn(t.Context(), &zk.DeleteRequest{Path: made, Version: -1}); err != nil {
				t.Errorf("%q: %v", made, err)
			}
		}
	})
}

// A real server makes a container, and the client cannot read the answer.
func TestTxnMakesNoContainers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, a, _ := holder(t, srv, srv.Addr())
		for _, flags := range []int32{zk.FlagContainer, zk.FlagTTL, -1} {
			op := &zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll), Flags: flags}
			if _, err := a.Txn(t.Context(), op); !errors.Is(err, coordinator.ErrOperation) {
				t.Errorf("flags %d: %v", flags, err)
			}
		}
		if srv.Exists("/x") {
			t.Error("something was made")
		}
	})
}
