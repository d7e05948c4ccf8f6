package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// contendWithGrants runs a contender that uses a zkgrant mutex.
func contendWithGrants(ctx context.Context, where *servers, b *body) error {
	c, err := coordinator.Open(where.zk.Servers, where.options(coordinator.WithDialer(b.network.Dial))...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // if no server is reachable, the session times out
	news := c.Events(ctx)
	for ctx.Err() == nil {
		var lost *coordinator.LostError
		if err := turn(ctx, c, b, news); err != nil && !errors.As(err, &lost) {
			return err
		}
	}
	return nil
}

// turn queues for the lock once, and works until it is lost or handed on. It returns nil
// when ctx ends.
func turn(ctx context.Context, c *coordinator.Coordinator, b *body, news <-chan events.Event) error {
	lock := c.Mutex(lockPath+"/"+zkgrantSide).Acquire(ctx, coordinator.Data([]byte(b.name)))
	defer lock.Release()
	for {
		select {
		case <-ctx.Done():
			return nil
		case grant := <-lock.Granted():
			b.is(holds, fmt.Sprintf("granted, token %#x", grant.Token))
		case loss := <-lock.Lost():
			b.is(lost, "notified: "+loss.Reason.String())
			b.inDoubt = loss.Reason == events.ReasonLeaseRanOut
			return loss.Err
		case <-lock.Done():
			return lock.Err()
		case <-b.handOn:
			if b.state == holds {
				b.is(away, "gave it back")
				return nil
			}
		case wake := <-b.pause:
			b.standStill(ctx, wake)
			if b.state == holds && !lock.Valid() { // checked before each step of its work, and this is the next one
				b.is(lost, "Valid() says no")
			} else {
				b.tell(b.state)
			}
		case ev := <-news:
			b.hear(ev, lock.ID())
		}
	}
}

// hear handles the events that have no channel of their own.
func (b *body) hear(ev events.Event, id uint64) {
	switch ev := ev.(type) {
	case events.Queued:
		if ev.ID == id && b.state != holds {
			b.is(waits, fmt.Sprintf("%d ahead", ev.Ahead))
		}
	case events.Requeued:
		b.is(away, "queues again, in a new session")
	case events.Suspended:
		b.connected(false)
	case events.Resumed:
		if b.connected(true); b.inDoubt {
			b.inDoubt = false
			b.gaveUpNeedlessly()
		}
	case events.Connected:
		b.inDoubt = false // a new session
		b.connected(true)
	default: // the rest arrives on other channels; nil if ctx has ended the stream
	}
}
