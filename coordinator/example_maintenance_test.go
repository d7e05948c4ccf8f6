package coordinator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// A job copies one table after the other. When it is asked for its lock, it finishes the table at hand and
// releases. The operator queues up before asking, and so is next. Then the job queues up again.
func ExampleAcquisition_Revoked() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock := c.Mutex("/locks/tables", coordinator.Revocable())
	job, _ := held(lock)
	operator := lock.Acquire(ctx)
	queues(operator)
	go func() { _ = c.Revoke(ctx, "/locks/tables", time.Minute) }() // ErrNotHeld: the lock was free

	var deadline time.Time
	for table := 1; job.Valid(); {
		select {
		case r := <-job.Revoked():
			deadline = r.Deadline // the zero time if Curator asks
			fmt.Println("asked for the lock")
		case <-time.After(10 * time.Millisecond): // a table is copied: a safe point
			table++
			if !deadline.IsZero() {
				fmt.Println("releases in time:", time.Now().Before(deadline))
				job.Release()
			}
		case <-job.Lost(): // it was too slow: the table at hand has to be copied again
			fmt.Println("lost the lock, in table", table)
		}
	}
	again := lock.Acquire(ctx)
	_, err := operator.Wait(ctx)
	must(err)
	fmt.Println("the operator holds, and the job:", again.Valid())
	operator.Release()
	_, err = again.Wait(ctx)
	must(err)
	fmt.Println("the job goes on")
	// Output:
	// asked for the lock
	// releases in time: true
	// the operator holds, and the job: false
	// the job goes on
}
