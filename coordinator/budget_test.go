package coordinator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// ofNodes is a budget for n nodes of locks at paths that budgetPath returns.
func ofNodes(n int) coordinator.Option {
	return coordinator.WithNodeBudget(n * (len(budgetPath(0)) + 60))
}

func budgetPath(i int) string { return fmt.Sprintf("/budget/%08d", i) }

func isFull(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	synctest.Wait()
	expect(t, coordtest.IsClosed(a.Done()), "beyond the budget the acquisition is not over, want it over at once")
	expectError(t, a.Err(), coordinator.ErrSessionFull, "beyond the budget")
}

func counts(t *testing.T, c *coordinator.Coordinator, nodes int) {
	t.Helper()
	synctest.Wait()
	n := c.Nodes()
	expect(t, n.Nodes == nodes && (nodes > 0 || n.Bytes == 0), "%+v count, want %d nodes", n, nodes)
}

func hold(t *testing.T, c *coordinator.Coordinator, i int) *coordinator.Acquisition {
	t.Helper()
	a, _ := coordtest.Hold(t, c.Mutex(budgetPath(i)))
	return a
}

// isBack waits until the coordinator is connected and the given number of nodes counts.
func isBack(t *testing.T, c *coordinator.Coordinator, nodes int) {
	t.Helper()
	synctest.Wait()
	eventstest.Eventually(t, "the coordinator is back", func() bool {
		return c.State() == coordinator.StateConnected && c.Nodes().Nodes == nodes
	})
}

// Beyond the budget, an acquisition of any kind ends at once and sends nothing. Waiters
// count.
func TestBeyondTheBudget(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv, ofNodes(3)), coordtest.Connect(t, srv)
		theirs, held := hold(t, other, 1), hold(t, c, 0)
		waiting := coordtest.Queue(c.Mutex(budgetPath(1)))
		last := hold(t, c, 2)
		counts(t, c, 3)

		sent := coordtest.Traffic(srv)
		beyond := handlesOf(c)
		beyond["the same path"] = c.Mutex(budgetPath(0))
		for name, lock := range beyond {
			a := lock.Acquire(t.Context())
			isFull(t, a)
			isFull(t, lock.Acquire(t.Context(), coordinator.Try()))
			for _, word := range []string{"3 nodes", "of 228 bytes", "WithNodeBudget"} {
				says(t, name, a.Err(), word)
			}
		}
		expect(t, sent.Load() == 0, "%d requests were sent for what is beyond the budget, want none", sent.Load())
		counts(t, c, 3)

		coordtest.End(held)
		coordtest.GrantOf(t, c.Mutex(budgetPath(3)).Acquire(t.Context())) // Done means that there is room
		isFull(t, c.Mutex(budgetPath(4)).Acquire(t.Context()))
		for _, a := range []*coordinator.Acquisition{waiting, last, theirs} {
			coordtest.End(a)
		}
		counts(t, c, 1)
	})
}

// All permits count while their contender queues, and so does each member of a
// multi-lock.
func TestPermitsAndMembersCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, other.Mutex("/keep"))
		permits, _ := coordtest.Hold(t, other.Semaphore("/permits", 4), coordinator.Permits(4))
		waiting := c.Semaphore("/permits", 4).Acquire(t.Context(), coordinator.Permits(3))
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
		n := c.Nodes().Bytes
		expect(t, n >= size && n <= size+5*24, "%d bytes count, and the end of the session takes %d", n, size)
		coordtest.End(waiting)
		coordtest.End(multi)
		counts(t, c, 0)
	})
}

// A node counts while the answer to its create or its delete is missing. If a server
// refuses to delete it, it counts until its session ends.
func TestANodeOfUnknownFateCounts(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"create": zktest.Swallow(), "delete": zktest.Swallow(), "refused": zktest.Fail(zktest.NoAuth),
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv, ofNodes(1))
			coordtest.End(hold(t, c, 0)) // the directory is known
			if name == "create" {
				onEach(srv, action, zktest.OpDelete, zktest.OpMulti)
			}
			a := coordtest.Queue(c.Mutex(budgetPath(0)))
			if name != "create" {
				coordtest.GrantOf(t, a)
				onEach(srv, action, zktest.OpDelete, zktest.OpMulti)
			}
			a.Release()
			isFull(t, c.Mutex(budgetPath(1)).Acquire(t.Context()))
			counts(t, c, 1)
			srv.Intercept(nil)
			if name == "refused" {
				expectError(t, a.Err(), coordinator.ErrNoAuth, "the released holder")
				eventstest.Must(t, srv.Expire(c.SessionID()))
			} else {
				srv.Cut(c.SessionID())
			}
			<-a.Done()
			isBack(t, c, 0)
			hold(t, c, 1)
		})
	}
}

type fillHook struct{ least atomic.Int64 }

func (h *fillHook) OnNodes(info hooks.Nodes) {
	h.least.Store(min(h.least.Load(), int64(info.Nodes)))
}

// A waiter that queues up again in the next session keeps its room, unlike a holder.
func TestAWaiterKeepsItsRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		fill := &fillHook{}
		c, other := coordtest.Connect(t, srv, ofNodes(3), coordinator.WithHooks(fill)), coordtest.Connect(t, srv)
		theirs := []*coordinator.Acquisition{hold(t, other, 1), hold(t, other, 2)}
		held := hold(t, c, 0)
		var waiting []*coordinator.Acquisition
		for i := range theirs {
			waiting = append(waiting, coordtest.Queue(c.Mutex(budgetPath(1+i))))
		}
		counts(t, c, 3)
		fill.least.Store(3)
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-held.Lost()
		early := hold(t, c, 4) // in the room of the lost lock
		isFull(t, c.Mutex(budgetPath(3)).Acquire(t.Context()))
		counts(t, c, 3)
		expect(t, fill.least.Load() == 2, "%d nodes counted between the sessions, want 2", fill.least.Load())
		for i, a := range waiting {
			coordtest.End(theirs[i])
			coordtest.GrantOf(t, a)
			coordtest.End(a)
		}
		coordtest.End(early)
		counts(t, c, 0)
	})
}

// Only as many idle nodes of cached locks are removed as are needed.
func TestIdleCachedNodesMakeRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(4))
		for i := range 4 {
			keep(t, c.Mutex(budgetPath(i), coordinator.Cached()))
		}
		coordtest.Hold(t, c.Mutex(budgetPath(0), coordinator.Cached()))
		counts(t, c, 4)
		coordtest.GrantOf(t, c.Multi(c.Mutex(budgetPath(4)), c.Mutex(budgetPath(5))).Acquire(t.Context()))
		counts(t, c, 4)
		for i, want := range []int{1, 0, 0, 1, 1, 1} { // the node used last and the one in use stay
			expectEqual(t, len(srv.Children(budgetPath(i))), want, "nodes at %s", budgetPath(i))
		}
		isFull(t, c.Multi(c.Mutex(budgetPath(6)), c.Mutex(budgetPath(7))).Acquire(t.Context()))
		expect(t, len(srv.Children(budgetPath(3))) == 0, "refused, and there is an idle node")
		hold(t, c, 6)
		isFull(t, c.Mutex(budgetPath(7)).Acquire(t.Context()))
	})
}

// A waiter that gives up while it waits for an idle node's room leaves nothing behind. If
// the idle node cannot be removed, the acquisition that waits for its room is refused.
func TestAnIdleNodeThatStaysMakesNoRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(1))
		keep(t, c.Mutex(budgetPath(0), coordinator.Cached()))
		srv.MuteAll(true)
		ctx, cancel := context.WithCancel(t.Context())
		waits, stays := c.Mutex(budgetPath(1)).Acquire(ctx), c.Mutex(budgetPath(2)).Acquire(t.Context())
		isFull(t, stays) // there is room for one
		expect(t, !coordtest.IsClosed(waits.Done()), "it does not wait for the idle node: %v", waits.Err())
		cancel()
		<-waits.Done()
		srv.MuteAll(false)
		isBack(t, c, 0)
		coordtest.End(hold(t, c, 2))

		keep(t, c.Mutex(budgetPath(3), coordinator.Cached()))
		onEach(srv, zktest.Fail(zktest.NoAuth), zktest.OpDelete)
		isFull(t, c.Mutex(budgetPath(1)).Acquire(t.Context()))
	})
}

// Ephemeral nodes created by a transaction count until a transaction is known to have
// deleted them.
func TestNodesOfATransactionCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(3))
		a := hold(t, c, 0)
		create := func(path string, flags int32) *zk.CreateRequest {
			return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: flags}
		}
		remove := func(path string, version int32) *zk.DeleteRequest {
			return &zk.DeleteRequest{Path: path, Version: version}
		}
		txn := func(want error, nodes int, ops ...any) []zk.MultiResponse {
			t.Helper()
			responses, err := a.Txn(t.Context(), ops...)
			expectError(t, err, want, "the transaction")
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
		txn(nil, 2, remove(numbered[0].String, -1))
		txn(zk.ErrBadVersion, 2, remove("/goes", 7))
		txn(nil, 1, remove("/goes", -1))
		onEach(srv, zktest.CutAfter(), zktest.OpMulti)
		txn(coordinator.ErrOutcomeUnknown, 2, create("/goes", zk.FlagEphemeral))
		srv.Intercept(nil)
		txn(nil, 1, remove("/goes", -1))
		coordtest.End(a)
		counts(t, c, 0)
	})
}

// The rest of a lost place counts until it is removed. Its waiter waits for that.
func TestTheRestOfALostPlaceCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv, ofNodes(2)), coordtest.Connect(t, srv)
		theirs := hold(t, other, 0)
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
		srv.Cut(c.SessionID()) // the waiter looks, and finds its node gone
		isBack(t, c, 2)
		eventstest.Eventually(t, "it is back", func() bool { return len(srv.Children(budgetPath(1))) == 1 })
		counts(t, c, 2)
		coordtest.End(theirs)
		coordtest.GrantOf(t, a)
		expect(t, most <= 3, "%d nodes at once, want one of the holder and two of the waiter at most", most)
		coordtest.End(a)
		counts(t, c, 0)
	})
}

// The transaction that ends a session can be read by a server, within the default budget
// and at Close, even if jute.maxbuffer is half its default.
func TestTheEndOfASessionCanBeRead(t *testing.T) {
	const half, fits = 1<<19 - 1, 1_000_000 / 3067 // as many locks at such paths as the default budget allows
	path := func(i int) string { return fmt.Sprintf("/%03000d/%05d", 0, i) }
	large := coordinator.WithNodeBudget(2_000_000)
	for name, c := range map[string]struct {
		budget  coordinator.Option
		timeout time.Duration
		locks   int
		crash   bool
		dies    bool
		gone    int
	}{
		"a crash at the default budget":                {nil, 10 * time.Second, fits, true, false, 0},
		"close at the default budget":                  {nil, 10 * time.Second, fits, false, false, 0},
		"close of a larger budget":                     {large, 10 * time.Second, 650, false, false, 0},
		"a crash of a budget that is too large":        {large, 10 * time.Second, 600, true, true, 0},
		"close of one that was not that full":          {large, 10 * time.Second, 200, false, false, 0},
		"a crash of one that was not that full":        {large, 10 * time.Second, 200, true, false, 0},
		"close of a larger budget, with a timeout":     {large, time.Minute, 650, false, false, 0},
		"close of a larger budget, and nodes are gone": {large, 10 * time.Second, 651, false, false, 40},
	} {
		eventstest.Case(t, name, func(t *testing.T) {
			srv := zktest.Start(t, zktest.JuteMaxBuffer(half))
			co := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(c.timeout), c.budget)
			for i := range c.locks {
				co.Mutex(path(i)).Acquire(t.Context())
			}
			counts(t, co, c.locks)
			if c.budget == nil {
				isFull(t, co.Mutex(path(c.locks)).Acquire(t.Context()))
			}
			if c.crash {
				eventstest.Must(t, srv.Expire(co.SessionID()))
				expect(t, srv.Dead() == c.dies, "after the crash: dead %t, want %t", srv.Dead(), c.dies)
			}
			for i := range c.gone { // a transaction that deletes a missing node is refused
				gone := path(c.locks - 1 - 10*i)
				eventstest.Must(t, srv.Delete(gone+"/"+srv.Children(gone)[0]))
			}
			var sent atomic.Int32
			srv.Intercept(func(q zktest.Request) zktest.Action {
				if q.Op == zktest.OpDelete || q.Op == zktest.OpMulti {
					sent.Add(1)
				}
				return zktest.Delay(time.Millisecond) // so that a flight has left before its first answer
			})
			err := co.Close()
			expect(t, err == nil || c.dies, "Close = %v", err)
			expect(t, srv.Dead() == c.dies, "after Close: dead %t, want %t", srv.Dead(), c.dies)
			expect(t, sent.Load() <= 256+16 || c.gone > 0,
				"Close has sent %d requests, want one flight, and transactions of many deletes", sent.Load())
		})
	}
}

// TestCloseOfALargeSessionRepeatsDeletes: an overloaded server rejects all deletes for a
// while, and must not remove all nodes in one transaction.
func TestCloseOfALargeSessionRepeatsDeletes(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		const locks = 600
		srv := zktest.Start(t, zktest.JuteMaxBuffer(1<<19-1))
		c := coordtest.Connect(t, srv, coordinator.WithNodeBudget(2_000_000))
		for i := range locks {
			c.Mutex(fmt.Sprintf("/%03000d/%05d", 0, i)).Acquire(t.Context())
		}
		counts(t, c, locks)
		deletes, start := isA(zktest.OpDelete, zktest.OpMulti), time.Now()
		strike(srv, zktest.Fail(zktest.Throttled), func(r zktest.Request) bool {
			return deletes(r) && time.Since(start) < time.Second
		})
		eventstest.Check(t, c.Close())
		expect(t, !srv.Dead(), "after Close the server is dead, want it alive")
	})
}

// TestAWithdrawnRequestHoldsUpNoOther: it waits for the room of idle nodes, which a server
// does not delete yet. A smaller one behind it needs less room than there is.
func TestAWithdrawnRequestHoldsUpNoOther(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, ofNodes(4))
		for i := range 2 {
			keep(t, c.Mutex(budgetPath(i), coordinator.Cached()))
		}
		strike(srv, zktest.Fail(zktest.Throttled), isA(zktest.OpDelete))
		three := c.Multi(c.Mutex(budgetPath(2)), c.Mutex(budgetPath(3)), c.Mutex(budgetPath(4)))
		large := three.Acquire(t.Context())
		small := c.Mutex(budgetPath(5)).Acquire(t.Context())
		synctest.Wait()
		waits := !small.Valid() && !coordtest.IsClosed(small.Done())
		expect(t, waits, "the small one does not wait: %v", small.Err())
		large.Release()
		synctest.Wait()
		expect(t, small.Valid(), "once the large one has left, the small one still waits, want it to hold")
		srv.Intercept(nil)
	})
}
