// Command maintenance asks a long job for its lock, and the job comes to a safe point before it gives the lock back.
//
// A job copies one table after the other under a lock, and may stop between two of them. An operator wants the lock for
// maintenance: it asks for the lock with a grace, and queues up for it. The job hears the deadline, finishes the table at hand if
// there is time, and releases the lock. If the job is too slow, it loses the lock at the deadline, and abandons the table. Then
// the operator has the lock, and gives it back; the job goes on where it was.
//
//	go run ./examples/maintenance                     on a server inside the program
//	go run ./examples/maintenance -zk host:2181,...   on a real one, chroot and all
//	go run ./examples/maintenance -table 3s           a job that is too slow
//
// stage.go lets the job and the operator meet.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// jobLock guards the tables.
const jobLock = "/zkgrant/maintenance/tables"

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// job copies tables.
type job struct {
	tables int
	each   time.Duration // for one table
	say    func(string, ...any)

	copied, abandoned int
}

// run copies all tables. It waits for the lock again each time it has given it back.
func (j *job) run(ctx context.Context, c *coordinator.Coordinator) error {
	for j.copied < j.tables {
		lock := c.Mutex(jobLock, coordinator.Revocable()).Acquire(ctx, coordinator.WithData([]byte("the copying job")))
		err := j.hold(ctx, lock)
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

// hold copies until the lock is lost or asked back.
func (j *job) hold(ctx context.Context, lock *coordinator.Acquisition) error {
	if _, err := lock.Wait(ctx); err != nil {
		return err
	}
	j.say("job: has the lock")
	locked, asked := lock.Context(ctx), false
	table := time.After(j.each)
	for j.copied < j.tables {
		select {
		case <-table:
			j.copied++
			j.say("job: table %d is copied", j.copied)
			if asked { // a safe point
				j.say("job: gives the lock back")
				return nil
			}
			table = time.After(j.each)
		case r := <-lock.Revoked():
			asked = true
			if r.Deadline.IsZero() { // asked by Curator, which sets none
				j.say("job: the lock is asked back")
			} else {
				j.say("job: the lock is asked back within %v", time.Until(r.Deadline).Round(100*time.Millisecond))
			}
		case <-locked.Done(): // in the middle of a table, which has to be copied again
			j.abandoned++
			return context.Cause(locked)
		}
	}
	return nil
}

// maintain asks for the lock, and does its maintenance under it.
func maintain(ctx context.Context, c *coordinator.Coordinator, grace time.Duration, say func(string, ...any)) error {
	lock := c.Mutex(jobLock).Acquire(ctx) // in the queue before the lock is free
	defer lock.Release()
	say("operator: wants the lock within %v", grace)
	began, wait := time.Now(), ctx
	refused := c.Revoke(ctx, jobLock, grace)
	switch {
	case errors.Is(refused, coordinator.ErrNotRevocable): // the holder has not agreed: it is this one, if the lock was free
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, grace)
		defer cancel()
	case errors.Is(refused, coordinator.ErrNotHeld):
		refused = nil // the lock is free, or about to be
	case refused != nil:
		return refused
	}
	if _, err := lock.Wait(wait); err != nil {
		return errors.Join(err, refused)
	}
	say("operator: has the lock after %v", time.Since(began).Round(100*time.Millisecond))
	return nil
}
