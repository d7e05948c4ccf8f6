package main

import (
	"context"
	"errors"

	"github.com/zkgrant/zkgrant/coordinator"
)

// contend works once under the lock, however often that has to be begun. Each contender has a coordinator of its own, hence a
// session of its own, as if it were a process of its own.
func contend(ctx context.Context, r *role) error {
	c, err := coordinator.Connect(ctx, r.opt.zk.Servers, r.options()...)
	if err != nil {
		return err
	}
	defer c.Close() // gives nodes back and ends the session
	r.enter(ctx, c)
	for {
		err := work(ctx, c, r)
		var lost *coordinator.LostError
		if ctx.Err() != nil || !errors.As(err, &lost) {
			return err
		}
		r.lost(lost.Reason) // no error, but the work is to be done again
	}
}

// work queues up for the lock and works under it. It returns nil when the work is done, and a *coordinator.LostError after a loss.
func work(ctx context.Context, c *coordinator.Coordinator, job *role) error {
	lock := c.Mutex(lockPath).Acquire(ctx, coordinator.WithData([]byte(job.name))) // returns at once
	defer lock.Release()                                                           // the work has stopped
	defer job.stop()
	for {
		select {
		case <-ctx.Done(): // Ctrl-C, while it waits and while it holds
			return context.Cause(ctx)
		case grant := <-lock.Granted():
			job.start(grant, lock.Valid) // with the fencing token, grant.Token
		case <-job.done:
			job.finish()
			return nil
		case <-lock.Lost():
			job.stop() // from here on somebody else may hold it
		case <-lock.Done():
			return lock.Err()
		case ev := <-job.news: // whatever else happens
			job.report(ev)
		}
	}
}
