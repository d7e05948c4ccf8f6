package coordinator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A lock that is entered again by whoever holds it.

// nested takes a lock so many deep, each with the context of the one before.
func nested(t *testing.T, l *coordinator.Lock, deep int) []*coordinator.Acquisition {
	t.Helper()
	var all []*coordinator.Acquisition
	ctx := context.Background()
	for range deep {
		a := l.Acquire(ctx)
		coordtest.Soon(t, a)
		all, ctx = append(all, a), a.Context(ctx)
	}
	return all
}

// What becomes of a lock that was entered several times when something goes wrong.

// TestAnInnerOneIsGuardedForAsLongAsItHolds: its transactions are guarded by the node of the outer one.
func TestAnInnerOneIsGuardedForAsLongAsItHolds(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		eventstest.Must(t, srv.Create("/ledger", nil))
		write := func(a *coordinator.Acquisition) error {
			_, err := a.Txn(t.Context(), &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1})
			return err
		}
		all := nested(t, c.Mutex(lockPath, coordinator.Reentrant()), 2)
		if all[0].Guard().Path != all[1].Guard().Path {
			t.Errorf("the outer one is guarded by %v, the inner one by %v; want one node", all[0].Guard(), all[1].Guard())
		}
		all[0].Release()
		if err := write(all[0]); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("a transaction of the one that was released: %v, want ErrReleased", err)
		}
		if err := write(all[1]); err != nil {
			t.Errorf("a transaction of the one that holds: %v, want nil", err)
		}
	})
}

// TestOneSessionHoldsHoweverJoinsAndReleasesMeet: no other session holds meanwhile, no token is smaller than one before, and
// nothing is left.
func TestOneSessionHoldsHoweverJoinsAndReleasesMeet(t *testing.T) {
	const rounds, many = 30, 8
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		var ours, theirs atomic.Int32 // how many hold
		var top atomic.Int64          // the largest token
		enter := func(mine, others *atomic.Int32, a *coordinator.Acquisition) {
			grant := <-a.Granted()
			mine.Add(1)
			if others.Load() != 0 {
				t.Error("two sessions hold, want one at a time")
			}
			for {
				last := top.Load()
				if grant.Token < last {
					t.Errorf("the token %d is granted behind %d, want none smaller", grant.Token, last)
				}
				if top.CompareAndSwap(last, grant.Token) || grant.Token < last {
					return
				}
			}
		}
		leave := func(mine *atomic.Int32, a *coordinator.Acquisition) {
			mine.Add(-1)
			a.Release()
		}
		for range rounds {
			outer := lock.Acquire(t.Context())
			enter(&ours, &theirs, outer)
			next := other.Mutex(lockPath).Acquire(t.Context())
			ctx := context.WithoutCancel(outer.Context(t.Context()))
			var wait sync.WaitGroup
			for range many {
				wait.Go(func() {
					inner := lock.Acquire(ctx)
					if rand.IntN(4) == 0 {
						inner.Release() // perhaps before it is granted
						<-inner.Done()
						return
					}
					enter(&ours, &theirs, inner)
					innermost := lock.Acquire(inner.Context(context.WithoutCancel(outer.Context(context.Background()))))
					if rand.IntN(2) == 0 {
						innermost.Release()
					}
					leave(&ours, inner)
					coordtest.End(innermost)
					<-inner.Done()
				})
			}
			wait.Go(func() { leave(&ours, outer) })
			wait.Go(func() {
				enter(&theirs, &ours, next)
				leave(&theirs, next)
			})
			wait.Wait()
			<-outer.Done()
			<-next.Done()
			synctest.Wait()
			if left := srv.Children(lockPath); len(left) != 0 {
				t.Fatalf("when all have released the nodes %v are left, want none", left)
			}
		}
	})
}

// realReentry enters a lock again on a real server: of a thousand acquisitions it hears of
// one, another session is in behind the last release, and each hears of the loss.
func realReentry(t *testing.T, e *ensemble.Ensemble) {
	const many, hands, stray = 1000, 8, 10 // stray: pings, probes, and the watch for who holds for long
	raw := coordtest.RawClient(t, e.Addr(0))
	c, other := coordtest.ConnectReal(t, e.Connect()), coordtest.ConnectReal(t, e.Connect())
	lock := c.Mutex("/locks/again", coordinator.Reentrant())
	outer := lock.Acquire(t.Context())
	grant := coordtest.GrantOf(t, outer)
	next := other.Mutex("/locks/again").Acquire(t.Context())
	coordtest.Queued(t, raw, "/locks/again", 2)

	ctx := outer.Context(t.Context())
	var all [hands][]*coordinator.Acquisition
	cost := coordtest.RealToll(t, e, func() {
		var wait sync.WaitGroup
		for hand := range all {
			wait.Go(func() {
				for range many / hands {
					a := lock.Acquire(ctx)
					select {
					case again := <-a.Granted():
						if again.Node != grant.Node || again.Token != grant.Token {
							t.Errorf("entered again, it is granted %+v, want the node and the token of %+v", again, grant)
						}
					case <-a.Done():
						t.Errorf("entered again, it ends with %v, want a grant", a.Err())
					}
					all[hand] = append(all[hand], a)
				}
			})
		}
		wait.Wait()
		outer.Release()
		if err := coordtest.EndOf(t, outer); err != nil {
			t.Errorf("released, the outer one ends with %v, want nil", err)
		}
		for _, acquired := range all {
			for _, a := range acquired[1:] {
				a.Release()
				if err := coordtest.EndOf(t, a); err != nil {
					t.Errorf("released, an inner one ends with %v, want nil", err)
				}
			}
		}
	})
	if cost.Packets > stray || cost.Woken != 0 {
		t.Errorf("entered %d times, the server counts %+v; want at most %d requests, and nothing woken", many, cost, stray)
	}
	for i, acquired := range all {
		if names := coordtest.QueueOf(t, raw, "/locks/again"); len(names) != 2 || !acquired[0].Valid() || next.Valid() {
			t.Fatalf("with %d left: nodes %v, it holds %v, the next one %v; want two nodes, and it to hold alone",
				hands-i, names, acquired[0].Valid(), next.Valid())
		}
		acquired[0].Release()
	}
	last := coordtest.GrantOf(t, next)
	if last.Token <= grant.Token {
		t.Errorf("behind the last release %+v is granted, want a token above that of %+v", last, grant)
	}
	next.Release()

	outer = lock.Acquire(t.Context())
	grant = coordtest.GrantOf(t, outer)
	inner := lock.Acquire(outer.Context(t.Context()))
	coordtest.GrantOf(t, inner)
	next = other.Mutex("/locks/again").Acquire(t.Context())
	coordtest.Queued(t, raw, "/locks/again", 2)
	eventstest.Must(t, raw.Delete(grant.Node, -1))
	for _, a := range []*coordinator.Acquisition{outer, inner} {
		lost, end := coordtest.LossOf(t, a), coordtest.EndOf(t, a)
		if lost.Reason != events.ReasonNodeRemoved || lost.ID != a.ID() || !errors.Is(end, coordinator.ErrNodeRemoved) {
			t.Errorf("behind the removal %d is told %+v and ends with %v, want that its node was removed", a.ID(), lost, end)
		}
	}
	coordtest.GrantOf(t, next)
	next.Release()
	coordtest.Queued(t, raw, "/locks/again", 0)
}
