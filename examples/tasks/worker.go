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

// errDead says that the worker has died over its task.
var errDead = errors.New("died")

// worker does whatever task it can claim.
type worker struct {
	name  string
	each  time.Duration
	tasks *board
	say   func(string, ...any)

	die   func() // nil for most
	lives int    // tasks, until it dies
}

// doom has the worker die over its nth task, by the function.
func (w *worker) doom(nth int, die func()) { w.die, w.lives = die, nth }

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
		case <-time.After(w.each):
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
	if w.die != nil {
		if w.lives--; w.lives == 0 {
			w.die()
			return errDead
		}
	}
	select {
	case <-time.After(w.each): // the work
	case <-claim.Context(ctx).Done():
		var lost *coordinator.LostError
		if errors.As(context.Cause(claim.Context(ctx)), &lost) {
			w.say("%s  LOST its claim to task %d: %v", w.name, task, lost.Reason)
			return nil
		}
		return context.Cause(ctx)
	}
	return w.tasks.finish(task, grant.Token)
}
