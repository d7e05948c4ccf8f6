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

// TestLocalContendersHandACachedLockOn: in the order in which they asked, with one node, and without a request each.
func TestLocalContendersHandACachedLockOn(t *testing.T) {
	const many, few = 1000, 12
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		for name, most := range map[string]int32{"first": few, "kept": 0} {
			l := cachedAt(c)
			if name == "kept" {
				kept(t, c)
			}
			traffic := coordtest.Traffic(srv)
			all := waiters(l, many)
			last := coordtest.Soon(t, all[0])
			for i, a := range all[1:] {
				if a.Valid() {
					t.Fatalf("%s: contender %d holds beside the one before", name, i+1)
				}
				all[i].Release()
				g := coordtest.Soon(t, a)
				if !later(g, last) || g.Token != last.Token || g.Node != last.Node || g.ID != a.ID() {
					t.Fatalf("%s: contender %d is granted %+v after %+v, want the next turn of one node", name, i+1, g, last)
				}
				last = g
			}
			all[many-1].Release()
			<-all[many-1].Done()
			synctest.Wait()
			if got := traffic.Load(); got > most {
				t.Errorf("%s: %d handoffs took %d requests, want %d at most", name, many, got, most)
			}
		}
	})
}

// TestALocalWaiterMayEndItsWait: by a context, after a time, or by a release. The others have their turn as before.
func TestALocalWaiterMayEndItsWait(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		traffic := coordtest.Traffic(srv)
		holder, _ := coordtest.Hold(t, l)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("a reason")
		cancelled := l.Acquire(ctx)
		first := l.Acquire(t.Context())
		released := l.Acquire(t.Context())
		timed := l.Acquire(t.Context(), coordinator.WithMaxWait(time.Second))
		ended := l.Acquire(ctx)
		last := l.Acquire(t.Context())
		synctest.Wait()
		cancel(reason)
		released.Release()
		synctest.Wait()
		for name, test := range map[string]struct {
			a    *coordinator.Acquisition
			want error
		}{
			"the context of the first of them": {cancelled, reason}, "a context": {ended, reason}, "a release": {released, coordinator.ErrNotAcquired},
		} {
			if err := test.a.Err(); !coordtest.IsClosed(test.a.Done()) || !errors.Is(err, test.want) {
				t.Errorf("%s: ends with %v, want %v at once", name, err, test.want)
			}
		}
		if coordtest.IsClosed(timed.Done()) {
			t.Error("the wait of a second ends before, want it to last")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := timed.Err(); !errors.Is(err, coordinator.ErrTimeout) {
			t.Errorf("after a second: %v, want ErrTimeout", err)
		}
		late := l.Acquire(ctx) // its context has ended
		if <-late.Done(); !errors.Is(late.Err(), reason) {
			t.Errorf("with a context that has ended: %v, want its cause", late.Err())
		}
		holder.Release()
		coordtest.Soon(t, first)
		if last.Valid() {
			t.Error("the last one holds beside the first")
		}
		first.Release()
		coordtest.Soon(t, last)
		coordtest.End(last)
		synctest.Wait()
		if got := traffic.Load(); got > 1 { // the probe of a second
			t.Errorf("that took %d requests, want one at most", got)
		}
		wantNodes(t, srv, 1, "when all have left")
	})
}

// TestAWaiterThatLeavesBeforeTheNodeComes: when every waiter leaves there is no node, and no Grant.
func TestAWaiterThatLeavesBeforeTheNodeComes(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		stranger, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		l := cachedAt(coordtest.Connect(t, srv))
		all := waiters(l, 3)
		wantNodes(t, srv, 2, "with three that wait")
		for _, a := range all {
			coordtest.End(a)
			if err := a.Err(); !errors.Is(err, coordinator.ErrNotAcquired) {
				t.Errorf("withdrawn: %v, want ErrNotAcquired", err)
			}
		}
		wantNodes(t, srv, 1, "when they have left")
		all = waiters(l, 2)
		all[0].Release()
		stranger.Release()
		coordtest.Soon(t, all[1])
		coordtest.End(all[1])
	})
}

// TestTryOfACachedLock: it succeeds if there is no holder and no waiter, and never waits.
func TestTryOfACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		coordtest.Warm(t, c)
		l := cachedAt(c)
		try := func(when string, l *coordinator.Lock, want error, requests int32) {
			t.Helper()
			synctest.Wait()
			traffic, began := coordtest.Traffic(srv), time.Now()
			a := l.Acquire(t.Context(), coordinator.Try())
			if _, err := a.Wait(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", when, err, want)
			}
			coordtest.End(a)
			synctest.Wait()
			if got, took := traffic.Load(), time.Since(began); got > requests || took > 0 {
				t.Errorf("%s: it took %d requests and %v, want %d at most at once", when, got, took, requests)
			}
		}
		try("free", l, nil, 4)
		try("free again", l, nil, 4)
		try("idle", l, nil, 0)
		time.Sleep(10 * time.Second)
		try("resting", l, nil, 1)
		a, _ := coordtest.Hold(t, l)
		try("held here", l, coordinator.ErrNotAcquired, 0)
		waiter := l.Acquire(t.Context())
		a.Release()
		coordtest.Soon(t, waiter)
		coordtest.End(waiter)
		cycle(t, c.Mutex(lockPath))
		wantNodes(t, srv, 0, "when the idle node was wanted")
		held, _ := coordtest.Hold(t, other)
		try("held elsewhere", l, coordinator.ErrNotAcquired, 3)
		waits := coordtest.Queue(l)
		try("waited for here", l, coordinator.ErrNotAcquired, 0)
		coordtest.End(held)
		coordtest.Soon(t, waits)
		coordtest.End(waits)
	})
}

// TestATryIsNotWaitedFor: a waiter gets its place, and its turn, also if it joined an acquisition that only tried.
func TestATryIsNotWaitedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		held, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		try := l.Acquire(t.Context(), coordinator.Try())
		waits := l.Acquire(t.Context())
		if <-try.Done(); !errors.Is(try.Err(), coordinator.ErrNotAcquired) {
			t.Errorf("Try while another one holds: %v, want ErrNotAcquired", try.Err())
		}
		wantNodes(t, srv, 2, "with one that holds and one that waits")
		coordtest.End(held)
		coordtest.Soon(t, waits)
		coordtest.End(waits)
	})
}

// TestACachedLockIsEnteredAgain: with the holder's node and turn. The next contender has its turn after the last release.
func TestACachedLockIsEnteredAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Reentrant())
		traffic := coordtest.Traffic(srv)
		all := nested(t, l, 3)
		outer := all[0].Grant()
		next := coordtest.Queue(l)
		for _, a := range all[1:] {
			if g := a.Grant(); g.Token != outer.Token || g.Turn != outer.Turn || g.Node != outer.Node || g.ID != a.ID() {
				t.Errorf("entered again it is granted %+v, want the node and the turn of %+v", g, outer)
			}
		}
		for i, a := range all {
			if !a.Valid() || next.Valid() {
				t.Errorf("with %d released the next one is valid: %v, and the last: %v", i, a.Valid(), next.Valid())
			}
			coordtest.End(a)
		}
		if g := coordtest.Soon(t, next); g.Token != outer.Token || g.Turn != outer.Turn+1 {
			t.Errorf("after the last release %+v is granted, want the turn after %+v", g, outer)
		}
		if got := traffic.Load(); got != 0 {
			t.Errorf("that took %d requests, want none", got)
		}
		again := c.Mutex(lockPath, coordinator.Cached()).Acquire(next.Context(t.Context()))
		if <-again.Done(); !errors.Is(again.Err(), coordinator.ErrDeadlock) {
			t.Errorf("a handle that is not reentrant, inside: %v, want ErrDeadlock", again.Err())
		}
		coordtest.End(next)
	})
}

// TestAnEntryIsNoLongerThanTheLock: an acquisition that comes after the release waits for its turn like any other.
func TestAnEntryIsNoLongerThanTheLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv), coordinator.Reentrant())
		a, g := coordtest.Hold(t, l)
		ctx := context.WithoutCancel(a.Context(t.Context()))
		coordtest.End(a)
		other, _ := coordtest.Hold(t, l)
		late := l.Acquire(ctx)
		synctest.Wait()
		if late.Valid() {
			t.Error("it enters after the release, beside the next holder")
		}
		coordtest.End(other)
		if got := coordtest.Soon(t, late); got.Turn != g.Turn+2 {
			t.Errorf("it is granted %+v, want a turn of its own, two after %+v", got, g)
		}
		coordtest.End(late)
	})
}

// TestLocalContendersKeepTheirOrder when another contender comes: some wait for the node that is handed on, and queue behind the
// other contender when the time is up. Others queue at once. Those have come later.
func TestLocalContendersKeepTheirOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		l := c.Mutex(coordtest.LockPath, coordinator.Cached(coordinator.CacheHandoffs(6), coordinator.CacheFor(50*time.Millisecond)))
		for range 2 {
			a, _ := coordtest.Hold(t, l)
			coordtest.End(a)
			synctest.Wait()
		}
		holder, _ := coordtest.Hold(t, l)
		var waiting []*coordinator.Acquisition
		for range 10 {
			waiting = append(waiting, l.Acquire(t.Context()))
		}
		stranger := other.Mutex(coordtest.LockPath).Acquire(t.Context())
		synctest.Wait()
		coordtest.End(holder)
		before := 0
		var last events.Grant
		for i, a := range waiting {
			if i == 3 {
				coordtest.Soon(t, stranger)
				before = i
				coordtest.End(stranger)
			}
			g := coordtest.Soon(t, a)
			if i > 0 && !later(g, last) {
				t.Errorf("waiter %d has %+v, want it after %+v", i, g, last)
			}
			last = g
			time.Sleep(20 * time.Millisecond)
			coordtest.End(a)
			synctest.Wait()
		}
		if before != 3 {
			t.Errorf("the other contender came after %d local ones, want 3 in the 50 ms", before)
		}
	})
}
