package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// Many locks that are verified at once, because there is a new connection.

// ofMany is the parent of these locks.
const ofMany = "/many/"

// manyHeld makes a session hold n locks. Their nodes are not watched yet: each create
// grants its lock, because the session knows that the directories are ours.
func manyHeld(t *testing.T, srv *zktest.Server, n int, lock func(c *coordinator.Coordinator, i int) *coordinator.Lock) (
	c *coordinator.Coordinator, all []*coordinator.Acquisition,
) {
	t.Helper()
	c = coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
	for range 3 {
		for _, a := range all {
			coordtest.End(a)
		}
		all = all[:0]
		for i := range n {
			all = append(all, lock(c, i).Acquire(context.Background()))
		}
		granted(t, all)
	}
	return c, all
}

func mutexOfMany(c *coordinator.Coordinator, i int) *coordinator.Lock {
	return c.Mutex(fmt.Sprint(ofMany, i))
}

// A census records which nodes a server was asked to check.
type census struct {
	mu      sync.Mutex
	sizes   []int          // nodes per transaction
	checked map[string]int // how often each node was checked
	others  int            // other requests before the last transaction
	between int            // other requests since then
}

// takeCensus records the transactions that check at least one of the many locks, and lets
// act decide their fate. From then on the nodes cannot be watched, since a watch would
// also report that a node is gone.
func takeCensus(srv *zktest.Server, act func(nodes int) zktest.Action) *census {
	c := &census{checked: map[string]int{}}
	srv.Intercept(func(r zktest.Request) zktest.Action {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case r.Op == zktest.OpPing, r.Op == zktest.OpConnect, r.Op == zktest.OpSetWatches:
			return zktest.Pass()
		case r.Op == zktest.OpGetData && strings.HasPrefix(r.Path, ofMany):
			return zktest.Fail(zktest.Throttled)
		case r.Op != zktest.OpMulti || r.Parts[0].Op != zktest.OpCheck || !strings.HasPrefix(r.Path, ofMany):
			c.between++
			return zktest.Pass()
		}
		c.sizes = append(c.sizes, len(r.Parts))
		c.others, c.between = c.others+c.between, 0
		for _, p := range r.Parts {
			c.checked[p.Path]++
		}
		return act(len(r.Parts))
	})
	return c
}

func pass(int) zktest.Action { return zktest.Pass() }

// wantSizes checks the number of transactions.
func (c *census) wantSizes(t *testing.T, most int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	expect(t, len(c.sizes) <= most, "%d transactions of %v checks, want at most %d", len(c.sizes), c.sizes, most)
}

// wantLost checks that exactly these locks were lost, because their nodes were removed.
func wantLost(t *testing.T, all []*coordinator.Acquisition, want func(i int) bool) {
	t.Helper()
	for i, a := range all {
		var reason events.Reason // 0: no loss was delivered
		if len(a.Lost()) > 0 {
			reason = (<-a.Lost()).Reason
		}
		lost := want != nil && want(i)
		expect(t, lost == (reason == events.ReasonNodeRemoved) && a.Valid() != lost,
			"lock %d: lost %v, valid %v; want it lost if its node is removed: %v", i, reason, a.Valid(), lost)
	}
}

// TestHeldLocksAreVerifiedTogether on a new connection: each node once, at least a
// hundred in one transaction, and not after the other requests that queued up meanwhile.
func TestHeldLocksAreVerifiedTogether(t *testing.T) {
	const n = 1500
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, all := manyHeld(t, srv, n, mutexOfMany)
		srv.Down(true)
		synctest.Wait()
		anew := burst(c, 300)
		seen := takeCensus(srv, pass)
		srv.Down(false)
		granted(t, anew)
		seen.wantSizes(t, n/100)
		wantLost(t, all, nil)
		for _, a := range all {
			expectEqual(t, seen.checked[a.Grant().Node], 1, "checks of %s", a.Grant().Node)
		}
		// Concurrent requests are sent in no fixed order, and each answer makes room for
		// another one.
		expect(t, seen.others <= n/4, "%d requests of others come first, want at most %d", seen.others, n/4)
	})
}

// TestWhichOfManyIsGone: exactly the locks of the missing nodes are lost.
func TestWhichOfManyIsGone(t *testing.T) {
	const n = 300
	type row struct {
		gone, hidden func(i int) bool
		most         int // transactions
	}
	every := func(step, first int) func(int) bool { return func(i int) bool { return i%step == first } }
	forEach(t, map[string]row{
		"none":               {most: 2},
		"the first":          {gone: every(n, 0), most: 4},
		"one in the middle":  {gone: every(n, 77), most: 4},
		"the last":           {gone: every(n, n-1), most: 4},
		"every tenth":        {gone: every(10, 3), most: 80},
		"all":                {gone: every(1, 0), most: n + 2},
		"one is not to read": {hidden: every(n, 77), most: 4},
		"all are not":        {hidden: every(1, 0), most: n + 2},
		"both":               {gone: every(50, 3), hidden: every(50, 4), most: 40},
	}, func(t *testing.T, srv *zktest.Server, x row) {
		_, all := manyHeld(t, srv, n, mutexOfMany)
		raw := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		for i, a := range all {
			if x.hidden != nil && x.hidden(i) {
				_, err := raw.SetACL(a.Grant().Node, zk.WorldACL(zk.PermDelete|zk.PermAdmin), -1)
				eventstest.Must(t, err)
			}
		}
		srv.Down(true)
		synctest.Wait()
		for i, a := range all {
			if x.gone != nil && x.gone(i) {
				eventstest.Must(t, srv.Delete(a.Grant().Node)) // not watched yet, so soon after the grant
			}
		}
		seen := takeCensus(srv, pass)
		srv.Down(false)
		time.Sleep(2 * time.Second)
		wantLost(t, all, x.gone)
		seen.wantSizes(t, x.most)
	})
}

// TestAnAnswerToManyThatIsLost: the fate of each node is unknown, and all are verified
// once more. By then one node is gone.
func TestAnAnswerToManyThatIsLost(t *testing.T) {
	const n = 300
	forEach(t, map[string]zktest.Action{
		"answer lost": zktest.CutAfter(), "request lost": zktest.CutBefore(), "turned away": zktest.Fail(zktest.Throttled),
	}, func(t *testing.T, srv *zktest.Server, lost zktest.Action) {
		_, all := manyHeld(t, srv, n, mutexOfMany)
		first := true
		seen := takeCensus(srv, func(nodes int) zktest.Action {
			if !first || nodes <= n/2 {
				return zktest.Pass()
			}
			first = false
			eventstest.Check(t, srv.Delete(all[n/2].Grant().Node))
			return lost
		})
		srv.CutAll()
		time.Sleep(5 * time.Second)
		wantLost(t, all, func(i int) bool { return i == n/2 })
		expect(t, !first, "no transaction checks most of them, want one")
		seen.wantSizes(t, 8)
	})
}

// TestLocksOfSeveralNodesAreVerifiedTogether: some of its nodes prove nothing for a lock
// with several. If one node is gone, its lock is lost, and no other.
func TestLocksOfSeveralNodesAreVerifiedTogether(t *testing.T) {
	const n = 60
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		at := func(i int, part string) string { return fmt.Sprint(ofMany, i, part) }
		c, all := manyHeld(t, srv, n, func(c *coordinator.Coordinator, i int) *coordinator.Lock {
			switch i % 3 {
			case 0:
				return mutexes(c, at(i, "a"), at(i, "b"), at(i, "c"))
			case 1:
				return c.ReadWrite(at(i, "")).Read()
			default:
				return c.Mutex(at(i, ""), coordinator.DetectCrash())
			}
		})
		for i := range n {
			a, _ := coordtest.Hold(t, c.Semaphore(at(i, "permits"), 5), coordinator.Permits(3))
			all = append(all, a)
		}
		srv.Down(true)
		synctest.Wait()
		eventstest.Must(t, srv.Delete(at(30, "b")+"/"+srv.Children(at(30, "b"))[0]))
		eventstest.Must(t, srv.Delete(at(7, "permits/leases")+"/"+srv.Children(at(7, "permits/leases"))[1]))
		seen := takeCensus(srv, pass)
		srv.Down(false)
		time.Sleep(2 * time.Second)
		wantLost(t, all, func(i int) bool { return i == 30 || i == n+7 })
		seen.wantSizes(t, 8)
	})
}

// TestLongPathsAreVerifiedInParts, each far smaller than a server accepts.
func TestLongPathsAreVerifiedInParts(t *testing.T) {
	const n, length, most = 100, 4000, 128 << 10
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, all := manyHeld(t, srv, n, func(c *coordinator.Coordinator, i int) *coordinator.Lock {
			return c.Mutex(fmt.Sprintf("%s%0*d", ofMany, length, i))
		})
		seen := takeCensus(srv, pass)
		srv.CutAll()
		time.Sleep(5 * time.Second)
		wantLost(t, all, nil)
		seen.wantSizes(t, n/8)
		nodes := slices.Max(seen.sizes)
		expect(t, nodes*length <= most, "%d nodes of %d bytes in one, want %d bytes at most", nodes, length, most)
	})
}
