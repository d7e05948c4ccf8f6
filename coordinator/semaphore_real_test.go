package coordinator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealSemaphore has workers of three sessions, each behind a server of its own, want one to
// three of five permits: never more are held than there are, and in the end none is.
func TestRealSemaphore(t *testing.T) {
	const size, workers, rounds = 5, 12, 15
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	var sems []*coordinator.Semaphore
	for i := range 3 {
		sems = append(sems, coordtest.ConnectReal(t, e.Addr(i)).Semaphore(semPath, size))
	}
	var wait sync.WaitGroup
	var held, most atomic.Int64
	for i := range workers {
		s := sems[i%len(sems)]
		wait.Go(func() {
			for round := range rounds {
				n := 1 + (i+round)%3
				a := s.Acquire(ctx, coordinator.WithPermits(n))
				if _, err := a.Wait(ctx); err != nil {
					t.Error(err)
					return
				}
				now := held.Add(int64(n))
				if now > size || !a.Valid() {
					t.Errorf("%d of %d permits are held, valid %v", now, size, a.Valid())
				}
				for seen := most.Load(); seen < now && !most.CompareAndSwap(seen, now); {
					seen = most.Load()
				}
				held.Add(int64(-n))
				a.Release()
			}
		})
	}
	wait.Wait()
	t.Logf("at most %d were held", most.Load())
	raw := coordtest.RawClient(t, e.Addr(0))
	coordtest.Queued(t, raw, semQueue, 0)
	coordtest.Queued(t, raw, semLeases, 0)
}

// TestRealSemaphoreFaults are the things that happen to one, on a real server.
func TestRealSemaphoreFaults(t *testing.T) {
	e := ensemble.Start(t, 1)
	ctx := coordtest.RealContext(t)
	a, b := coordtest.ConnectReal(t, e.Connect()), coordtest.ConnectReal(t, e.Connect())
	raw := coordtest.RawClient(t, e.Addr(0))
	s := a.Semaphore(semPath, 4)
	take := func(s *coordinator.Semaphore, n, waiting int) *coordinator.Acquisition {
		t.Helper()
		a := s.Acquire(ctx, coordinator.WithPermits(n))
		coordtest.Queued(t, raw, semQueue, waiting)
		return a
	}
	first := take(s, 3, 0)
	if grant := coordtest.GrantOf(t, first); grant.Token == 0 {
		t.Errorf("granted %+v", grant)
	}
	wantEnd(t, b.Semaphore(semPath, 5).Acquire(ctx), coordinator.ErrSizeMismatch)
	wantEnd(t, b.Semaphore(semPath, 5).Acquire(ctx, coordinator.Try()), coordinator.ErrSizeMismatch)
	wantEnd(t, s.Acquire(ctx, coordinator.Try(), coordinator.WithPermits(2)), coordinator.ErrNotAcquired)

	// The place of one who waits is deleted: it queues up again, behind another.
	second := take(s, 2, 1)
	third := take(b.Semaphore(semPath, 4), 4, 2)
	if err := raw.Delete(semQueue+"/"+coordtest.QueueOf(t, raw, semQueue)[0], -1); err != nil {
		t.Fatal(err)
	}
	coordtest.Queued(t, raw, semQueue, 2)

	// The size grows, and lets nobody in who wants too many.
	if err := s.Resize(ctx, 6); err != nil {
		t.Fatal(err)
	}
	coordtest.NotLost(t, first)
	if _, stat, err := raw.Get(semSize); err != nil || stat.Version != 1 {
		t.Error(stat, err)
	}
	// And once more, by hand.
	if _, err := raw.Set(semSize, []byte("7"), -1); err != nil {
		t.Fatal(err)
	}
	coordtest.GrantOf(t, third)
	coordtest.Queued(t, raw, semQueue, 1)

	// One of three leases is deleted: all of them are lost, once, and second is let in.
	leases := leasesOf(t, raw, first)
	if err := raw.Delete(leases[len(leases)-1], -1); err != nil {
		t.Fatal(err)
	}
	if lost := coordtest.LossOf(t, first); lost.Reason != events.ReasonNodeRemoved {
		t.Errorf("lost: %v", lost.Reason)
	}
	coordtest.GrantOf(t, second)
	second.Release()
	third.Release()
	for _, a := range []*coordinator.Acquisition{second, third} {
		if err := coordtest.EndOf(t, a); err != nil {
			t.Error(err)
		}
	}
	coordtest.Queued(t, raw, semLeases, 0)
}

// leasesOf returns the paths of the leases of the session that holds the acquisition.
func leasesOf(t *testing.T, raw *zk.Conn, a *coordinator.Acquisition) (nodes []string) {
	t.Helper()
	_, own, err := raw.Get(a.Guard().Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range coordtest.QueueOf(t, raw, semLeases) {
		_, stat, err := raw.Get(semLeases + "/" + name)
		if err == nil && stat.EphemeralOwner == own.EphemeralOwner {
			nodes = append(nodes, semLeases+"/"+name)
		}
	}
	return nodes
}

// TestRealPermitsOfAClosedSession are given to the next one.
func TestRealPermitsOfAClosedSession(t *testing.T) {
	e := ensemble.Start(t, 1)
	ctx := coordtest.RealContext(t)
	raw := coordtest.RawClient(t, e.Addr(0))
	doomed, err := coordinator.Connect(ctx, e.Connect(), coordinator.WithSessionTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	held := doomed.Semaphore(semPath, 2).Acquire(context.Background(), coordinator.WithPermits(2))
	coordtest.GrantOf(t, held)
	next := coordtest.ConnectReal(t, e.Connect()).Semaphore(semPath, 2).Acquire(ctx, coordinator.WithPermits(2))
	coordtest.Queued(t, raw, semQueue, 1)
	if err := doomed.Close(); err != nil { // which ends its session
		t.Error(err)
	}
	coordtest.GrantOf(t, next)
	coordtest.NotLost(t, next)
	coordtest.Queued(t, raw, semLeases, 2)
}
