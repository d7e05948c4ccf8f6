package coordinator_test

import (
	"context"
	"fmt"

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
	late := jobs.Acquire(ctx)                            // waits for its turn, though two are free

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
