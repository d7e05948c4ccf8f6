package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// serviceLock is held by the instance that works.
const serviceLock = "/zkgrant/graceful/service"

// service works through items, one after the other, while it holds the lock.
type service struct {
	each  time.Duration // an item takes
	drain time.Duration // an item may take after the order to stop
	say   func(string, ...any)

	finished, abandoned int
}

// errDrained is the cause with which the item's context ends when it has not come to
// its end within the time it may take.
var errDrained = errors.New("it took too long to stop")

// run works until ctx ends, which is the order to stop, and waits for the lock again
// when it is lost. The work has stopped, and the lock's node is gone, when run
// returns.
func (s *service) run(ctx context.Context, c *coordinator.Coordinator) error {
	for ctx.Err() == nil {
		err := c.Mutex(serviceLock).Do(ctx, func(locked context.Context, grant events.Grant) error {
			s.say("has the lock, token %#x", grant.Token)
			return s.work(ctx, locked)
		})
		var lost *coordinator.LostError
		if errors.As(err, &lost) {
			s.say("LOST the lock: %v", lost.Reason)
		} else if err = program.UnlessEnded(ctx, err); err != nil {
			return err
		}
	}
	s.say("stopped; finished %d, abandoned %d; the lock is free", s.finished, s.abandoned)
	return nil
}

// work takes one item after the other until stop ends. The context of the items must
// outlive the order to stop, and must not outlive the lock: it has the lock's end, and
// an end of its own, but not that of stop.
func (s *service) work(stop, locked context.Context) error {
	lock, _ := coordinator.FromContext(locked)
	items, cancel := context.WithCancelCause(lock.Context(context.WithoutCancel(stop)))
	defer cancel(nil)
	defer context.AfterFunc(stop, func() {
		s.say("told to stop; %v for the item at hand", s.drain)
		select {
		case <-time.After(s.drain):
			cancel(errDrained)
		case <-items.Done():
		}
	})()

	for stop.Err() == nil {
		s.say("an item is begun")
		if err := s.item(items); err != nil {
			s.abandoned++
			s.say("an item is abandoned: %v", err)
			return err
		}
		s.finished++
		s.say("an item is finished")
	}
	return nil
}

// item is something that takes its time and heeds its context.
func (s *service) item(ctx context.Context) error {
	select {
	case <-time.After(s.each):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
