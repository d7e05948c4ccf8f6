package coordinator_test

import (
	"context"
	"fmt"
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

// ofMany is where those locks are.
const ofMany = "/many/"

// manyHeld holds so many locks. Their nodes are not watched yet: each lock is granted by its create, because the session knows the
// directories for ours.
func manyHeld(t *testing.T, n int, lock func(i int) *coordinator.Lock) (all []*coordinator.Acquisition) {
	t.Helper()
	for range 3 {
		for _, a := range all {
			coordtest.End(a)
		}
		all = all[:0]
		for i := range n {
			all = append(all, lock(i).Acquire(context.Background()))
		}
		for _, a := range all {
			if _, err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// A census is what a server was asked to check.
type census struct {
	mu      sync.Mutex
	sizes   []int          // of the transactions, in nodes
	checked map[string]int // how often each node was
	others  int            // requests that came before the last of the transactions
	between int            // that came since
}

// takeCensus notes the transactions that check one of the many locks or more, and has act decide their fate. From then on the nodes
// are not watched: a watch would tell as well that a node is gone.
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

// cutOnce breaks all connections for an instant, and waits until the session has dealt with that.
func cutOnce(srv *zktest.Server) {
	srv.CutAll()
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

// lostOf returns which of them are lost, and why.
func lostOf(all []*coordinator.Acquisition) map[int]events.Reason {
	lost := map[int]events.Reason{}
	for i, a := range all {
		select {
		case l := <-a.Lost():
			lost[i] = l.Reason
		default:
		}
	}
	return lost
}

// TestHeldLocksAreVerifiedTogether: a session that holds many locks has a new connection. Each node is checked, a hundred and more
// in one transaction, and not behind other requests of the meantime.
func TestHeldLocksAreVerifiedTogether(t *testing.T) {
	const n = 1500
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		all := manyHeld(t, n, func(i int) *coordinator.Lock { return c.Mutex(fmt.Sprint(ofMany, i)) })
		srv.Down(true)
		synctest.Wait()
		anew := burst(c, 300)
		seen := takeCensus(srv, pass)
		srv.Down(false)
		for _, a := range anew {
			if _, err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if got, most := len(seen.sizes), n/100; got > most {
			t.Errorf("%d locks are verified in %d transactions, want at most %d", n, got, most)
		}
		for _, a := range all {
			grant := a.Grant()
			if got := seen.checked[grant.Node]; got != 1 || !a.Valid() {
				t.Errorf("%s is checked %d times, held %v; want it once, and held", grant.Node, got, a.Valid())
			}
		}
		// Requests beside them are sent in no order, and each answer makes room for another one.
		if got, most := seen.others, n/4; got > most {
			t.Errorf("%d requests of others are made before the last of the transactions, want at most %d", got, most)
		}
	})
}

// TestWhichOfManyIsGone: some of the nodes are gone, or may not be read. Exactly the locks of the missing nodes are lost.
func TestWhichOfManyIsGone(t *testing.T) {
	const n = 300
	each := func(i int) bool { return i >= 0 }
	for name, c := range map[string]struct {
		gone   func(i int) bool
		hidden func(i int) bool
		most   int // transactions
	}{
		"none":               {most: 2},
		"the first":          {gone: func(i int) bool { return i == 0 }, most: 4},
		"one in the middle":  {gone: func(i int) bool { return i == 77 }, most: 4},
		"the last":           {gone: func(i int) bool { return i == n-1 }, most: 4},
		"every tenth":        {gone: func(i int) bool { return i%10 == 3 }, most: 80},
		"all":                {gone: each, most: n + 2},
		"one is not to read": {hidden: func(i int) bool { return i == 77 }, most: 4},
		"all are not":        {hidden: each, most: n + 2},
		"both":               {gone: func(i int) bool { return i%50 == 3 }, hidden: func(i int) bool { return i%50 == 4 }, most: 40},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				co := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				all := manyHeld(t, n, func(i int) *coordinator.Lock { return co.Mutex(fmt.Sprint(ofMany, i)) })
				raw := coordtest.Admin(t, srv.Addr(), srv.DialContext)
				for i, a := range all {
					grant := a.Grant()
					if c.hidden != nil && c.hidden(i) {
						_, err := raw.SetACL(grant.Node, zk.WorldACL(zk.PermDelete|zk.PermAdmin), -1)
						eventstest.Must(t, err)
					}
				}
				srv.Down(true)
				synctest.Wait()
				for i, a := range all {
					grant := a.Grant()
					if c.gone != nil && c.gone(i) {
						eventstest.Must(t, srv.Delete(grant.Node)) // it is not watched so soon after the grant
					}
				}
				seen := takeCensus(srv, pass)
				srv.Down(false)
				time.Sleep(2 * time.Second)
				lost := lostOf(all)
				for i, a := range all {
					reason, gone := lost[i]
					if want := c.gone != nil && c.gone(i); gone != want || gone && reason != events.ReasonNodeRemoved || a.Valid() == gone {
						t.Errorf("lock %d: lost %v, %v, valid %v; want it lost if its node is removed: %v", i, gone, reason, a.Valid(), want)
					}
				}
				if got := len(seen.sizes); got > c.most {
					t.Errorf("%d transactions of %v checks are made, want at most %d", got, seen.sizes, c.most)
				}
			})
		})
	}
}

// TestAnAnswerToManyThatIsLost: the fate of each of them is unknown, and all are verified once more. One node is gone by then.
func TestAnAnswerToManyThatIsLost(t *testing.T) {
	const n = 300
	for name, lost := range map[string]func() zktest.Action{
		"answer lost": zktest.CutAfter, "request lost": zktest.CutBefore, "turned away": func() zktest.Action { return zktest.Fail(zktest.Throttled) },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				all := manyHeld(t, n, func(i int) *coordinator.Lock { return c.Mutex(fmt.Sprint(ofMany, i)) })
				first, gone := true, all[n/2].Grant().Node
				seen := takeCensus(srv, func(nodes int) zktest.Action {
					if first && nodes > n/2 {
						first = false
						if err := srv.Delete(gone); err != nil {
							t.Error(err)
						}
						return lost()
					}
					return zktest.Pass()
				})
				cutOnce(srv)
				if got := lostOf(all); len(got) != 1 || got[n/2] != events.ReasonNodeRemoved || first {
					t.Errorf("lost are %v, want %d, of which the node is gone", got, n/2)
				}
				seen.mu.Lock()
				defer seen.mu.Unlock()
				if got := len(seen.sizes); got > 8 {
					t.Errorf("%d transactions of %v checks are made, want at most 8", got, seen.sizes)
				}
			})
		})
	}
}

// TestLocksOfSeveralNodesAreVerifiedTogether: a part of its nodes says nothing of a lock with several. If one node is gone, its
// lock is lost, and no other.
func TestLocksOfSeveralNodesAreVerifiedTogether(t *testing.T) {
	const n = 60
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		at := func(i int, part string) string { return fmt.Sprint(ofMany, i, part) }
		all := manyHeld(t, n, func(i int) *coordinator.Lock {
			switch i % 3 {
			case 0:
				return c.Multi(c.Mutex(at(i, "a")), c.Mutex(at(i, "b")), c.Mutex(at(i, "c")))
			case 1:
				return c.ReadWrite(at(i, "")).Read()
			default:
				return c.Mutex(at(i, ""), coordinator.DetectCrash())
			}
		})
		for i := range n {
			a := c.Semaphore(at(i, "permits"), 5).Acquire(t.Context(), coordinator.WithPermits(3))
			coordtest.Soon(t, a)
			all = append(all, a)
		}
		srv.Down(true)
		synctest.Wait()
		eventstest.Must(t, srv.Delete(at(30, "b")+"/"+srv.Children(at(30, "b"))[0]))
		eventstest.Must(t, srv.Delete(at(7, "permits/leases")+"/"+srv.Children(at(7, "permits/leases"))[1]))
		seen := takeCensus(srv, pass)
		srv.Down(false)
		time.Sleep(2 * time.Second)
		if got := lostOf(all); len(got) != 2 || got[30] != events.ReasonNodeRemoved || got[n+7] != events.ReasonNodeRemoved {
			t.Errorf("lost are %v, want 30 and %d, of which the nodes were removed", got, n+7)
		}
		if got := len(seen.sizes); got > 8 {
			t.Errorf("%d transactions of %v checks are made, want at most 8", got, seen.sizes)
		}
	})
}

// TestLongPathsAreVerifiedInParts: a transaction is far below what a server takes, however long the paths are.
func TestLongPathsAreVerifiedInParts(t *testing.T) {
	const n, length, most = 100, 4000, 128 << 10
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		all := manyHeld(t, n, func(i int) *coordinator.Lock { return c.Mutex(fmt.Sprintf("%s%0*d", ofMany, length, i)) })
		seen := takeCensus(srv, pass)
		cutOnce(srv)
		if got := lostOf(all); len(got) > 0 {
			t.Errorf("%d locks are lost, want none", len(got))
		}
		for _, nodes := range seen.sizes {
			if nodes*length > most {
				t.Errorf("%d nodes of %d bytes are checked in one transaction, want at most %d bytes", nodes, length, most)
			}
		}
		if got := len(seen.sizes); got > n/8 {
			t.Errorf("%d transactions of %v checks are made, want at most %d", got, seen.sizes, n/8)
		}
	})
}

// TestRealReconnectOfManyHolders: all connections of many sessions break at once, for an instant. Each session holds many locks,
// and none is lost.
func TestRealReconnectOfManyHolders(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout = 6 * time.Second
	sessions, locks := eventstest.Many(4, 20), eventstest.Many(500, 2000)
	e := largeServer(t)
	network := &cutter{}
	var all []*coordinator.Acquisition
	var cs []*coordinator.Coordinator
	for s := range sessions {
		c := coordtest.ConnectReal(t, e.Addr(0), coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(network.dial))
		cs = append(cs, c)
		for i := range locks {
			all = append(all, c.Mutex(fmt.Sprintf("/real/many/%d/%d", s, i)).Acquire(context.Background()))
		}
		for _, a := range all[s*locks:] {
			coordtest.GrantOf(t, a)
		}
	}
	before := lostOf(all)
	toll := coordtest.RealToll(t, e, func() {
		network.breaks(false)
		start := time.Now()
		for _, c := range cs {
			eventstest.Eventually(t, "each session is back", func() bool { return c.State() == coordinator.StateConnected })
		}
		t.Logf("all sessions are back after %v", time.Since(start))
		for s := range cs { // what is lost by a reconnect is lost within a timeout
			a := all[s*locks]
			eventstest.Eventually(t, "the lease goes on", func() bool { return !a.Valid() || a.Deadline().After(start.Add(2*timeout)) })
		}
	})
	lost := lostOf(all)
	t.Logf("%d sessions with %d locks each: %d lost before, %d lost after the reconnect; %.0f packets", sessions, locks, len(before), len(lost), toll.Packets)
	if len(before)+len(lost) > 0 {
		t.Errorf("%d and %d locks are lost, want none", len(before), len(lost))
	}
}
