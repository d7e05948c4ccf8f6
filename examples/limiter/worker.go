package main

import (
	"context"
	"errors"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// jobsLock is the semaphore.
const jobsLock = "/zkgrant/limiter/jobs"

// semaphore returns the handle that all workers of an instance share. How many permits there are is agreed in ZooKeeper, and
// whoever comes later adopts what it finds. One instance decides: there may be another number from the last time.
func semaphore(ctx context.Context, c *coordinator.Coordinator, size int, decides bool) (*coordinator.Semaphore, error) {
	permits := c.Semaphore(jobsLock, size, coordinator.AdoptSize())
	if !decides {
		return permits, nil
	}
	return permits, permits.Resize(ctx, size)
}

// worker does jobs of one size, one after the other.
type worker struct {
	name string
	size int                                             // permits
	job  func(ctx context.Context, g events.Grant) error // ctx ends when the permits are lost
	say  func(string, ...any)
}

// run works until ctx ends.
func (w *worker) run(ctx context.Context, permits *coordinator.Semaphore) error {
	for ctx.Err() == nil {
		err := permits.Do(ctx, w.job, coordinator.WithPermits(w.size))
		var lost *coordinator.LostError
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &lost): // the job is to be done again
			w.say("%s  LOST its permits: %v", w.name, lost.Reason)
		default:
			return err
		}
	}
	return nil
}
