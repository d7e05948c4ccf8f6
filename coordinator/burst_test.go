package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Many requests of one session at once: requests for a held lock are sent before those of
// new acquisitions.

// burst acquires n locks that have no other contenders.
func burst(c *coordinator.Coordinator, n int, options ...coordinator.AcquireOption) (all []*coordinator.Acquisition) {
	for i := range n {
		all = append(all, c.Mutex(fmt.Sprint("/burst/", i)).Acquire(context.Background(), options...))
	}
	return all
}

func granted(t *testing.T, all []*coordinator.Acquisition) {
	t.Helper()
	for _, a := range all {
		coordtest.GrantOf(t, a)
	}
}

// roundTrip is how long each request of the session takes in these tests.
const roundTrip = 50 * time.Millisecond

// TestAHandoffDoesNotWaitForABurst releases a lock after its session has queued requests
// for thousands of other locks. The session's waiter is granted it within a few round
// trips.
func TestAHandoffDoesNotWaitForABurst(t *testing.T) {
	mutex := func(c *coordinator.Coordinator) *coordinator.Lock { return c.Mutex(lockPath) }
	write := func(c *coordinator.Coordinator) *coordinator.Lock { return c.ReadWrite(lockPath).Write() }
	multi := func(c *coordinator.Coordinator) *coordinator.Lock { return mutexes(c, lockPath, accountA) }
	second := func(c *coordinator.Coordinator) *coordinator.Lock { return c.Mutex(accountA) }
	tries := []coordinator.AcquireOption{coordinator.Try()}
	type row struct {
		waits, holds func(c *coordinator.Coordinator) *coordinator.Lock
		first        bool // another holder releases first, so the waiter lists, then watches the next holder
		options      []coordinator.AcquireOption
	}
	forEach(t, map[string]row{
		"by a claim":              {mutex, mutex, false, nil},
		"by a listing":            {write, write, false, nil},
		"of several":              {multi, multi, false, nil},
		"by a watch":              {multi, second, true, nil},
		"by a listing, and tries": {write, write, false, tries}, // these list, too
	}, func(t *testing.T, srv *zktest.Server, way row) {
		long := coordinator.WithSessionTimeout(time.Minute)
		c, other := coordtest.Connect(t, srv, long), coordtest.Connect(t, srv, long)
		at, first := c, (*coordinator.Acquisition)(nil)
		if way.first {
			at = other
			first, _ = coordtest.Hold(t, mutex(other))
		}
		holder, _ := coordtest.Hold(t, way.holds(at))
		waiter := coordtest.Queue(way.waits(c))
		strike(srv, zktest.Delay(roundTrip), of(c.SessionID()))
		all := burst(c, 3000, way.options...)
		synctest.Wait()
		if way.first {
			first.Release()
			time.Sleep(6 * roundTrip)
		}
		start := time.Now()
		holder.Release()
		coordtest.GrantOf(t, waiter)
		trips := time.Since(start) / roundTrip
		expect(t, trips <= 8, "granted %d round trips after the last release, want 8 at most", trips)
		granted(t, all)
	})
}

// TestObserversHearBesideBusyCallers: at any time, some caller is about to queue.
func TestObserversHearBesideBusyCallers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		long := coordinator.WithSessionTimeout(time.Minute)
		c, other := coordtest.Connect(t, srv, long), coordtest.Connect(t, srv, long)
		ctx := t.Context()
		leaders := c.Election(coordtest.ElectionPath).Observe(ctx)
		<-leaders
		strike(srv, zktest.Delay(roundTrip), of(c.SessionID()))
		for i := range 600 {
			go func() {
				for n := 0; ; n++ {
					a := c.Mutex(fmt.Sprint("/burst/", i, "-", n%7)).Acquire(ctx)
					if _, err := a.Wait(ctx); err != nil {
						return
					}
					coordtest.End(a)
				}
			}()
		}
		time.Sleep(time.Second)
		other.Election(coordtest.ElectionPath).Acquire(ctx)
		select {
		case <-leaders:
		case <-time.After(5 * time.Second):
			t.Error("after 5s the observer has not heard of a new leader, want it within some round trips")
		}
	})
}

// The cost of many waiters of one session at one path: they share their listings.

// narrow is a network whose downlink has limited bandwidth. It counts listings.
type narrow struct {
	*faultnet.Network

	mu       sync.Mutex
	rate     int // bytes a second; 0: unlimited
	free     time.Time
	listings int
	bytes    int // of listings
}

func newNarrow(dial faultnet.Dial, rate int) *narrow {
	n := &narrow{rate: rate}
	n.Network = faultnet.New(dial, n.carry)
	return n
}

// carry delays a frame until the frames before it have been transmitted.
func (n *narrow) carry(f faultnet.Frame) faultnet.Verdict {
	if f.Direction == faultnet.Up {
		return faultnet.Pass()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.Op == zktest.OpGetChildren2 {
		n.listings++
		n.bytes += f.Size
	}
	if n.rate == 0 {
		return faultnet.Pass()
	}
	now := time.Now()
	if n.free.Before(now) {
		n.free = now
	}
	n.free = n.free.Add(time.Duration(f.Size) * time.Second / time.Duration(n.rate))
	return faultnet.HoldFor(n.free.Sub(now))
}

// take returns the counts since the last call.
func (n *narrow) take() (listings, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	listings, bytes = n.listings, n.bytes
	n.listings, n.bytes = 0, 0
	return listings, bytes
}

// nodeName has the length of a contender's name without its number.
const nodeName = "_c_00000000-0000-0000-0000-000000000000-lock-"

// shareListings queues waiters up behind other contenders, and cuts their connection.
func shareListings(t *testing.T, c *coordinator.Coordinator, link *narrow, waiters, ahead, most int) {
	t.Helper()
	held, _ := coordtest.Hold(t, c.Mutex("/locks/held"))
	var queued atomic.Int64 // a waiter gets a Queued after each listing
	stream := c.Events(t.Context())
	go func() {
		for ev := range stream {
			if _, ok := ev.(events.Queued); ok {
				queued.Add(1)
			}
		}
	}()
	one := (waiters + ahead) * (4 + len(nodeName) + 10)
	share := func(when string, ask func()) {
		t.Helper()
		queued.Store(0)
		link.take()
		ask()
		eventstest.Eventually(t, when+": each knows its place", func() bool { return int(queued.Load()) >= waiters })
		listings, bytes := link.take()
		expect(t, listings <= most && bytes <= most*(one+1<<10),
			"%s: %d listings and %d bytes, want %d and %d at most", when, listings, bytes, most, most*one)
		coordtest.NotLost(t, held)
	}
	share("queueing up", func() {
		for range waiters {
			c.Mutex(lockPath).Acquire(context.Background())
		}
	})
	share("after a cut", link.Cut)
}

// TestManyWaitersOfASessionShareAListing: with one listing per waiter, the connection
// would be busy for longer than a session lives, and a lock elsewhere would be lost.
func TestManyWaitersOfASessionShareAListing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		link := newNarrow(srv.DialContext, 4<<20)
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(6*time.Second), coordinator.WithDialer(link.Dial))
		coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		shareListings(t, c, link, eventstest.Many(2_000, 10_000), 0, 3) // for the first waiter, for most, and for the last ones
	})
}

func TestRealWaitersOfASessionShareAListing(t *testing.T) {
	eventstest.NeedsServers(t)
	queues := []struct{ waiters, ahead int }{{500, 0}, {10_000, 0}, {1_000, 60_000}}
	for _, q := range queues[:eventstest.Many(1, len(queues))] {
		t.Run(fmt.Sprintf("%d waiters behind %d nodes", q.waiters, q.ahead), func(t *testing.T) {
			e := ensemble.Start(t, 1)
			raw := coordtest.RawClient(t, e.Addr(0))
			link := newNarrow(new(net.Dialer).DialContext, 0)
			t.Cleanup(link.Close)
			c := coordtest.ConnectReal(t, e.Connect(),
				coordinator.WithSessionTimeout(6*time.Second), coordinator.WithDialer(link.Dial))
			coordtest.HoldReal(t, coordtest.ConnectReal(t, e.Connect()).Mutex(lockPath))
			open := zk.WorldACL(zk.PermAll)
			node := &zk.CreateRequest{Path: lockPath + "/" + nodeName, Acl: open, Flags: zk.FlagSequence}
			for range q.ahead / 1000 {
				_, err := raw.Multi(slices.Repeat([]any{node}, 1000)...)
				eventstest.Must(t, err)
			}
			shareListings(t, c, link, q.waiters, q.ahead, 8)
		})
	}
}

// Contenders with much data, which every walk reads.

// TestAWalkLeavesTheLinkToLocks: a walk that reads much data over a narrow link costs no
// lease.
func TestAWalkLeavesTheLinkToLocks(t *testing.T) {
	const length, locks, link, timeout = 90 << 10, 90, 6 << 20 / 10, 10 * time.Second
	type row struct {
		short int
		node  string
	}
	forEach(t, map[string]row{
		"locks":              {0, "/locks/%03d/lock-0000000000"},
		"a queue":            {0, "/locks/queue/lock-%010d"},
		"a queue in a crowd": {30, "/locks/queue/lock-%010d"},
	}, func(t *testing.T, srv *zktest.Server, has row) {
		for i := range has.short {
			eventstest.Must(t, srv.Create(fmt.Sprintf("/locks/%03d/lock-0000000000", i), nil))
		}
		for i := range locks {
			eventstest.Must(t, srv.Create(fmt.Sprintf(has.node, i), make([]byte, length)))
		}
		narrow := coordinator.WithDialer(newNarrow(srv.DialContext, link).Dial)
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout), narrow)
		held, _ := coordtest.Hold(t, c.Mutex("/held"))
		least, walked := timeout, make(chan struct{})
		go func() {
			defer close(walked)
			n, bytes := 0, 0
			for info, err := range c.Locks(t.Context(), "/locks") {
				eventstest.Check(t, err)
				for _, contender := range info.Contenders {
					n++
					bytes += len(contender.Data)
				}
			}
			expect(t, n == has.short+locks && bytes == locks*length, "it finds %d, %d bytes", n, bytes)
		}()
		for walking := true; walking; {
			select {
			case <-walked:
				walking = false
			case <-time.After(10 * time.Millisecond):
				least = min(least, time.Until(held.Deadline()))
			case loss := <-held.Lost():
				t.Fatalf("the lock is lost: %+v", loss)
			}
		}
		expect(t, least >= timeout/2, "%v of a lease of %v were left, want half of it", least, timeout)
	})
}

// TestPollKeepsNoLongData: only waiters with more than 4 KiB of data are read again.
func TestPollKeepsNoLongData(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const most = 4 << 10
		c := coordtest.Connect(t, srv)
		coordtest.Hold(t, c.Mutex("/locks/poll"))
		sizes := []int{0, 1, most - 512, most + 1, 900 << 10}
		for _, size := range sizes {
			coordtest.Queue(c.Mutex("/locks/poll"), coordinator.Data(make([]byte, size)))
		}
		walk := c.Poll("/locks")
		for _, want := range []int{1 + len(sizes), 1 + 2, 1 + 2} {
			before, seen := srv.Requests(zktest.OpGetData), []int{}
			for info, err := range walk(t.Context()) {
				eventstest.Check(t, err)
				for _, contender := range info.Contenders[1:] {
					seen = append(seen, len(contender.Data))
				}
			}
			got := srv.Requests(zktest.OpGetData) - before
			expect(t, got == want && slices.Equal(seen, sizes),
				"a walk reads %d nodes, and finds waiters with %v bytes; want %d and %v", got, seen, want, sizes)
		}
	})
}
