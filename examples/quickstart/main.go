// Command quickstart shows what a lock does: five contenders queue for it and work under
// it one after the other, in the order in which they came, each with a greater fencing
// token. While the third of them works, it is cut off from the servers: it hears of the
// loss and stops, then the next contender is granted the lock, and the third queues again
// in a new session.
//
//	go run ./examples/quickstart                     on a server inside the program
//	go run ./examples/quickstart -zk host:2181,...   on a real one, chroot and all
//
// It prints what happens. At the end it checks that no contender was overtaken, that none
// was granted the lock beside a holder with a valid lock, that the tokens grew and that
// no node is left. The exit code is 0 if all of that holds, 1 if not, and 130 after
// Ctrl-C, which may come at any time.
//
// stage.go has the show, and ledger.go the checks.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/zkgrant/zkgrant/coordinator"
)

// lockPath is the lock of all contenders.
const lockPath = "/zkgrant/quickstart"

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// contend works once under the lock, however often it has to begin. Each contender has
// its own coordinator, hence its own session, as if it were a process.
func contend(ctx context.Context, r *role) error {
	c, err := coordinator.Connect(ctx, r.zk.Servers, r.options()...)
	if err != nil {
		return err
	}
	defer c.Close() // gives nodes back and ends the session
	r.enter(ctx, c)
	for {
		err := work(ctx, c, r)
		var lost *coordinator.LostError
		if ctx.Err() != nil || !errors.As(err, &lost) {
			return err
		}
		r.lost(lost.Reason) // no error, but the work is to be done again
	}
}

// work queues up for the lock and works under it. It returns nil when the work is done,
// and a *coordinator.LostError after a loss.
func work(ctx context.Context, c *coordinator.Coordinator, job *role) error {
	lock := c.Mutex(lockPath).Acquire(ctx, coordinator.Data([]byte(job.name))) // returns at once
	defer lock.Release()                                                       // the work has stopped
	defer job.stop()
	for {
		select {
		case <-ctx.Done(): // Ctrl-C, while it waits and while it holds
			return context.Cause(ctx)
		case grant := <-lock.Granted():
			job.start(grant, lock.Valid) // with the fencing token, grant.Token
		case <-job.done:
			job.finish()
			return nil
		case <-lock.Lost():
			job.stop() // from here on another contender may hold it
		case <-lock.Done():
			return lock.Err()
		case ev := <-job.news: // all other events
			job.report(ev)
		}
	}
}
