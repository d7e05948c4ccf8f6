// Command quickstart shows what a lock does. Five contenders queue for it and work under
// it one at a time, in the order of their arrival, each with a greater fencing token.
// While the third one works, it is cut off from the servers: it is notified of the loss
// and stops, the next contender is granted the lock, and the third one queues again in a
// new session.
//
//	go run ./examples/quickstart                     on a server inside the program
//	go run ./examples/quickstart -zk host:2181,...   on real servers
//
// It prints what happens. At the end it checks that no contender was overtaken, that
// there was never more than one valid holder, that the tokens grew and that no node is
// left. The exit code is 0 if all of that holds, 1 if not, and 130 after Ctrl-C, which
// may come at any time.
//
// stage.go plays the scene, and ledger.go does the checks.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/zkgrant/zkgrant/coordinator"
)

// lockPath is the lock that all contenders compete for.
const lockPath = "/zkgrant/quickstart"

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// contend does its work once under the lock, and starts over after each loss. Each
// contender has its own coordinator and so its own session, as separate processes would.
func contend(ctx context.Context, r *role) error {
	c, err := coordinator.Connect(ctx, r.zk.Servers, r.options()...)
	if err != nil {
		return err
	}
	defer c.Close() // deletes its nodes and ends the session
	r.enter(ctx, c)
	for {
		err := work(ctx, c, r)
		var lost *coordinator.LostError
		if ctx.Err() != nil || !errors.As(err, &lost) {
			return err
		}
		r.lost(lost.Reason) // not an error, but the work has to be done again
	}
}

// work queues up for the lock and works under it. It returns nil once the work is done,
// and a *coordinator.LostError after a loss.
func work(ctx context.Context, c *coordinator.Coordinator, job *role) error {
	lock := c.Mutex(lockPath).Acquire(ctx, coordinator.Data([]byte(job.name))) // returns at once
	defer lock.Release()                                                       // after the work has stopped
	defer job.stop()
	for {
		select {
		case <-ctx.Done(): // Ctrl-C, whether it waits or holds
			return context.Cause(ctx)
		case grant := <-lock.Granted():
			job.start(grant, lock.Valid) // with the fencing token, grant.Token
		case <-job.done:
			job.finish()
			return nil
		case <-lock.Lost():
			job.stop() // from now on another contender may hold the lock
		case <-lock.Done():
			return lock.Err()
		case ev := <-job.news: // all other events
			job.report(ev)
		}
	}
}
