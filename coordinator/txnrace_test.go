package coordinator_test

import (
	"context"
	"errors"
	"net"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

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
