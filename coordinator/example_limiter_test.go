package coordinator_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Small jobs take one of four permits, and a big one takes three together. Permits are granted in the order
// of arrival, so small jobs that come later do not keep the big one out.
func ExampleWithPermits_order() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	jobs := c.Semaphore("/limits/jobs", 4)
	first, second := jobs.Acquire(ctx), jobs.Acquire(ctx)
	<-first.Granted()
	<-second.Granted()
	big := jobs.Acquire(ctx, coordinator.WithPermits(3)) // two are free
	queues(big)
	late := jobs.Acquire(ctx) // waits for its turn, though two are free

	first.Release()
	<-big.Granted()
	fmt.Println("the big job runs, and the late one:", late.Valid())
	second.Release()
	<-late.Granted()
	fmt.Println("both run:", big.Valid() && late.Valid())
	// Output:
	// the big job runs, and the late one: false
	// both run: true
}

// queues waits until the acquisition stands in the queue.
func queues(a *coordinator.Acquisition) {
	for _, ok := a.Position(); !ok; _, ok = a.Position() {
		<-time.After(time.Millisecond)
	}
}
