package coordinator_test

import (
	"context"
	"errors"
	"fmt"
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

// How cached locks end: by a release after which the node goes, by a wish, and by Close.

// TestANodeOfAnUnknownOutcomeIsNotHandedOn: a transaction that rests on it may still be executed.
func TestANodeOfAnUnknownOutcomeIsNotHandedOn(t *testing.T) {
	txn := func(t *testing.T, a *coordinator.Acquisition) error {
		t.Helper()
		_, err := a.Txn(t.Context(), &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1})
		return err
	}
	for name, c := range map[string]struct {
		use  func(t *testing.T, srv *zktest.Server, a *coordinator.Acquisition)
		goes bool
	}{
		"transaction": {func(t *testing.T, _ *zktest.Server, a *coordinator.Acquisition) {
			eventstest.Must(t, txn(t, a))
		}, false},
		"refused transaction": {func(t *testing.T, _ *zktest.Server, a *coordinator.Acquisition) {
			if _, err := a.Txn(t.Context(), &zk.DeleteRequest{Path: "/nothing", Version: -1}); err == nil {
				t.Error("a transaction that deletes what is not there succeeds")
			}
		}, false},
		"unknown outcome": {func(t *testing.T, srv *zktest.Server, a *coordinator.Acquisition) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Op == zktest.OpMulti {
					srv.Intercept(nil)
					return zktest.CutAfter()
				}
				return zktest.Pass()
			})
			if err := txn(t, a); !errors.Is(err, coordinator.ErrOutcomeUnknown) {
				t.Errorf("a transaction with a lost answer: %v, want ErrOutcomeUnknown", err)
			}
			time.Sleep(2 * time.Second)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				eventstest.Must(t, srv.Create("/ledger", nil))
				l := kept(t, coordtest.Connect(t, srv))
				a, g := coordtest.Hold(t, l)
				waits := waiters(l, 2)
				c.use(t, srv, a)
				coordtest.NotLost(t, a)
				coordtest.End(a)
				for _, w := range waits {
					next := coordtest.Soon(t, w)
					if goes := next.Token != g.Token; goes != c.goes || !later(next, g) {
						t.Errorf("after %+v %+v is granted, want another node: %v", g, next, c.goes)
					}
					coordtest.End(w)
				}
			})
		})
	}
}

// TestATransactionThatIsUnderWayDelaysTheNextTurn until it is answered.
func TestATransactionThatIsUnderWayDelaysTheNextTurn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		eventstest.Must(t, srv.Create("/ledger", nil))
		l := kept(t, coordtest.Connect(t, srv))
		a, g := coordtest.Hold(t, l)
		next := waiters(l, 1)[0]
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpMulti {
				return zktest.Delay(500 * time.Millisecond)
			}
			return zktest.Pass()
		})
		answered := make(chan error, 1)
		go func() {
			_, err := a.Txn(t.Context(), &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1})
			answered <- err
		}()
		synctest.Wait()
		a.Release()
		time.Sleep(400 * time.Millisecond)
		if next.Valid() {
			t.Error("the next turn is granted while a transaction of the one before is under way")
		}
		eventstest.Must(t, <-answered)
		if got := coordtest.Soon(t, next); got.Token != g.Token {
			t.Errorf("after the answer %+v is granted, want the next turn of the node", got)
		}
		coordtest.End(next)
	})
}

// TestACachedLockIsAskedBack: the holder of the turn is told, and the node goes after its release. An idle node goes at
// once.
func TestACachedLockIsAskedBack(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Revocable())
		a, g := coordtest.Hold(t, l)
		next := waiters(l, 1)[0]
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		select {
		case r := <-a.Revoked():
			if r.ID != a.ID() {
				t.Errorf("told %+v, want its own number %d", r, a.ID())
			}
		default:
			t.Error("the holder is not told within a second")
		}
		coordtest.End(a)
		eventstest.Must(t, <-done)
		if got := coordtest.Soon(t, next); got.Token <= g.Token {
			t.Errorf("after the wish %+v is granted, want another node than that of %+v", got, g)
		}
		coordtest.End(next)
		cycle(t, l)
		cycle(t, l)
		g = cycle(t, l)
		began := time.Now()
		eventstest.Must(t, <-revoking(t.Context(), operator, grace))
		if took := time.Since(began); took > time.Second || srv.Exists(g.Node) {
			t.Errorf("an idle node is given back after %v, there: %v; want it to go at once", took, srv.Exists(g.Node))
		}
		late, _ := coordtest.Hold(t, l)
		done = revoking(t.Context(), operator, grace)
		time.Sleep(grace + time.Second)
		if lost := <-late.Lost(); lost.Reason != events.ReasonRevoked {
			t.Errorf("a holder that does not give it back is told %+v, want that it was revoked", lost)
		}
		eventstest.Must(t, <-done)
	})
}

// TestCloseGivesCachedLocksBack: at once, whether the lock is idle, held or waited for; for a function when it has
// returned.
func TestCloseGivesCachedLocksBack(t *testing.T) {
	for _, state := range []string{"idle", "resting", "held", "waited for", "behind a stranger", "with a function"} {
		t.Run(state, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				idle := make([]*coordinator.Lock, 20)
				for i := range idle {
					idle[i] = c.Mutex(fmt.Sprint("/many/", i), coordinator.Cached())
					cycle(t, idle[i])
					cycle(t, idle[i])
				}
				l := kept(t, c)
				var all []*coordinator.Acquisition
				left := 0
				switch state {
				case "resting":
					time.Sleep(10 * time.Second)
				case "held", "waited for":
					a, _ := coordtest.Hold(t, l)
					if all = append(all, a); state != "held" {
						all = append(all, waiters(l, 5)...)
					}
				case "behind a stranger":
					outsider(t, srv)
					left, all = 1, waiters(l, 5)
				case "with a function":
					go func() {
						_ = l.Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
							<-ctx.Done()
							time.Sleep(time.Second)
							if len(nodesBelow(srv, lockPath)) == 0 {
								t.Error("the node is gone while the function runs")
							}
							return nil
						})
					}()
					synctest.Wait()
					all = waiters(l, 3)
				}
				began := time.Now()
				if err := c.Shutdown(context.Background()); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
				most := 100 * time.Millisecond
				if state == "with a function" {
					most += time.Second
				}
				if took := time.Since(began); took > most {
					t.Errorf("Shutdown took %v, want %v at most", took, most)
				}
				for i, a := range all {
					if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrClosed) {
						t.Errorf("acquisition %d ends with %v, want ErrClosed", i, a.Err())
					}
				}
				wantNodes(t, srv, left, "after Shutdown")
				for i := range idle {
					if nodes := nodesBelow(srv, idle[i].Path()); len(nodes) > 0 {
						t.Errorf("after Shutdown %v is left", nodes)
					}
				}
				a := l.Acquire(t.Context())
				if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrClosed) {
					t.Errorf("after Shutdown: %v, want ErrClosed", a.Err())
				}
			})
		})
	}
}

// TestTheStreamOfACachedLock: each Grant is followed by the end of its acquisition, before the next Grant.
func TestTheStreamOfACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		l := kept(t, c)
		a, g := coordtest.Hold(t, l)
		all := waiters(l, 20)
		queue, err := l.Queue(t.Context())
		if err != nil || len(queue) != 1 || !queue[0].Cached || !queue[0].Holding || queue[0].Token != g.Token {
			t.Errorf("the queue is %+v, %v; want one that holds and is cached", queue, err)
		}
		for i, w := range all {
			if ahead, ok := w.Position(); ok && ahead < 1 {
				t.Errorf("waiter %d has %d ahead", i, ahead)
			}
			if w.Valid() || !w.Deadline().IsZero() || w.Grant().Node != "" || w.Err() != nil {
				t.Errorf("waiter %d: valid %v, deadline %v, Grant %+v, Err %v; want none of it", i, w.Valid(), w.Deadline(), w.Grant(), w.Err())
			}
		}
		coordtest.End(a)
		for i, w := range all {
			if i == 10 {
				eventstest.Must(t, srv.Delete(w.Grant().Node)) // it is lost
				time.Sleep(3 * time.Second)
			}
			if i != 10 {
				got := coordtest.Soon(t, w)
				ctx := w.Context(t.Context())
				if kept := w.Grant(); kept.Node != got.Node || kept.Turn != got.Turn || kept.ID != got.ID {
					t.Errorf("Grant is %+v, and %+v was delivered", w.Grant(), got)
				}
				w.Release()
				if len(w.Granted()) > 0 || ctx.Err() == nil || !errors.Is(context.Cause(ctx), coordinator.ErrReleased) {
					t.Errorf("after the release the cause is %v, want ErrReleased, and no Grant left", context.Cause(ctx))
				}
			}
			w.Release()
			<-w.Done()
			synctest.Wait()
		}
		var holder uint64
		grants, ends := 0, 0
		for _, ev := range told(stream) {
			switch ev := ev.(type) {
			case events.Grant:
				if holder != 0 {
					t.Errorf("granted to %d while %d holds", ev.ID, holder)
				}
				holder, grants = ev.ID, grants+1
			case events.Lost:
				if holder != ev.ID {
					t.Errorf("lost by %d while %d holds", ev.ID, holder)
				}
				holder, ends = 0, ends+1
			case events.Ended:
				if holder == ev.ID {
					holder, ends = 0, ends+1
				}
			}
		}
		if grants != ends || grants < 21 {
			t.Errorf("the stream has %d grants and %d ends of them, want as many, and 21 at least", grants, ends)
		}
	})
}

// TestDoUnderACachedLock: a panic gives the lock to the next one, as a return does.
func TestDoUnderACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		traffic := coordtest.Traffic(srv)
		failed := errors.New("failed")
		for _, want := range []error{nil, failed, nil} {
			if err := l.Do(t.Context(), func(context.Context, events.Grant) error { return want }); !errors.Is(err, want) {
				t.Errorf("Do returns %v, want %v", err, want)
			}
			func() {
				defer func() {
					if r := recover(); r != "boom" {
						t.Errorf("Do panics with %v, want boom", r)
					}
				}()
				_ = l.Do(t.Context(), func(context.Context, events.Grant) error { panic("boom") })
			}()
		}
		if got := traffic.Load(); got != 0 {
			t.Errorf("6 functions took %d requests, want none", got)
		}
	})
}
