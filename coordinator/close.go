package coordinator

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
)

// Close is [Coordinator.Shutdown] within the session timeout, or less if the servers
// already owe an answer.
//
//nolint:contextcheck,nolintlint // it ends whatever the caller's context does; the linter heeds this where Close is called
func (c *Coordinator) Close() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.open), c.session.Patience())
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown ends every acquisition with [ErrClosed], waits for functions under a lock,
// ends the session, which removes its nodes, and waits for every goroutine. It returns
// when ctx ends, at the latest. Do not call it from a function under a lock. Its error,
// also logged, names what may be left.
func (c *Coordinator) Shutdown(ctx context.Context) error {
	locks, empty, first := c.live.close()
	if !first {
		if !happens(ctx, c.ended) {
			return context.Cause(ctx)
		}
		return c.left
	}
	c.shut()
	defer close(c.ended)

	bound, functions := c.session.Patience(), ctx
	deadline, bounded := ctx.Deadline()
	if bounded {
		bound = max(0, min(bound, time.Until(deadline)))
		var cancel context.CancelFunc
		functions, cancel = context.WithDeadline(ctx, deadline.Add(-bound/2))
		defer cancel()
	}
	for _, detect := range [...]bool{true, false} { // those with records first: they outlive the session
		for _, a := range locks {
			if a.lock.cfg.detect == detect {
				a.actor.Withdraw(recipes.WhyClosed)
			}
		}
	}
	c.caches.Close()
	// A node must stay while its function runs, or another holder would enter at the same
	// time.
	running := awaitAll(functions, locks, (*actors.Lock).Returned)
	if running > 0 {
		for _, a := range locks {
			a.actor.Force() // time is up for functions
		}
	}
	end := time.Now().Add(bound)
	if bounded && deadline.Before(end) {
		end = deadline
	}
	// Each step gets a part of the remaining time, so that a silent server in one step
	// leaves some for the later ones.
	requests, cancel := context.WithDeadline(ctx, end.Add(-bound*3/8))
	defer cancel()
	records := awaitAll(requests, locks, (*actors.Lock).Cleared)
	// Wait for the answers, so that the count of what may be left is exact.
	if c.live.len() > 0 {
		c.session.Quiesce(requests)
	}
	left := c.live.len() // exact, because the last requests were answered
	farewell, cancel := context.WithDeadline(ctx, end.Add(-bound/8))
	defer cancel()
	var err error
	if running > 0 {
		err = fmt.Errorf("zkgrant: closed, but functions under a lock are still running: %d", running)
	}
	for _, a := range locks {
		a.actor.Orphan()
	}
	c.unconfirmed = !c.session.Close(farewell)
	close(c.parted)
	if c.unconfirmed && left > 0 {
		err = joined(err,
			fmt.Errorf("zkgrant: closed, but no server has confirmed the end of the session; acquisitions whose nodes may stay until it expires: %d", left))
	}
	if records > 0 {
		err = joined(err,
			fmt.Errorf("zkgrant: closed, but crash records may stay for crashes that did not happen: %d",
				records))
	}
	if err != nil {
		err = joined(context.Cause(ctx), err)
		c.cfg.Logger.Warn("closed, but not everything is cleaned up", zap.Error(err))
		c.left = err
	}
	<-empty // the end of the session ends the remaining acquisitions
	c.house.Stream.Close(bound / 8)
	defer context.AfterFunc(ctx, func() { c.house.Stream.Close(0) })()
	c.group.Close()
	// Otherwise the callers' contexts would keep a closed coordinator in memory.
	for _, house := range [...]*actors.House{&c.house, &c.elections} {
		house.Close()
	}
	c.house.Stream.Part()
	return err
}

// awaitAll waits for the event of each acquisition until ctx ends. It returns the number
// of events that are still missing.
func awaitAll(ctx context.Context, all []*Acquisition, event func(*actors.Lock) <-chan struct{}) (left int) {
	for _, a := range all {
		if !happens(ctx, event(a.actor)) {
			left++
		}
	}
	return left
}
