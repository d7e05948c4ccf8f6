package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ofNodes is a budget for so many nodes of locks at paths of the same length, such as budgetPath returns.
func ofNodes(n int) coordinator.Option {
	return coordinator.WithNodeBudget(n * (len(budgetPath(0)) + 60))
}

func budgetPath(i int) string { return fmt.Sprintf("/budget/%08d", i) }

// isFull fails unless the acquisition has ended because the session is full.
func isFull(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	synctest.Wait()
	if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrSessionFull) {
		t.Errorf("beyond the budget: over %t, %v, want ErrSessionFull at once", coordtest.IsClosed(a.Done()), a.Err())
	}
}

// counts fails unless so many nodes count.
func counts(t *testing.T, c *coordinator.Coordinator, nodes int) {
	t.Helper()
	synctest.Wait()
	if n := c.Nodes(); n.Nodes != nodes || nodes == 0 && n.Bytes != 0 {
		t.Errorf("%+v count, want %d nodes", n, nodes)
	}
}

func TestNodeBudgetOutOfRange(t *testing.T) {
	for bytes, ok := range map[int]bool{-1: false, 0: false, 1: true, 1 << 20: true, 1<<31 - 1: true} {
		c, err := coordinator.Open("127.0.0.1:1", coordinator.WithNodeBudget(bytes), coordinator.WithSessionTimeout(time.Second))
		if err == nil {
			eventstest.Must(t, c.Close())
		}
		if ok != (err == nil) || !ok && !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("a budget of %d: %v, want it taken: %t, or else ErrInvalid", bytes, err, ok)
		}
	}
}

// Beyond the budget each kind of lock ends at once, and nothing is sent. Waiters count. What is known to be
// deleted does not.
func TestBeyondTheBudget(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(3))
		other := coordtest.Connect(t, srv)
		theirs, _ := coordtest.Hold(t, other.Mutex(budgetPath(1)))
		held, _ := coordtest.Hold(t, c.Mutex(budgetPath(0)))
		waiting := coordtest.Queue(c.Mutex(budgetPath(1)))
		last := hold(t, c, 2)
		counts(t, c, 3)

		sent := coordtest.Traffic(srv)
		before := sent.Load()
		ctx := t.Context()
		for name, acquire := range map[string]asker{
			"mutex": c.Mutex(budgetPath(3)).Acquire, "the same path": c.Mutex(budgetPath(0)).Acquire,
			"unfair": c.Unfair(budgetPath(4)).Acquire, "semaphore": c.Semaphore(budgetPath(5), 2).Acquire,
			"multi":    c.Multi(c.Mutex(budgetPath(6)), c.Mutex(budgetPath(7))).Acquire,
			"election": c.Election(budgetPath(8)).Campaign,
			"cached":   c.Mutex(budgetPath(9), coordinator.Cached()).Acquire,
			"try": func(ctx context.Context, _ ...coordinator.AcquireOption) *coordinator.Acquisition {
				return c.Mutex(budgetPath(3)).Acquire(ctx, coordinator.Try())
			},
		} {
			a := acquire(ctx)
			isFull(t, a)
			for _, word := range []string{"3 nodes", "of 228 bytes", "WithNodeBudget"} {
				if !strings.Contains(fmt.Sprint(a.Err()), word) {
					t.Errorf("%s: %v, want %q in it", name, a.Err(), word)
				}
			}
		}
		if now := sent.Load(); now != before {
			t.Errorf("%d requests were sent for what is beyond the budget, want none", now-before)
		}
		counts(t, c, 3)

		coordtest.End(held)
		coordtest.GrantOf(t, c.Mutex(budgetPath(3)).Acquire(ctx)) // its Done says that there is room
		isFull(t, c.Mutex(budgetPath(4)).Acquire(ctx))
		coordtest.End(waiting)
		coordtest.End(last)
		coordtest.End(theirs)
		counts(t, c, 1)
	})
}

// All permits of a semaphore count from the moment their contender queues up, and each member of a multi-lock.
func TestPermitsAndMembersCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		other := coordtest.Connect(t, srv)
		all, _ := coordtest.Hold(t, other.Mutex("/keep"))
		c := coordtest.Connect(t, srv)
		permits := other.Semaphore("/permits", 4).Acquire(t.Context(), coordinator.WithPermits(4))
		coordtest.GrantOf(t, permits)
		waiting := c.Semaphore("/permits", 4).Acquire(t.Context(), coordinator.WithPermits(3))
		counts(t, c, 3)
		multi := c.Multi(c.Mutex("/a"), c.Mutex("/bb")).Acquire(t.Context())
		counts(t, c, 5)
		coordtest.End(permits)
		coordtest.GrantOf(t, waiting)
		coordtest.GrantOf(t, multi)
		counts(t, c, 5)
		size := 0
		for _, dir := range []string{"/permits/leases", "/a", "/bb"} {
			for _, child := range srv.Children(dir) {
				size += len(dir) + 1 + len(child) + 4
			}
		}
		if n := c.Nodes(); n.Bytes < size || n.Bytes > size+5*24 {
			t.Errorf("%d bytes count, and the end of the session takes %d", n.Bytes, size)
		}
		coordtest.End(waiting)
		coordtest.End(multi)
		coordtest.End(all)
		counts(t, c, 0)
	})
}

// A node of unknown fate counts, whether it is its create or its delete that was not answered.
func TestANodeOfUnknownFateCounts(t *testing.T) {
	for name, creates := range map[string]bool{"create": true, "delete": false} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, ofNodes(1))
				swallow := func() {
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op == zktest.OpDelete || r.Op == zktest.OpMulti {
							return zktest.Swallow()
						}
						return zktest.Pass()
					})
				}
				coordtest.End(hold(t, c, 0)) // the directory is known
				if creates {
					swallow()
				}
				a := c.Mutex(budgetPath(0)).Acquire(t.Context())
				synctest.Wait()
				if !creates {
					coordtest.GrantOf(t, a)
					swallow()
				}
				a.Release()
				isFull(t, c.Mutex(budgetPath(1)).Acquire(t.Context()))
				counts(t, c, 1)
				srv.Intercept(nil)
				srv.Cut(c.SessionID())
				<-a.Done()
				eventstest.Must(t, eventually(func() bool { return c.Nodes().Nodes == 0 }))
				hold(t, c, 1)
			})
		})
	}
}

// hold returns a held lock at a path of the budget.
func hold(t *testing.T, c *coordinator.Coordinator, i int) *coordinator.Acquisition {
	t.Helper()
	a, _ := coordtest.Hold(t, c.Mutex(budgetPath(i)))
	return a
}

// eventually waits in virtual time.
func eventually(reached func() bool) error {
	for range 1000 {
		if synctest.Wait(); reached() {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("it is never so")
}

// A server that refuses to delete a node leaves it with the session, so it counts until that ends.
func TestANodeThatStaysCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(1))
		a := hold(t, c, 0)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpDelete {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		coordtest.End(a)
		isFull(t, c.Mutex(budgetPath(1)).Acquire(t.Context()))
		counts(t, c, 1)
		srv.Intercept(nil)
		eventstest.Must(t, srv.Expire(c.SessionID()))
		eventstest.Must(t, eventually(func() bool { return c.State() == coordinator.StateConnected && c.Nodes().Nodes == 0 }))
		hold(t, c, 1)
	})
}

// fillHook notes how few nodes have counted.
type fillHook struct{ least atomic.Int64 }

func (h *fillHook) OnNodes(info coordinator.NodesInfo) {
	h.least.Store(min(h.least.Load(), int64(info.Nodes)))
}

// A waiter that queues up again in the next session keeps its room: others do not get it meanwhile. What held
// has room no more.
func TestAWaiterKeepsItsRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		fill := &fillHook{}
		c, other := coordtest.Connect(t, srv, ofNodes(3), coordinator.WithHooks(fill)), coordtest.Connect(t, srv)
		theirs := []*coordinator.Acquisition{hold(t, other, 1), hold(t, other, 2)}
		held := hold(t, c, 0)
		waiting := []*coordinator.Acquisition{coordtest.Queue(c.Mutex(budgetPath(1))), coordtest.Queue(c.Mutex(budgetPath(2)))}
		counts(t, c, 3)
		fill.least.Store(3)
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-held.Lost()
		early := c.Mutex(budgetPath(4)).Acquire(t.Context())
		eventstest.Must(t, eventually(func() bool { return c.State() == coordinator.StateConnected }))
		coordtest.GrantOf(t, early) // in the place of what was lost
		isFull(t, c.Mutex(budgetPath(3)).Acquire(t.Context()))
		counts(t, c, 3)
		if least := fill.least.Load(); least != 2 {
			t.Errorf("%d nodes counted between the sessions, want the two of the waiters", least)
		}
		for i, a := range waiting {
			coordtest.End(theirs[i])
			coordtest.GrantOf(t, a)
			coordtest.End(a)
		}
		coordtest.End(early)
		counts(t, c, 0)
	})
}

// Idle nodes of cached locks are given up before anything is refused, as many as are needed and not those in
// use.
func TestIdleCachedNodesMakeRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(4))
		for i := range 4 {
			keep(t, c, i)
		}
		inUse, _ := coordtest.Hold(t, c.Mutex(budgetPath(0), coordinator.Cached()))
		defer coordtest.End(inUse)
		counts(t, c, 4)
		both := c.Multi(c.Mutex(budgetPath(4)), c.Mutex(budgetPath(5))).Acquire(t.Context())
		coordtest.GrantOf(t, both)
		counts(t, c, 4)
		for i, want := range []int{1, 0, 0, 1, 1, 1} { // the one that was used last stays, and the one in use
			if n := len(srv.Children(budgetPath(i))); n != want {
				t.Errorf("%d nodes at %s, want %d", n, budgetPath(i), want)
			}
		}
		isFull(t, c.Multi(c.Mutex(budgetPath(6)), c.Mutex(budgetPath(7))).Acquire(t.Context()))
		if n := len(srv.Children(budgetPath(3))); n != 0 {
			t.Error("refused, and there is an idle node")
		}
		one := hold(t, c, 6)
		isFull(t, c.Mutex(budgetPath(7)).Acquire(t.Context()))
		coordtest.End(one)
	})
}

// keep leaves an idle node at a path.
func keep(t *testing.T, c *coordinator.Coordinator, i int) {
	t.Helper()
	for range 2 { // a node is kept from the second one in succession on
		cycle(t, c.Mutex(budgetPath(i), coordinator.Cached()))
	}
}

// If an idle node that was given up does not go, what waits for its room is refused.
func TestAnIdleNodeThatStaysMakesNoRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(1))
		keep(t, c, 0)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpDelete {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		isFull(t, c.Mutex(budgetPath(1)).Acquire(t.Context()))
	})
}

// A waiter that gives up while it waits for the room of an idle node leaves nothing behind.
func TestAWaiterForRoomGivesUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(1))
		keep(t, c, 0)
		srv.MuteAll(true)
		ctx, cancel := context.WithCancel(t.Context())
		waits, stays := c.Mutex(budgetPath(1)).Acquire(ctx), c.Mutex(budgetPath(2)).Acquire(t.Context())
		isFull(t, stays) // there is room for one
		if synctest.Wait(); coordtest.IsClosed(waits.Done()) {
			t.Fatal("over, want it to wait for the idle node to go:", waits.Err())
		}
		cancel()
		<-waits.Done()
		srv.MuteAll(false)
		eventstest.Must(t, eventually(func() bool { return c.Nodes().Nodes == 0 }))
		hold(t, c, 2)
	})
}

// Ephemeral nodes that a transaction makes count until one is known to have deleted them.
func TestNodesOfATransactionCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(3))
		a := hold(t, c, 0)
		create := func(path string, flags int32) *zk.CreateRequest {
			return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: flags}
		}
		txn := func(want error, nodes int, ops ...any) []zk.MultiResponse {
			t.Helper()
			responses, err := a.Txn(t.Context(), ops...)
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			counts(t, c, nodes)
			return responses
		}
		txn(nil, 1, create("/stays", 0))
		txn(nil, 2, create("/goes", zk.FlagEphemeral))
		txn(zk.ErrNodeExists, 2, create("/goes", zk.FlagEphemeral))
		txn(zk.ErrNoNode, 2, create("/no/parent", zk.FlagEphemeral))
		numbered := txn(nil, 3, create("/numbered-", zk.FlagEphemeral|zk.FlagSequence))
		txn(coordinator.ErrSessionFull, 3, create("/budget/more-1234567", zk.FlagEphemeral))
		isFull(t, c.Mutex(budgetPath(1)).Acquire(t.Context()))
		txn(nil, 2, &zk.DeleteRequest{Path: numbered[0].String, Version: -1})
		txn(zk.ErrBadVersion, 2, &zk.DeleteRequest{Path: "/goes", Version: 7})
		txn(nil, 1, &zk.DeleteRequest{Path: "/goes", Version: -1})
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpMulti {
				return zktest.CutAfter()
			}
			return zktest.Pass()
		})
		txn(coordinator.ErrOutcomeUnknown, 2, create("/goes", zk.FlagEphemeral))
		srv.Intercept(nil)
		txn(nil, 1, &zk.DeleteRequest{Path: "/goes", Version: -1})
		coordtest.End(a)
		counts(t, c, 0)
	})
}

// The rest of a place that was lost in part counts until it is removed, and its waiter waits for that.
func TestTheRestOfALostPlaceCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv, ofNodes(2)), coordtest.Connect(t, srv)
		theirs, _ := coordtest.Hold(t, other.Mutex(budgetPath(0)))
		a := c.Multi(c.Mutex(budgetPath(0)), c.Mutex(budgetPath(1))).Acquire(t.Context())
		counts(t, c, 2)
		most, turnedAway := 0, false
		srv.Intercept(func(q zktest.Request) zktest.Action {
			most = max(most, len(srv.Children(budgetPath(0)))+len(srv.Children(budgetPath(1))))
			if q.Op == zktest.OpDelete && !turnedAway { // so that the rest stays for a while
				turnedAway = true
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		eventstest.Must(t, srv.Delete(budgetPath(1)+"/"+srv.Children(budgetPath(1))[0]))
		srv.Cut(c.SessionID()) // the waiter looks, and finds that
		eventstest.Must(t, eventually(func() bool { return c.State() == coordinator.StateConnected && len(srv.Children(budgetPath(1))) == 1 }))
		counts(t, c, 2)
		coordtest.End(theirs)
		coordtest.GrantOf(t, a)
		if most > 3 {
			t.Errorf("there were %d nodes at once, want one of the holder and two of the waiter at most", most)
		}
		coordtest.End(a)
		counts(t, c, 0)
	})
}

// Within the default budget, or what is left of a larger one at Close, the end of a session is no transaction
// that a server cannot read, even if jute.maxbuffer is half its default.
func TestTheEndOfASessionCanBeRead(t *testing.T) {
	const half = 1<<19 - 1
	path := func(i int) string { return fmt.Sprintf("/%03000d/%05d", 0, i) }
	for name, c := range map[string]struct {
		options []coordinator.Option
		locks   int
		crash   bool
		dies    bool
		gone    int
	}{
		"a crash at the default budget":                {nil, 1_000_000 / 3067, true, false, 0},
		"close at the default budget":                  {nil, 1_000_000 / 3067, false, false, 0},
		"close of a larger budget":                     {[]coordinator.Option{coordinator.WithNodeBudget(2_000_000)}, 650, false, false, 0},
		"a crash of a budget that is too large":        {[]coordinator.Option{coordinator.WithNodeBudget(2_000_000)}, 600, true, true, 0},
		"close of one that was not that full":          {[]coordinator.Option{coordinator.WithNodeBudget(2_000_000)}, 200, false, false, 0},
		"a crash of one that was not that full":        {[]coordinator.Option{coordinator.WithNodeBudget(2_000_000)}, 200, true, false, 0},
		"close of a larger budget, with a timeout":     {[]coordinator.Option{coordinator.WithNodeBudget(2_000_000), coordinator.WithSessionTimeout(time.Minute)}, 650, false, false, 0},
		"close of a larger budget, and nodes are gone": {[]coordinator.Option{coordinator.WithNodeBudget(2_000_000)}, 651, false, false, 40},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				srv := zktest.Start(t, zktest.JuteMaxBuffer(half))
				co, err := coordinator.Connect(t.Context(), srv.Addr(), append([]coordinator.Option{srv.Option()}, c.options...)...)
				eventstest.Must(t, err)
				for i := range c.locks {
					co.Mutex(path(i)).Acquire(t.Context())
				}
				synctest.Wait()
				if n := co.Nodes().Nodes; n != c.locks {
					t.Fatalf("%d nodes, want %d", n, c.locks)
				}
				if c.options == nil {
					isFull(t, co.Mutex(path(c.locks)).Acquire(t.Context()))
				}
				if c.crash {
					eventstest.Must(t, srv.Expire(co.SessionID()))
					if srv.Dead() != c.dies {
						t.Errorf("the server is dead: %t, want %t", srv.Dead(), c.dies)
					}
				}
				for i := 0; i < c.gone; i++ { // a transaction with such a delete is refused
					gone := path(c.locks - 1 - 10*i)
					eventstest.Must(t, srv.Delete(gone+"/"+srv.Children(gone)[0]))
				}
				sent := coordtest.Traffic(srv)
				if err := co.Close(); err != nil && !c.dies {
					t.Error(err)
				}
				if srv.Dead() != c.dies {
					t.Errorf("the server is dead: %t, want %t", srv.Dead(), c.dies)
				}
				if n := sent.Load(); n > 256+64 && c.gone == 0 {
					t.Errorf("Close has sent %d requests, want one flight, and transactions of many deletes", n)
				}
			})
		})
	}
}
