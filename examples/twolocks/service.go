package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// lockRoot is where the locks are.
const lockRoot = "/zkgrant/twolocks"

// duty is a job that one instance at a time does, while it has the lock for it. The
// work is to count here.
type duty struct {
	name string
	c    *coordinator.Coordinator
	say  func(string, ...any)

	lock  *coordinator.Acquisition
	every *time.Ticker // nil while the job does not run
	done  int
}

// ask asks for the lock. It returns at once.
func (d *duty) ask(ctx context.Context) {
	d.lock = d.c.Mutex(lockRoot + "/" + d.name).Acquire(ctx)
}

// start has the job work.
func (d *duty) start(grant events.Grant) {
	d.say("has the %s, token %#x", d.name, grant.Token)
	d.every = time.NewTicker(200 * time.Millisecond)
}

// stop ends that, if it was started.
func (d *duty) stop() {
	if d.every != nil {
		d.every.Stop()
		d.every = nil
	}
}

// due is ready when there is something to do, and never while the job is stopped.
func (d *duty) due() <-chan time.Time {
	if d.every == nil {
		return nil
	}
	return d.every.C
}

// work does what is due, if the lock is valid right now: the process may have been
// halted since it was due.
func (d *duty) work() {
	if d.lock.Valid() {
		d.done++
	}
}

// again asks anew when the lock is lost. Any other end of waiting is an error, that
// of ctx included.
func (d *duty) again(ctx context.Context) error {
	d.stop() // of two that are ready, select may have taken Done, and not Lost
	var lost *coordinator.LostError
	if err := d.lock.Err(); !errors.As(err, &lost) {
		return err
	}
	d.say("LOST the %s: %v", d.name, lost.Reason)
	d.ask(ctx)
	return nil
}

// release stops the job, and then lets somebody else begin. It returns when the
// lock's node is gone.
func (d *duty) release() {
	d.stop()
	d.lock.Release()
	<-d.lock.Done()
}

// serve does both jobs whenever this instance has the lock for them, until ctx ends.
// It has no goroutine but its caller's.
func serve(ctx context.Context, c *coordinator.Coordinator, say func(string, ...any)) error {
	report := &duty{name: "report", c: c, say: say}
	cleanup := &duty{name: "cleanup", c: c, say: say}
	report.ask(ctx)
	cleanup.ask(ctx)
	defer func() {
		report.release()
		cleanup.release()
		say("shut down; reports: %d, cleanups: %d", report.done, cleanup.done)
	}()

	for {
		var err error
		select {
		case grant := <-report.lock.Granted():
			report.start(grant)
		case <-report.due():
			report.work()
		case <-report.lock.Lost():
			report.stop() // from here on somebody else may do it
		case <-report.lock.Done():
			err = report.again(ctx)

		case grant := <-cleanup.lock.Granted():
			cleanup.start(grant)
		case <-cleanup.due():
			cleanup.work()
		case <-cleanup.lock.Lost():
			cleanup.stop()
		case <-cleanup.lock.Done():
			err = cleanup.again(ctx)

		case <-ctx.Done(): // an order to shut down: what is held is given back
			return nil
		}
		if err != nil {
			return err
		}
	}
}
