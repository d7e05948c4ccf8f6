package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// jobLock is held by whoever may touch the tables.
const jobLock = "/zkgrant/maintenance/tables"

// job copies tables.
type job struct {
	tables int
	each   time.Duration // a table takes
	say    func(string, ...any)

	copied, abandoned int
}

// run copies all tables. It waits for the lock again whenever it has given it back.
func (j *job) run(ctx context.Context, c *coordinator.Coordinator) error {
	news := c.Events(ctx) // before the lock is asked for, so that nothing is missed
	for j.copied < j.tables {
		lock := c.Mutex(jobLock, coordinator.Revocable()).Acquire(ctx, coordinator.WithData([]byte("the copying job")))
		err := j.hold(ctx, lock, news)
		lock.Release()
		var lost *coordinator.LostError
		switch {
		case errors.As(err, &lost):
			j.say("job: LOST the lock: %v", lost.Reason)
		case err != nil:
			return err
		}
	}
	return nil
}

// hold copies while it has the lock, and until somebody wants it back.
func (j *job) hold(ctx context.Context, lock *coordinator.Acquisition, news <-chan events.Event) error {
	if _, err := lock.Wait(ctx); err != nil {
		return err
	}
	j.say("job: has the lock")
	locked, asked := lock.Context(ctx), false
	for j.copied < j.tables {
		table := time.After(j.each)
		for done := false; !done; {
			select {
			case <-table:
				j.copied++
				j.say("job: table %d is copied", j.copied)
				done = true
			case ev, open := <-news:
				if r, ok := ev.(events.Revoked); ok && r.ID == lock.ID() {
					asked = true
					j.say("job: the lock is wanted back within %v", time.Until(r.Deadline).Round(100*time.Millisecond))
				}
				if !open {
					news = nil
				}
			case <-locked.Done(): // in the middle of a table; what is half done has to be done again
				j.abandoned++
				return context.Cause(locked)
			}
		}
		if asked { // a safe point
			j.say("job: gives the lock back")
			return nil
		}
	}
	return nil
}

// maintain asks for the lock, and does something under it.
func maintain(ctx context.Context, c *coordinator.Coordinator, grace time.Duration, say func(string, ...any)) error {
	lock := c.Mutex(jobLock, coordinator.Revocable()).Acquire(ctx) // in the queue before the lock is free
	defer lock.Release()
	say("operator: wants the lock within %v", grace)
	began := time.Now()
	if err := c.Revoke(ctx, jobLock, grace); err != nil && !errors.Is(err, coordinator.ErrNotHeld) {
		return err
	}
	if _, err := lock.Wait(ctx); err != nil {
		return err
	}
	say("operator: has the lock after %v", time.Since(began).Round(100*time.Millisecond))
	return nil
}
