package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealMultiLock has twelve contenders of three sessions, each at another server of an ensemble, ask for the same paths in opposite
// orders: nobody is stuck, at each path one is inside, and tokens grow.
func TestRealMultiLock(t *testing.T) {
	const contenders, rounds = 12, 15
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	paths := []string{accountA, accountB, accountC}
	var cs []*coordinator.Coordinator
	for i := range 3 {
		cs = append(cs, coordtest.ConnectReal(t, e.Addr(i)))
	}
	var mu sync.Mutex
	inside, tokens := map[string]int{}, map[string]int64{}
	var wait sync.WaitGroup
	var granted atomic.Int64
	for i := range contenders {
		c, random := cs[i%len(cs)], rand.New(rand.NewPCG(1, uint64(i)))
		wait.Go(func() {
			for range rounds {
				var wanted []string
				for _, p := range random.Perm(len(paths))[:1+random.IntN(len(paths))] {
					wanted = append(wanted, paths[p])
				}
				err := mutexes(c, wanted...).Do(ctx, func(_ context.Context, g events.Grant) error {
					granted.Add(1)
					mu.Lock()
					for i, p := range wanted {
						if inside[p]++; inside[p] > 1 || g.Token <= tokens[p] || g.Members[i].Path != p {
							t.Errorf("at %s: %d inside, %+v behind %d", p, inside[p], g, tokens[p])
						}
						tokens[p] = g.Token
					}
					mu.Unlock()
					time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					for _, p := range wanted {
						inside[p]--
					}
					return nil
				})
				if err != nil {
					t.Errorf("%v: %v", wanted, err)
				}
			}
		})
	}
	wait.Wait()
	if n := granted.Load(); n != contenders*rounds {
		t.Errorf("%d were granted", n)
	}
	for _, p := range paths {
		coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), p, 0)
	}
}

// TestRealMultiLockDetails: what a real server makes of the transactions.
func TestRealMultiLockDetails(t *testing.T) {
	e := ensemble.Start(t, 1, ensemble.Tick(2*time.Second), ensemble.Property("znode.container.checkIntervalMs", "600000"))
	c := coordtest.ConnectReal(t, e.Connect(), coordinator.WithSessionTimeout(40*time.Second))
	raw := coordtest.RawClient(t, e.Addr(0))
	t.Run("32 free locks", func(t *testing.T) {
		const cycles, stray = 50, 2
		all := mutexes(c, pathsOf(32)...)
		cycle := func() {
			a := all.Acquire(context.Background())
			if g := coordtest.GrantOf(t, a); len(g.Members) != 32 {
				t.Errorf("%+v", g)
			}
			a.Release()
			<-a.Done()
		}
		cycle()
		cycle() // the directories are known to be ours
		n := coordtest.RealToll(t, e, func() {
			for range cycles {
				cycle()
			}
		})
		t.Logf("%d cycles: %+v", cycles, n)
		if n.Packets < 2*cycles || n.Packets > 2*cycles+stray {
			t.Errorf("%v requests in %d cycles", n.Packets, cycles)
		}
	})
	t.Run("deleted by hand", func(t *testing.T) {
		for i := range 3 {
			a := c.Multi(c.Mutex("/by/hand/1"), c.ReadWrite("/by/hand/2").Write(), c.ReadWrite("/by/hand/3").Read()).Acquire(context.Background())
			grant := coordtest.GrantOf(t, a)
			for _, m := range grant.Members {
				if _, stat, err := raw.Get(m.Node); err != nil || stat.Czxid != grant.Token || stat.EphemeralOwner != grant.Session {
					t.Errorf("%+v: %+v, %v", m, stat, err)
				}
			}
			waits := c.Mutex(grant.Members[0].Path).Acquire(context.Background())
			coordtest.Queued(t, raw, grant.Members[0].Path, 2)
			if err := raw.Delete(grant.Members[i].Node, -1); err != nil {
				t.Fatal(err)
			}
			if lost := coordtest.LossOf(t, a); lost.Reason != events.ReasonNodeRemoved || lost.Token != grant.Token {
				t.Errorf("%+v", lost)
			}
			if next := coordtest.GrantOf(t, waits); next.Token <= grant.Token {
				t.Errorf("%+v behind %+v", next, grant)
			}
			waits.Release()
			if err := coordtest.EndOf(t, waits); err != nil {
				t.Error(err)
			}
			for _, m := range grant.Members {
				coordtest.Queued(t, raw, m.Path, 0)
			}
		}
	})
	t.Run("a place lost while waiting", func(t *testing.T) {
		held := mutexes(c, accountA, accountB).Acquire(context.Background())
		first := coordtest.GrantOf(t, held)
		waits := mutexes(c, accountB, accountA).Acquire(context.Background())
		for _, node := range coordtest.Queued(t, raw, accountA, 2) {
			if path.Join(accountA, node) != first.Members[0].Node {
				if err := raw.Delete(path.Join(accountA, node), -1); err != nil {
					t.Fatal(err)
				}
				eventstest.Eventually(t, "all places are taken anew", func() bool {
					for _, p := range []string{accountA, accountB} {
						for _, name := range coordtest.QueueOf(t, raw, p) {
							if name[:40] == node[:40] {
								return false
							}
						}
					}
					return true
				})
			}
		}
		coordtest.Queued(t, raw, accountB, 2)
		held.Release()
		coordtest.GrantOf(t, waits)
		waits.Release()
		if err := coordtest.EndOf(t, waits); err != nil {
			t.Error(err)
		}
	})
	t.Run("a transaction rests on all", func(t *testing.T) {
		held := mutexes(c, accountA, accountB).Acquire(context.Background())
		grant := coordtest.GrantOf(t, held)
		if err := raw.Delete(grant.Members[1].Node, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := held.Txn(coordtest.RealContext(t), &zk.CreateRequest{Path: "/nobody", Acl: zk.WorldACL(zk.PermAll)}); !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Errorf("%v", err)
		}
		<-held.Done()
		coordtest.Queued(t, raw, accountA, 0)
	})
	t.Run("as large as a request may be", func(t *testing.T) {
		const each = 1 << 12
		var paths []string
		for i := range 240 {
			p := fmt.Sprintf("/large/%0*d", each-7, i)
			paths = append(paths, p)
		}
		a := mutexes(c, paths...).Acquire(context.Background())
		if g := coordtest.GrantOf(t, a); len(g.Members) != len(paths) {
			t.Errorf("%d members", len(g.Members))
		}
		a.Release()
		if err := coordtest.EndOf(t, a); err != nil {
			t.Error(err)
		}
		coordtest.Queued(t, raw, paths[len(paths)-1], 0)
	})
}
