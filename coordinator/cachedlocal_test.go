package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What the contenders of one coordinator see of each other at a cached lock.

// TestLocalContendersHandACachedLockOn in the order of their calls, without a request
// each.
func TestLocalContendersHandACachedLockOn(t *testing.T) {
	const many, few = 1000, 12
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		for name, most := range map[string]int32{"first": few, "kept": 0} {
			if name == "kept" {
				cycle(t, l)
				cycle(t, l)
			}
			traffic := coordtest.Traffic(srv)
			grants := inTurn(t, events.Grant{}, waiters(l, many)...)
			for i, g := range grants {
				expect(t, g.Token == grants[0].Token && g.Node == grants[0].Node && g.Turn == grants[0].Turn+uint64(i),
					"%s: contender %d is granted %+v after %+v, want the next turn of one node", name, i, g, grants[0])
			}
			synctest.Wait()
			expect(t, traffic.Load() <= most,
				"%s: %d handoffs took %d requests, want %d at most", name, many, traffic.Load(), most)
		}
	})
}

// TestALocalWaiterMayEndItsWait by a context, after a time, or by a release.
func TestALocalWaiterMayEndItsWait(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		traffic := coordtest.Traffic(srv)
		holder, g := coordtest.Hold(t, l)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("a reason")
		cancelled, first, released := l.Acquire(ctx), l.Acquire(t.Context()), l.Acquire(t.Context())
		timed := l.Acquire(t.Context(), coordinator.WithMaxWait(time.Second))
		ended, last := l.Acquire(ctx), l.Acquire(t.Context())
		synctest.Wait()
		cancel(reason)
		released.Release()
		late := l.Acquire(ctx) // its context has ended
		synctest.Wait()
		expect(t, !coordtest.IsClosed(timed.Done()), "the wait of a second ends before, want it to last")
		over := func(name string, a *coordinator.Acquisition, want error) {
			t.Helper()
			expect(t, coordtest.IsClosed(a.Done()), "%s: the wait goes on, want it over at once", name)
			expectError(t, a.Err(), want, name)
		}
		over("the context of the first of them", cancelled, reason)
		over("a context", ended, reason)
		over("a context that has ended", late, reason)
		over("a release", released, coordinator.ErrNotAcquired)
		time.Sleep(time.Second)
		synctest.Wait()
		over("after a second", timed, coordinator.ErrTimeout)
		coordtest.End(holder)
		inTurn(t, g, first, last)
		synctest.Wait()
		expect(t, traffic.Load() <= 1, "that took %d requests, want one at most", traffic.Load()) // the probe of a second
		wantNodes(t, srv, 1, "when all have left")
	})
}

// TestTryOfACachedLock: it succeeds if there is no holder and no waiter, and never waits.
func TestTryOfACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		coordtest.Warm(t, c)
		l := cachedAt(c)
		try := func(when string, want error, requests int32) {
			t.Helper()
			synctest.Wait()
			traffic, began := coordtest.Traffic(srv), time.Now()
			a := l.Acquire(t.Context(), coordinator.Try())
			_, err := a.Wait(t.Context())
			expectError(t, err, want, when)
			coordtest.End(a)
			synctest.Wait()
			expect(t, traffic.Load() <= requests && time.Since(began) == 0,
				"%s: it took %d requests and %v, want %d at most at once",
				when, traffic.Load(), time.Since(began), requests)
		}
		try("free", nil, 4)
		try("free again", nil, 4)
		try("idle", nil, 0)
		time.Sleep(10 * time.Second)
		try("resting", nil, 1)
		a, g := coordtest.Hold(t, l)
		try("held here", coordinator.ErrNotAcquired, 0)
		waiter := l.Acquire(t.Context())
		a.Release()
		inTurn(t, g, waiter)
		cycle(t, c.Mutex(lockPath))
		wantNodes(t, srv, 0, "when the idle node was wanted")
		held, g := coordtest.Hold(t, other)
		try("held elsewhere", coordinator.ErrNotAcquired, 3)
		waits := coordtest.Queue(l)
		try("waited for here", coordinator.ErrNotAcquired, 0)
		coordtest.End(held)
		inTurn(t, g, waits)
	})
}

// TestATryIsNotWaitedFor by a waiter that has joined it.
func TestATryIsNotWaitedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		held, g := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		try := l.Acquire(t.Context(), coordinator.Try())
		waits := l.Acquire(t.Context())
		expectError(t, coordtest.EndOf(t, try), coordinator.ErrNotAcquired, "Try while another one holds")
		wantNodes(t, srv, 2, "with one that holds and one that waits")
		coordtest.End(held)
		inTurn(t, g, waits)
	})
}

// TestATryGetsALockThatIsCachedElsewhereAndIdle: it waits until an idle node would have
// gone.
func TestATryGetsALockThatIsCachedElsewhereAndIdle(t *testing.T) {
	for _, held := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			l, other := kept(t, coordtest.Connect(t, srv)), coordtest.Connect(t, srv)
			if held {
				coordtest.Hold(t, l)
			}
			began := time.Now()
			_, err := other.Mutex(lockPath).Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
			took := time.Since(began)
			if !held {
				expectError(t, err, nil, "a try of a lock that is idle elsewhere")
				return
			}
			expectError(t, err, coordinator.ErrNotAcquired, "a try of a lock that is held elsewhere")
			expect(t, took >= 50*time.Millisecond && took <= 60*time.Millisecond,
				"a try of a lock that is held elsewhere took %v, want the 50 ms of the bound", took)
		})
	}
}

// TestACachedLockIsEnteredAgain with the holder's node and turn, until the last release.
func TestACachedLockIsEnteredAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Reentrant())
		traffic := coordtest.Traffic(srv)
		all := nested(t, l, 3)
		outer := all[0].Grant()
		late := context.WithoutCancel(all[0].Context(t.Context()))
		next := coordtest.Queue(l)
		for _, a := range all[1:] {
			g := a.Grant()
			expect(t, g.Token == outer.Token && g.Turn == outer.Turn && g.Node == outer.Node && g.ID == a.ID(),
				"entered again it is granted %+v, want the node and the turn of %+v", g, outer)
		}
		for i, a := range all {
			expect(t, a.Valid() && !next.Valid(), "with %d released the next one is valid: %v, and the last: %v",
				i, next.Valid(), a.Valid())
			coordtest.End(a)
		}
		coordtest.Soon(t, next)
		again := c.Mutex(lockPath, coordinator.Cached()).Acquire(next.Context(t.Context()))
		expectError(t, coordtest.EndOf(t, again), coordinator.ErrDeadlock, "a handle that is not reentrant, inside")
		behind := l.Acquire(late)
		synctest.Wait()
		expect(t, !behind.Valid(), "it enters after the release, beside the next holder")
		for i, g := range inTurn(t, outer, next, behind) {
			expect(t, g.Token == outer.Token && g.Turn == outer.Turn+1+uint64(i),
				"after the last release %+v is granted, want turn %d after %+v", g, i+1, outer)
		}
		expect(t, traffic.Load() == 0, "that took %d requests, want none", traffic.Load())
	})
}

// TestLocalContendersKeepTheirOrder: waiters for the node queue behind another contender
// when the time is up, and before later ones that had to queue at once.
func TestLocalContendersKeepTheirOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(6), coordinator.CacheFor(50*time.Millisecond)))
		holder, last := coordtest.Hold(t, l)
		waiting := waiters(l, 10)
		stranger := coordtest.Queue(other)
		coordtest.End(holder)
		for i, a := range waiting {
			if i == 3 {
				coordtest.Soon(t, stranger)
				coordtest.End(stranger)
			}
			g := coordtest.Soon(t, a)
			expect(t, later(g, last), "waiter %d has %+v, want it after %+v", i, g, last)
			last = g
			time.Sleep(20 * time.Millisecond)
			coordtest.End(a)
			synctest.Wait()
		}
	})
}
