package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"strings"
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

// Many requests of one session at once: requests for a lock that is held go before those of new acquisitions.

// inTheBurst is where the locks of a burst are.
const inTheBurst = "/burst/"

// burst asks for n locks without other contenders.
func burst(c *coordinator.Coordinator, n int, options ...coordinator.AcquireOption) (all []*coordinator.Acquisition) {
	for i := range n {
		all = append(all, c.Mutex(fmt.Sprint(inTheBurst, i)).Acquire(context.Background(), options...))
	}
	return all
}

// granted waits until each one is granted.
func granted(t *testing.T, all []*coordinator.Acquisition) {
	t.Helper()
	for i, a := range all {
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatalf("acquisition %d of %d ends with %v, want a grant", i, len(all), err)
		}
	}
}

// handoffs are ways in which a lock goes from one session to a waiter, by the requests for it.
func handoffs() map[string]func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
	return map[string]func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock){
		"by a claim": func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
			return c.Mutex(lockPath), c.Mutex(lockPath)
		},
		"by a listing": func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
			return c.ReadWrite(lockPath).Write(), c.ReadWrite(lockPath).Write()
		},
		"of several": func(c *coordinator.Coordinator) (holds, waits *coordinator.Lock) {
			return c.Multi(c.Mutex(lockPath), c.Mutex(accountA)), c.Multi(c.Mutex(lockPath), c.Mutex(accountA))
		},
	}
}

// TestAHandoffDoesNotWaitForABurst: a session asks for a thousand locks, releases another one, and has that granted to a waiter of
// its own. Each request for that goes before the requests of the burst that have not been sent yet.
func TestAHandoffDoesNotWaitForABurst(t *testing.T) {
	const (
		locks = 1000
		rtt   = 50 * time.Millisecond
	)
	for name, handoff := range handoffs() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				holds, waits := handoff(c)
				holder, _ := coordtest.Hold(t, holds)
				waiter := coordtest.Queue(waits)
				var inBurst atomic.Int32
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op != zktest.OpCreateContainer && strings.HasPrefix(r.Path, inTheBurst) {
						inBurst.Add(1)
					}
					return zktest.Delay(rtt)
				})
				all := burst(c, locks)
				synctest.Wait()
				before := int(inBurst.Load())
				holder.Release()
				grant, err := waiter.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				// What was sent before is answered before; meanwhile others of the burst take its place.
				if got, most := int(inBurst.Load())-before, locks/2; got > most {
					t.Errorf("%d requests of the burst are made before the waiter is granted the lock after %v, want at most %d", got, grant.Waited, most)
				}
				granted(t, all)
			})
		})
	}
}

// TestLoopsLeaveRoomForOthers: more callers than there is room for have a lock each, release it and ask for it again, in a loop. A
// new caller is granted another lock all the same.
func TestLoopsLeaveRoomForOthers(t *testing.T) {
	const (
		callers = 600
		rtt     = 50 * time.Millisecond
	)
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		for range 2 { // the session that makes a directory learns from the next listing that it is ours
			for _, a := range burst(c, callers) {
				if _, err := a.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				coordtest.End(a)
			}
		}
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(rtt) })
		ctx, stop := context.WithCancel(t.Context())
		for i := range callers {
			go func() {
				l := c.Mutex(fmt.Sprint(inTheBurst, i))
				for a := l.Acquire(ctx); ; {
					if _, err := a.Wait(ctx); err != nil {
						return
					}
					a.Release()
					a = l.Acquire(ctx)
				}
			}()
		}
		time.Sleep(10 * rtt)
		start := time.Now()
		a, _ := coordtest.Hold(t, c.Mutex("/locks/anew"))
		if took, most := time.Since(start), 20*rtt; took > most {
			t.Errorf("a lock is granted after %v beside the loops, want at most %v", took, most)
		}
		a.Release()
		stop()
	})
}

// TestRealHandoffBehindABurst is the same on a real server: a waiter in another session is granted the lock long before the last
// lock of the burst.
func TestRealHandoffBehindABurst(t *testing.T) {
	eventstest.NeedsServers(t)
	locks := eventstest.Many(5_000, 20_000)
	e := largeServer(t)
	c := coordtest.ConnectReal(t, e.Addr(0), coordinator.WithNodeBudget(locks*100)) // nobody starts this server again
	other := coordtest.ConnectReal(t, e.Addr(0))
	holder := c.Mutex("/real/burst/lock").Acquire(context.Background())
	coordtest.GrantOf(t, holder)
	waiter := other.Mutex("/real/burst/lock").Acquire(context.Background())
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), "/real/burst/lock", 2)

	all := burst(c, locks)
	start := time.Now()
	holder.Release()
	coordtest.GrantOf(t, waiter)
	took := time.Since(start)
	for _, a := range all {
		coordtest.GrantOf(t, a)
	}
	whole := time.Since(start)
	t.Logf("the next holder %v after the release; the last of %d others after %v", took, locks, whole)
	if took > whole/8 {
		t.Errorf("the next holder has the lock %v after its release, want it within an eighth of the %v that the burst takes", took, whole)
	}
	for _, a := range all {
		a.Release()
	}
	waiter.Release()
	for _, a := range all {
		eventstest.Receive(t, a.Done(), "the end of a lock of the burst")
	}
}

// roundTrip is what each request of the session takes in the tests below.
const roundTrip = 50 * time.Millisecond

// slowly has each request of the coordinator's session take a round trip.
func slowly(srv *zktest.Server, c *coordinator.Coordinator) {
	id := c.SessionID()
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session == id {
			return zktest.Delay(roundTrip)
		}
		return zktest.Pass()
	})
}

// handsOver releases the lock and has the waiter granted within a few round trips.
func handsOver(t *testing.T, holder, waiter *coordinator.Acquisition) {
	t.Helper()
	start := time.Now()
	holder.Release()
	_, err := waiter.Wait(t.Context())
	eventstest.Must(t, err)
	if trips := time.Since(start) / roundTrip; trips > 8 {
		t.Errorf("the waiter is granted %d round trips after the last release, want at most 8", trips)
	}
}

// TestAHandoffThatListsDoesNotWaitForABurst: a writer behind a writer lists when its turn may have come. Tries at other paths look
// first, which is a listing as well.
func TestAHandoffThatListsDoesNotWaitForABurst(t *testing.T) {
	for name, options := range map[string][]coordinator.AcquireOption{"acquires": nil, "tries": {coordinator.Try()}} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				holder, _ := coordtest.Hold(t, c.ReadWrite(lockPath).Write())
				waiter := coordtest.Queue(c.ReadWrite(lockPath).Write())
				slowly(srv, c)
				all := burst(c, 3000, options...)
				synctest.Wait()
				handsOver(t, holder, waiter)
				granted(t, all)
			})
		})
	}
}

// TestAWatchBehindAListingDoesNotWaitForABurst: a multi-lock waits for two holders. One releases, and it watches the other one;
// then that one releases.
func TestAWatchBehindAListingDoesNotWaitForABurst(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		other := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		first, _ := coordtest.Hold(t, other.Mutex(lockPath))
		second, _ := coordtest.Hold(t, other.Mutex(accountA))
		waiter := coordtest.Queue(c.Multi(c.Mutex(lockPath), c.Mutex(accountA)))
		slowly(srv, c)
		all := burst(c, 3000)
		synctest.Wait()
		first.Release()
		time.Sleep(6 * roundTrip)
		handsOver(t, second, waiter)
		granted(t, all)
	})
}

// TestObserversHearBesideBusyCallers: there is always a caller that is about to queue, and the election is observed all the same.
func TestObserversHearBesideBusyCallers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		other := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		leaders := c.Election(coordtest.ElectionPath).Observe(ctx)
		<-leaders
		slowly(srv, c)
		for i := range 600 {
			go func() {
				for n := 0; ; n++ {
					a := c.Mutex(fmt.Sprint(inTheBurst, i, "-", n%7)).Acquire(ctx)
					if _, err := a.Wait(ctx); err != nil {
						return
					}
					a.Release()
					<-a.Done()
				}
			}()
		}
		time.Sleep(time.Second)
		other.Election(coordtest.ElectionPath).Campaign(ctx)
		select {
		case <-leaders:
		case <-time.After(5 * time.Second):
			t.Error("beside 600 busy callers the observer has not heard of a new leader after 5s, want it within some round trips")
		}
	})
}

// What many waiters of one session at one path cost: their listings are shared.

// narrow is a network that carries so many bytes a second to the client, and counts them.
type narrow struct {
	*faultnet.Network

	mu       sync.Mutex
	rate     int // bytes a second
	free     time.Time
	listings int
	bytes    int // of listings
}

func newNarrow(srv *zktest.Server, rate int) *narrow {
	n := &narrow{rate: rate}
	n.Network = faultnet.New(srv.DialContext, n.carry)
	return n
}

// carry delivers a frame when those before it have had their time.
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
	now := time.Now()
	if n.free.Before(now) {
		n.free = now
	}
	n.free = n.free.Add(time.Duration(f.Size) * time.Second / time.Duration(n.rate))
	return faultnet.HoldFor(n.free.Sub(now))
}

// take returns what was counted since the last time.
func (n *narrow) take() (listings, bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	listings, bytes = n.listings, n.bytes
	n.listings, n.bytes = 0, 0
	return listings, bytes
}

// TestManyWaitersOfASessionShareAListing: a listing serves the waiters of which the node exists when it begins, when they queue and
// after a cut. The session does not lose a lock elsewhere because of them. With a listing for each waiter, the connection would be
// busy for longer than a session lives.
func TestManyWaitersOfASessionShareAListing(t *testing.T) {
	const timeout = 6 * time.Second
	waiters := eventstest.Many(2_000, 10_000)
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		link := newNarrow(srv, 4<<20)
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(link.Dial))
		held, _ := coordtest.Hold(t, c.Mutex("/locks/held"))
		coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		link.take()
		var queued atomic.Int64 // a waiter is told Queued after each listing
		stream := c.Events(t.Context())
		go func() {
			for ev := range stream {
				if _, ok := ev.(events.Queued); ok {
					queued.Add(1)
				}
			}
		}()
		one := waiters * (4 + len("_c_00000000-0000-0000-0000-000000000000-lock-0000000000"))
		share := func(when string, ask func()) {
			t.Helper()
			queued.Store(0)
			ask()
			eventstest.Eventually(t, when+", each waiter knows its place", func() bool {
				synctest.Wait()
				return int(queued.Load()) >= waiters
			})
			listings, bytes := link.take()
			t.Logf("%s: %d listings, %d bytes", when, listings, bytes)
			if listings > 3 || bytes > 3*(one+1<<10) { // of the first, of most, and of the last ones
				t.Errorf("%s, %d waiters took %d listings and %d bytes, want at most 3, and %d bytes", when, waiters, listings, bytes, 3*one)
			}
			coordtest.NotLost(t, held)
		}
		share("queueing up", func() {
			for range waiters {
				c.Mutex(lockPath).Acquire(context.Background())
			}
		})
		share("after a cut", link.Cut)
	})
}

// gauge counts the bytes that a client reads, and can cut its connection.
type gauge struct {
	read atomic.Int64
	mu   sync.Mutex
	now  net.Conn
}

type gauged struct {
	net.Conn
	gauge *gauge
}

func (g *gauge) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = conn
	return gauged{conn, g}, nil
}

func (c gauged) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gauge.read.Add(int64(n))
	return n, err
}

func (g *gauge) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.now.Close()
}

// TestRealWaitersOfASessionShareAListing is TestManyWaitersOfASessionShareAListing with a real server, and at full length with more
// waiters, and with some behind a long queue of others.
func TestRealWaitersOfASessionShareAListing(t *testing.T) {
	eventstest.NeedsServers(t)
	queues := []struct{ waiters, ahead int }{{500, 0}, {10_000, 0}, {1_000, 60_000}}
	for _, q := range queues[:eventstest.Many(1, len(queues))] {
		t.Run(fmt.Sprintf("%d waiters behind %d nodes", q.waiters, q.ahead), func(t *testing.T) {
			realWaiters(t, q.waiters, q.ahead)
		})
	}
}

func realWaiters(t *testing.T, waiters, ahead int) {
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	var link gauge
	c := coordtest.ConnectReal(t, e.Connect(), coordinator.WithSessionTimeout(6*time.Second), coordinator.WithDialer(link.dial))
	held, _ := coordtest.Hold(t, c.Mutex("/locks/held"))
	coordtest.Hold(t, coordtest.ConnectReal(t, e.Connect()).Mutex(lockPath))
	name := "_c_00000000-0000-0000-0000-000000000000-lock-"
	for left := ahead; left > 0; {
		ops := make([]any, min(left, 1000))
		for i := range ops {
			ops[i] = &zk.CreateRequest{Path: lockPath + "/" + name, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}
		}
		if _, err := raw.Multi(ops...); err != nil {
			t.Fatal(err)
		}
		left -= len(ops)
	}
	var queued atomic.Int64
	stream := c.Events(t.Context())
	go func() {
		for ev := range stream {
			if _, ok := ev.(events.Queued); ok {
				queued.Add(1)
			}
		}
	}()
	one := int64((waiters + ahead) * (4 + len(name) + 10))
	share := func(when string, ask func()) {
		t.Helper()
		queued.Store(0)
		before, began := link.read.Load(), time.Now()
		ask()
		eventstest.Eventually(t, when+", each waiter knows its place", func() bool { return int(queued.Load()) >= waiters })
		read := link.read.Load() - before
		t.Logf("%s: %d bytes in %v; a listing has %d", when, read, time.Since(began).Round(time.Millisecond), one)
		if most := 8*one + int64(waiters)*1000; read > most {
			t.Errorf("%s, %d waiters read %d bytes, want at most %d", when, waiters, read, most)
		}
		coordtest.NotLost(t, held)
	}
	share("queueing up", func() {
		for range waiters {
			c.Mutex(lockPath).Acquire(context.Background())
		}
	})
	share("after a cut", link.cut)
}
