package coordinator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

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

// TestManyWaitersOfASessionShareAListing: those whose nodes are there when a listing begins are served by it, when they queue up
// and after a cut. A lock that the session holds elsewhere is not lost behind them, on a connection that a listing for each would
// keep busy for longer than a session lives.
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
		var queued atomic.Int64 // which a waiter is told behind each listing
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
