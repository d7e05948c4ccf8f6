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
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What becomes of a lock that was entered several times when something goes wrong.

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
