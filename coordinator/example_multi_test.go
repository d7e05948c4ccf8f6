package coordinator_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Money goes from one account to another: both are locked, or none.
func ExampleCoordinator_Multi() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	from, to := c.Mutex("/accounts/anna"), c.Mutex("/accounts/ben")
	err := c.Multi(from, to).Do(ctx, func(_ context.Context, grant events.Grant) error {
		for _, m := range grant.Members {
			fmt.Println("holds", m.Path)
		}
		_, err := c.Multi(to, from).Acquire(ctx, coordinator.Try()).Wait(ctx) // the other way round
		fmt.Println("somebody else:", err)
		return nil
	})
	must(err)

	_, err = c.Multi(from, to, c.Mutex("/accounts/anna")).Acquire(ctx).Wait(ctx)
	fmt.Println(err)
	// Output:
	// holds /accounts/anna
	// holds /accounts/ben
	// somebody else: zkgrant: not acquired
	// zkgrant: the same lock twice: locks 0 and 2 are both at /accounts/anna
}
