package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What becomes of a lock that was entered several times when something goes wrong.

// TestEachHearsOfTheLossOnce, whatever was lost, with the reason, in the stream, too, and
// before anybody else is granted. Nobody enters any more behind that.
func TestEachHearsOfTheLossOnce(t *testing.T) {
	type coord = coordinator.Coordinator
	for name, tt := range map[string]struct {
		happens func(t *testing.T, srv *zktest.Server, c *coord, held events.Grant)
		strict  bool
		intime  bool // not if it is the server that takes the lock away
		want    error
	}{
		"the session expires": {func(t *testing.T, srv *zktest.Server, c *coord, _ events.Grant) {
			if err := srv.Expire(c.SessionID()); err != nil {
				t.Fatal(err)
			}
		}, false, false, coordinator.ErrSessionExpired},
		"the lease runs out": {func(_ *testing.T, srv *zktest.Server, c *coord, _ events.Grant) {
			srv.Mute(c.SessionID(), true)
		}, false, true, coordinator.ErrLeaseRanOut},
		"the node is removed by hand": {func(t *testing.T, srv *zktest.Server, _ *coord, held events.Grant) {
			if err := srv.Delete(held.Node); err != nil {
				t.Fatal(err)
			}
		}, false, false, coordinator.ErrNodeRemoved},
		"the connection is lost": {func(_ *testing.T, srv *zktest.Server, c *coord, _ events.Grant) {
			srv.Cut(c.SessionID())
		}, true, true, coordinator.ErrSuspended},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				var options []coordinator.Option
				if tt.strict {
					options = append(options, coordinator.WithLossOnSuspend())
				}
				c, other := coordtest.Connect(t, srv, options...), coordtest.Connect(t, srv)
				lock := c.Mutex(lockPath, coordinator.Reentrant())
				all := nested(t, lock, 3)
				time.Sleep(time.Minute)
				var stream []events.Event
				go func() {
					for ev := range c.Events(t.Context()) {
						stream = append(stream, ev)
					}
				}()
				next := coordtest.Queue(other.Mutex(lockPath))
				ctx := context.WithoutCancel(all[2].Context(all[0].Context(t.Context())))
				held := events.Grant{Node: all[0].Guard().Path}
				tt.happens(t, srv, c, held)
				for i, a := range all {
					lost := <-a.Lost()
					if !errors.Is(lost.Err, tt.want) || lost.ID != a.ID() || a.Valid() {
						t.Errorf("%d: %+v, valid %v", i, lost, a.Valid())
					}
				}
				late := lock.Acquire(ctx) // the owners are past: it queues up
				if tt.intime && next.Valid() {
					t.Error("the next one was in before")
				}
				soon := func(a *coordinator.Acquisition) {
					t.Helper()
					bound, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if _, err := a.Wait(bound); err != nil {
						t.Fatal(err)
					}
				}
				soon(next)
				for i, a := range all {
					if a.Valid() || len(a.Lost()) != 0 || len(a.Granted()) != 0 || !errors.Is(a.Err(), tt.want) && coordtest.IsClosed(a.Done()) {
						t.Errorf("%d: valid %v, %d losses more, %v", i, a.Valid(), len(a.Lost()), a.Err())
					}
				}
				srv.Mute(c.SessionID(), false)
				time.Sleep(time.Minute)
				next.Release()
				soon(late)
				told := map[uint64]int{}
				synctest.Wait()
				for _, ev := range stream {
					switch ev := ev.(type) {
					case events.Lost:
						told[ev.ID]++
					case events.Ended:
						told[ev.ID] += 10
					default:
					}
				}
				for i, a := range all {
					if told[a.ID()] != 1 {
						t.Errorf("the stream told the end of %d %d times", i, told[a.ID()])
					}
				}
			})
		})
	}
}

// TestTheNodeStaysUntilEachFunctionHasReturned: the lease is lost, and an inner function takes
// longer to stop than the outer one. Or the other way round.
func TestTheNodeStaysUntilEachFunctionHasReturned(t *testing.T) {
	for name, stops := range map[string][2]time.Duration{
		"outer first": {time.Second, 2 * time.Second}, "inner first": {2 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				lock := c.Mutex(lockPath, coordinator.Reentrant())
				var lost, last time.Time
				var wait sync.WaitGroup
				run := func(ctx context.Context, i int, f func(ctx context.Context)) {
					err := lock.Do(ctx, func(ctx context.Context, _ events.Grant) error {
						f(ctx)
						<-ctx.Done()
						if i == 0 { // the other one hears of it in the same moment
							lost = time.Now()
							srv.Intercept(nil)
						}
						time.Sleep(stops[i])
						return nil
					})
					if !errors.Is(err, coordinator.ErrLeaseRanOut) {
						t.Errorf("Do = %v", err)
					}
				}
				held := make(chan struct{})
				run(t.Context(), 0, func(ctx context.Context) {
					wait.Go(func() {
						run(ctx, 1, func(context.Context) {
							// No answer comes for longer than the lease, while the server hears from the session.
							srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Swallow() })
							close(held)
						})
					})
					<-held
				})
				wait.Go(func() {
					for len(srv.Children(lockPath)) > 0 {
						time.Sleep(10 * time.Millisecond)
					}
					last = time.Now()
				})
				wait.Wait()
				if stayed := last.Sub(lost); stayed < 2*time.Second || stayed > 3*time.Second {
					t.Errorf("the node stayed for %v", stayed)
				}
			})
		})
	}
}

// TestEnteredAgainDuringAnOutage: as long as the lease lasts the lock is held, and entered.
// Nothing has changed when the connection is back, but for what was released meanwhile.
func TestEnteredAgainDuringAnOutage(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		outer, grant := coordtest.Hold(t, lock)
		before := lock.Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, before)
		next := coordtest.Queue(other.Mutex(lockPath))
		srv.Cut(c.SessionID())
		srv.Down(true)
		time.Sleep(time.Second)
		inner := lock.Acquire(outer.Context(t.Context()))
		if again := coordtest.Soon(t, inner); again.Token != grant.Token || c.State() != coordinator.StateSuspended {
			t.Errorf("%+v inside %+v, %v", again, grant, c.State())
		}
		outer.Release()
		<-outer.Done()
		srv.Down(false)
		time.Sleep(10 * time.Second)
		if left := srv.Children(lockPath); !inner.Valid() || !before.Valid() || next.Valid() || len(left) != 2 {
			t.Fatalf("valid %v and %v, the next one %v; nodes %v", inner.Valid(), before.Valid(), next.Valid(), left)
		}
		before.Release()
		inner.Release()
		coordtest.Soon(t, next)
	})
}

// TestCloseInTheMiddle: acquisitions end with the coordinator, functions are waited for, and
// the node goes with the last of them. What is asked for behind that is not had.
func TestCloseInTheMiddle(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		next := coordtest.Queue(other.Mutex("/aside"))
		coordtest.Soon(t, next)
		closed := make(chan struct{})
		var inner, late *coordinator.Acquisition
		var innerErr error
		err := lock.Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
			inner = lock.Acquire(ctx)
			coordtest.Soon(t, inner)
			next = coordtest.Queue(other.Mutex(lockPath))
			innerErr = lock.Do(ctx, func(ctx context.Context, _ events.Grant) error {
				go func() {
					defer close(closed)
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}()
				<-ctx.Done()
				late = lock.Acquire(context.WithoutCancel(ctx))
				time.Sleep(time.Second)
				if next.Valid() {
					t.Error("the next one is in while the function runs")
				}
				return nil
			})
			time.Sleep(time.Second)
			if next.Valid() {
				t.Error("the next one is in while the outer function runs")
			}
			return nil
		})
		<-closed
		for what, got := range map[string]error{
			"the function": err, "the one inside": innerErr, "the acquisition": inner.Err(), "behind it": late.Err(),
		} {
			if !errors.Is(got, coordinator.ErrClosed) {
				t.Errorf("%s ended with %v", what, got)
			}
		}
		coordtest.Soon(t, next)
	})
}

// TestNoNodeIsLeftWhenAReplyIsLost, or a request, of the acquisition or of the last release.
// The inner ones make no difference.
func TestNoNodeIsLeftWhenAReplyIsLost(t *testing.T) {
	for name, action := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
		for nth := 1; nth <= 12; nth++ {
			t.Run(fmt.Sprintf("%s %d", name, nth), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					count := 0
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op == zktest.OpPing || r.Op == zktest.OpConnect {
							return zktest.Pass()
						}
						if count++; count == nth {
							return action
						}
						return zktest.Pass()
					})
					lock := c.Mutex(lockPath, coordinator.Reentrant())
					all := nested(t, lock, 3)
					if got := srv.Children(lockPath); len(got) != 1 {
						t.Errorf("while holding: %v", got)
					}
					all[0].Release()
					time.Sleep(3 * time.Second)
					if got := srv.Children(lockPath); len(got) != 1 || !all[1].Valid() {
						t.Errorf("without the outer one: %v, valid %v", got, all[1].Valid())
					}
					all[2].Release()
					all[1].Release()
					for i, a := range all {
						<-a.Done()
						if a.Err() != nil {
							t.Errorf("%d: %v", i, a.Err())
						}
					}
					time.Sleep(3 * time.Second)
					if got := srv.Children(lockPath); len(got) != 0 {
						t.Errorf("left behind: %v", got)
					}
				})
			})
		}
	}
}

// TestTransactionsOfAnInnerOne are guarded by the node, for as long as that one holds.
func TestTransactionsOfAnInnerOne(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		if err := srv.Create("/ledger", nil); err != nil {
			t.Fatal(err)
		}
		write := func(a *coordinator.Acquisition) error {
			_, err := a.Txn(t.Context(), &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1})
			return err
		}
		all := nested(t, c.Mutex(lockPath, coordinator.Reentrant()), 2)
		if all[0].Guard().Path != all[1].Guard().Path {
			t.Errorf("%v and %v", all[0].Guard(), all[1].Guard())
		}
		all[0].Release()
		if err := write(all[0]); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("by the one that was released: %v", err)
		}
		if err := write(all[1]); err != nil {
			t.Errorf("by the one that holds: %v", err)
		}
	})
}

// TestJoinsAndReleasesTogether: whatever comes of them in whatever order, nobody of another
// session is in while one of them holds, no token is smaller than one before, and nothing is left.
func TestJoinsAndReleasesTogether(t *testing.T) {
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
				t.Error("two sessions hold")
			}
			for {
				last := top.Load()
				if grant.Token < last {
					t.Errorf("token %d after %d", grant.Token, last)
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
					innermost.Release()
					<-innermost.Done()
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
				t.Fatalf("left: %v", left)
			}
		}
	})
}
