package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// A holder hears that somebody wants his lock, comes to an end, and releases it in time.
func ExampleCoordinator_Revoke() {
	c, _, stop := exampleServer()
	defer stop()

	news := c.Events(context.Background())
	job, _ := held(c.Mutex("/locks/reindex", coordinator.Revocable()))
	go func() {
		for ev := range news {
			if r, ok := ev.(events.Revoked); ok && r.ID == job.ID() {
				fmt.Println("told, and in time:", time.Now().Before(r.Deadline))
				job.Release() // as soon as the work is at a safe point
			}
		}
	}()

	must(c.Revoke(context.Background(), "/locks/reindex", time.Minute)) // from anywhere
	fmt.Println("held:", job.Valid())
	fmt.Println("nobody is asked:", errors.Is(c.Revoke(context.Background(), "/locks/reindex", time.Minute), coordinator.ErrNotHeld))
	// Output:
	// told, and in time: true
	// held: false
	// nobody is asked: true
}

// Who does not give the lock back loses it at the deadline. A function's context says so.
func ExampleRevocable() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/reindex", coordinator.Revocable())
	err := lock.Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
		go func() { _ = c.Revoke(context.Background(), "/locks/reindex", 10*time.Millisecond) }()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, coordinator.ErrRevoked))
	// Output:
	// true
}
