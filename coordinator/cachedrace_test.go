package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestCachedLocksInACrowd: goroutines of three coordinators acquire, try, enter again, withdraw and close. There is one holder
// at a time.
func TestCachedLocksInACrowd(t *testing.T) {
	srv := zktest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var inside atomic.Int32
	var granted, losses atomic.Int64
	var wait sync.WaitGroup
	crowd := func(l *coordinator.Lock, n int) {
		for i := range n {
			wait.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 3))
				for ctx.Err() == nil {
					bounded, stop := context.WithTimeout(ctx, time.Duration(random.IntN(20))*time.Millisecond)
					var options []coordinator.AcquireOption
					if random.IntN(8) == 0 {
						options = append(options, coordinator.Try())
					}
					a := l.Acquire(bounded, options...)
					if random.IntN(10) == 0 {
						a.Release()
					}
					if _, err := a.Wait(context.Background()); err == nil {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d hold", n)
						}
						granted.Add(1)
						inside.Add(-1)
					} else if len(a.Lost()) > 0 {
						losses.Add(1)
					}
					a.Release()
					stop()
					if random.IntN(4) == 0 {
						<-a.Done()
					}
				}
			})
		}
	}
	first, second := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
	crowd(cachedAt(first), 16)
	crowd(cachedAt(first, coordinator.CacheHandoffs(3)), 4)
	crowd(first.Mutex(lockPath), 2)
	crowd(cachedAt(second), 8)
	wait.Go(func() {
		for ctx.Err() == nil {
			c, err := coordinator.Connect(context.WithoutCancel(ctx), srv.Addr(), srv.Option())
			if err != nil {
				t.Error(err)
				return
			}
			var few sync.WaitGroup
			busy := make(chan struct{})
			var once sync.Once
			l := cachedAt(c)
			for range 4 {
				few.Go(func() {
					for range 50 {
						a := l.Acquire(ctx)
						if _, err := a.Wait(context.Background()); err == nil {
							if n := inside.Add(1); n != 1 {
								t.Errorf("%d hold", n)
							}
							inside.Add(-1)
							once.Do(func() { close(busy) })
						}
						a.Release()
					}
				})
			}
			select {
			case <-busy:
			case <-ctx.Done():
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			few.Wait()
		}
	})
	wait.Wait()
	if granted.Load() < 100 || losses.Load() > 0 {
		t.Errorf("%d grants and %d losses, want 100 at least and none", granted.Load(), losses.Load())
	}
	eventstest.Must(t, first.Close())
	eventstest.Must(t, second.Close())
	if nodes := nodesBelow(srv, lockPath); len(nodes) > 0 {
		t.Errorf("when all are closed %v is left", nodes)
	}
}

// TestRealCachedLock: other contenders get the lock while 64 goroutines contend for it.
func TestRealCachedLock(t *testing.T) {
	eventstest.NeedsServers(t)
	e := coordtest.Servers(t, 1)
	dir := fmt.Sprintf("/cached-%d", time.Now().UnixNano())
	c := coordtest.ConnectReal(t, e.Addr(0))
	l := c.Mutex(dir, coordinator.Cached())
	ctx, cancel := context.WithCancel(coordtest.RealContext(t))
	var inside atomic.Int32
	var granted atomic.Int64
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			for ctx.Err() == nil {
				a := l.Acquire(ctx)
				if _, err := a.Wait(context.Background()); err == nil {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d hold", n)
					}
					granted.Add(1)
					inside.Add(-1)
				}
				a.Release()
				<-a.Done()
			}
		})
	}
	raw := coordtest.RawClient(t, e.Addr(0))
	var longest time.Duration
	for range 20 {
		before := granted.Load()
		eventstest.Eventually(t, "64 goroutines hammer the lock", func() bool { return granted.Load() > before+200 })
		theirs := zk.NewLock(raw, dir, zk.WorldACL(zk.PermAll))
		began := time.Now()
		eventstest.Must(t, theirs.Lock())
		longest = max(longest, time.Since(began))
		if n := inside.Add(1); n != 1 {
			t.Errorf("with a lock of another library %d hold", n)
		}
		inside.Add(-1)
		eventstest.Must(t, theirs.Unlock())
	}
	t.Logf("%d grants; another library waited for %v at most", granted.Load(), longest)
	if longest > 2*time.Second { // two probe intervals; 64 handoffs and 50 ms are less
		t.Errorf("another library has waited for %v, want 2 s at most", longest)
	}
	cancel()
	wait.Wait()
	eventstest.Must(t, c.Close())
	coordtest.Queued(t, raw, dir, 0)
}
