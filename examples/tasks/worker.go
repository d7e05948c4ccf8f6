package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// claims is where the claims are, one node for each task that somebody is at.
const claims = "/zkgrant/tasks"

// worker does whatever task it can claim.
type worker struct {
	name  string
	tasks *board
	work  func(context.Context) error // does a task; the context ends with the claim
	pause time.Duration               // while others are at all that is left
	say   func(string, ...any)
}

// run works until there is nothing left to do, or ctx ends.
func (w *worker) run(ctx context.Context, c *coordinator.Coordinator) error {
	for {
		open := w.tasks.open()
		if len(open) == 0 {
			return nil
		}
		worked := false
		for _, task := range open {
			err := w.try(ctx, c, task)
			switch {
			case errors.Is(err, coordinator.ErrNotAcquired): // somebody is at it
				continue
			case err != nil:
				return err
			}
			worked = true
			break // what is open has changed
		}
		if worked {
			continue
		}
		// Others are at all that is left. Should one of them die, it is to be done again.
		select {
		case <-time.After(w.pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try claims a task and does it, or ends with ErrNotAcquired.
func (w *worker) try(ctx context.Context, c *coordinator.Coordinator, task int) error {
	claim := c.Unfair(fmt.Sprintf("%s/task-%04d", claims, task)).Acquire(ctx, coordinator.Try(), coordinator.WithData([]byte(w.name)))
	defer claim.Release()
	grant, err := claim.Wait(ctx)
	if err != nil {
		var held *coordinator.HeldError
		if errors.As(err, &held) && w.tasks.late(task) {
			w.say("%s  finds task %d claimed by %s", w.name, task, held.Holder.Data)
		}
		return err
	}

	// Only now it is certain that nobody else is at it; somebody may have done it since
	// we looked.
	switch w.tasks.begin(task, grant.Token) {
	case 0:
		return nil
	case 1:
	default:
		w.say("%s  does task %d again", w.name, task)
	}
	if err := w.work(claim.Context(ctx)); err != nil {
		var lost *coordinator.LostError
		if errors.As(err, &lost) {
			w.say("%s  LOST its claim to task %d: %v", w.name, task, lost.Reason)
			return nil
		}
		return err
	}
	return w.tasks.finish(task, grant.Token)
}
