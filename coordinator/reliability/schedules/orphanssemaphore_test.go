package schedules_test

import (
	"context"

	"github.com/zkgrant/zkgrant/coordinator"
)

// size is how many permits the semaphores of the stories have.
const size = 2

// bulk asks for several permits.
type bulk struct {
	*coordinator.Semaphore
	permits int
}

// Acquire asks for as many as it is to.
func (b bulk) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return b.Semaphore.Acquire(ctx, append(options, coordinator.WithPermits(b.permits))...)
}

func onePermit(c *coordinator.Coordinator, path string) handle { return c.Semaphore(path, size) }

func allPermits(c *coordinator.Coordinator, path string) handle {
	return bulk{c.Semaphore(path, size), size}
}

func usesOfSemaphore() []use {
	const old, ours = "/locks/a", "/locks/ours"
	all := []use{
		{name: "takes a permit", path: "/new/and/deep", lock: onePermit, play: hold},
		{name: "takes all permits", path: ours, ours: true, lock: allPermits, play: hold},
		{name: "takes the last permit", path: ours, ours: true, others: true, lock: onePermit, first: onePermit, play: hold},
		{name: "waits for all permits", path: old, others: true, lock: allPermits, first: onePermit, play: hold},
		{name: "waits for a permit, and leaves", path: ours, ours: true, others: true, lock: onePermit, play: giveUp},
		{name: "takes permits, and leaves at once", path: ours, ours: true, lock: allPermits, play: giveUpAtOnce},
	}
	for i := range all {
		if all[i].first == nil {
			all[i].first = allPermits
		}
		all[i].next, all[i].nodes, all[i].dirs = allPermits, size, []string{queueOf, leasesOf}
	}
	return all
}
