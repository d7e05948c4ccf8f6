package main

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// errDead says that the worker has died over its task.
var errDead = errors.New("died")

// wait returns work that takes so long, unless its context ends.
func wait(each time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(each):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// dying returns the work of somebody who dies over the nth task.
func dying(nth int, work func(context.Context) error, die func()) func(context.Context) error {
	return func(ctx context.Context) error {
		if nth--; nth == 0 {
			die()
			return errDead
		}
		return work(ctx)
	}
}

// connect is one process, as it were: it connects and works until all is done, or it
// dies.
func connect(ctx context.Context, w *worker, zk *program.ZooKeeper, connection *program.Gate) error {
	c, err := coordinator.Connect(ctx, zk.Servers, append(zk.Options(), coordinator.WithDialer(connection.DialContext))...)
	if err != nil {
		return err
	}
	defer func() {
		connection.Open()                                                   // only for the program's end: a dead one comes back, to find that its session is over
		if closed := c.Close(); closed != nil && !errors.Is(err, errDead) { // the servers will end the session by themselves
			w.say("%s  %v", w.name, closed)
		}
	}()
	err = w.run(ctx, c)
	if errors.Is(err, errDead) {
		w.say("%s  is dead", w.name)
		return w.tasks.wait(ctx) // nobody is there to give anything back
	}
	return err
}
