// Command limiter limits how many jobs run at a time, in all instances of a service together.
//
// Three instances have small jobs, which take one permit of a semaphore, and big ones, which take three at once. Permits are granted
// in the order of arrival: small jobs do not keep out big ones, and no two big jobs each hold a part of what they need. Half-way the
// number of permits is raised, which lets waiting jobs in.
//
//	go run ./examples/limiter                     on a server inside the program
//	go run ./examples/limiter -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/limiter -for 0              until Ctrl-C
//
// stage.go has the instances, and counts the permits in use: the program fails if there are ever more than the limit.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// jobsLock is the semaphore.
const jobsLock = "/zkgrant/limiter/jobs"

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// semaphore returns the handle that all workers of an instance share. The number of permits is agreed in ZooKeeper: an instance adopts
// the number that it finds. The instance that decides sets it, as an earlier run may have left another number.
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
		case errors.As(err, &lost): // the job has to be done again
			w.say("%s  LOST its permits: %v", w.name, lost.Reason)
		default:
			return err
		}
	}
	return nil
}
