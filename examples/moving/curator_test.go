package moving_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func insteadOfMutex(ctx context.Context, c *coordinator.Coordinator, rebuild func(context.Context) error) error {
	// zkgrant
	lock := c.Mutex("/locks/index", coordinator.Reentrant()).Acquire(ctx, coordinator.WithMaxWait(10*time.Second))
	defer lock.Release()
	if _, err := lock.Wait(ctx); err != nil {
		return err // coordinator.ErrTimeout after ten seconds
	}
	return rebuild(lock.Context(ctx)) // cancelled on a loss; a callee with this context may enter again
}

func insteadOfDowngrade(ctx context.Context, c *coordinator.Coordinator, change, check func(context.Context) error) error {
	// zkgrant
	prices := c.ReadWrite("/locks/prices")
	write := prices.Write().Acquire(ctx)
	defer write.Release()
	if _, err := write.Wait(ctx); err != nil {
		return err
	}
	if err := change(write.Context(ctx)); err != nil {
		return err
	}
	read := prices.Read().Acquire(write.Context(ctx)) // in the writer's own place
	defer read.Release()
	if _, err := read.Wait(ctx); err != nil {
		return err
	}
	write.Release() // other readers come in, and no writer
	return check(read.Context(ctx))
}

func insteadOfSemaphore(ctx context.Context, c *coordinator.Coordinator, export func(context.Context) error) error {
	// zkgrant
	exports := c.Semaphore("/limits/exports", 4)
	return exports.Do(ctx, func(ctx context.Context, _ events.Grant) error {
		return export(ctx)
	}, coordinator.WithPermits(2)) // both at once, or none
}

// A function that is called under the lock enters it again. If the lock is not granted in time, the wait ends.
func TestInsteadOfMutex(t *testing.T) {
	c, ctx := connect(t, server(t)), bounded(t)
	deep := 0
	var rebuild func(context.Context) error
	rebuild = func(ctx context.Context) error {
		if deep++; deep == 3 {
			return nil
		}
		return insteadOfMutex(ctx, c, rebuild)
	}
	if err := insteadOfMutex(ctx, c, rebuild); err != nil || deep != 3 {
		t.Errorf("entered %d times, %v; want 3", deep, err)
	}
}

// The writer goes on as a reader. The writer behind it is granted the lock when the reader has released.
func TestInsteadOfDowngrade(t *testing.T) {
	c, ctx := connect(t, server(t)), bounded(t)
	var done record
	note := func(what string) func(context.Context) error {
		return func(ctx context.Context) error {
			done.note(what)
			return ctx.Err()
		}
	}
	next := make(chan error, 1)
	err := insteadOfDowngrade(ctx, c, func(context.Context) error {
		done.note("changed")
		other := c.ReadWrite("/locks/prices").Write().Acquire(ctx)
		go func() {
			_, err := other.Wait(ctx)
			done.note("another writer")
			other.Release()
			next <- err
		}()
		return nil
	}, note("checked"))
	if err = errors.Join(err, <-next); err != nil {
		t.Fatal(err)
	}
	done.must(t, "changed", "checked", "another writer")
}

// Two permits of four, twice.
func TestInsteadOfSemaphore(t *testing.T) {
	c, ctx := connect(t, server(t)), bounded(t)
	err := insteadOfSemaphore(ctx, c, func(ctx context.Context) error {
		return insteadOfSemaphore(ctx, c, func(ctx context.Context) error {
			third := c.Semaphore("/limits/exports", 4).Acquire(context.WithoutCancel(ctx), coordinator.Try())
			<-third.Done()
			return third.Err()
		})
	})
	if !errors.Is(err, coordinator.ErrDeadlock) { // with five of four it would wait for itself
		t.Errorf("the third pair of four permits: %v, want %v", err, coordinator.ErrDeadlock)
	}
}
