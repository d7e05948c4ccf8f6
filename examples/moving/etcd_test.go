package moving_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func insteadOfIsOwner(ctx context.Context, c *coordinator.Coordinator, total func() []byte) error {
	// zkgrant
	lock := c.Mutex("/locks/total").Acquire(ctx)
	defer lock.Release()
	if _, err := lock.Wait(ctx); err != nil {
		return err
	}
	_, err := lock.Txn(ctx, &zk.SetDataRequest{Path: "/total", Data: total(), Version: -1})
	return err // a *coordinator.LostError if the lock is not held any more: nothing was written then
}

func insteadOfTryLock(ctx context.Context, c *coordinator.Coordinator, sweep func(context.Context) error) error {
	// zkgrant
	lock := c.Mutex("/locks/sweep").Acquire(ctx, coordinator.Try())
	defer lock.Release()
	_, err := lock.Wait(ctx)
	if errors.Is(err, coordinator.ErrNotAcquired) {
		return nil // another process does it
	}
	if err != nil {
		return err
	}
	return sweep(lock.Context(ctx))
}

func both(ctx context.Context, c *coordinator.Coordinator, old sync.Locker, report func(context.Context) error) error {
	// zkgrant
	old.Lock() // where every process has taken it so far
	defer old.Unlock()
	return c.Mutex("/locks/report").Do(ctx, func(ctx context.Context, _ events.Grant) error {
		return report(ctx)
	})
}

// A write under the lock is the holder's, or is not made.
func TestInsteadOfIsOwner(t *testing.T) {
	srv := server(t)
	c, ctx := connect(t, srv), bounded(t)
	if err := srv.Create(chroot+"/total", []byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := insteadOfIsOwner(ctx, c, func() []byte { return []byte("1") }); err != nil {
		t.Fatal(err)
	}
	err := insteadOfIsOwner(ctx, c, func() []byte {
		remove(t, srv, chroot+"/locks/total") // an accident
		return []byte("2")
	})
	var lost *coordinator.LostError
	if !errors.As(err, &lost) {
		t.Errorf("a write under a lost lock ended with %v, want a LostError", err)
	}
	if total, _ := srv.Data(chroot + "/total"); string(total) != "1" {
		t.Errorf("the total is %s, want 1", total)
	}
}

// remove deletes all nodes in a directory.
func remove(t *testing.T, srv *zktest.Server, dir string) {
	t.Helper()
	for _, child := range srv.Children(dir) {
		if err := srv.Delete(dir + "/" + child); err != nil {
			t.Error(err)
		}
	}
}

// One process sweeps, and another one that comes meanwhile goes on at once.
func TestInsteadOfTryLock(t *testing.T) {
	srv := server(t)
	c, other, ctx := connect(t, srv), connect(t, srv), bounded(t)
	sweeps := 0
	sweep := func(context.Context) error {
		sweeps++
		return insteadOfTryLock(ctx, other, func(context.Context) error {
			t.Error("two processes sweep at once, want one")
			return nil
		})
	}
	if err := insteadOfTryLock(ctx, c, sweep); err != nil || sweeps != 1 {
		t.Errorf("%d sweeps, %v; want 1", sweeps, err)
	}
}

// Processes that take both locks exclude first those that know only the old lock, and then those that know only the new one.
func TestBothLocks(t *testing.T) {
	srv := server(t)
	c, ctx := connect(t, srv), bounded(t)
	var old sync.Mutex
	err := both(ctx, c, &old, func(ctx context.Context) error {
		if old.TryLock() {
			t.Error("the old lock is free while both are held, want it taken")
		}
		try := c.Mutex("/locks/report").Acquire(context.WithoutCancel(ctx), coordinator.Try())
		<-try.Done()
		if err := try.Err(); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("trying the new lock: %v, want %v", err, coordinator.ErrDeadlock)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
