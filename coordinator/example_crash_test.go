package coordinator_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Whoever holds the lock behind somebody who crashed repairs what that one has left half done. When a function has returned, or a lock was
// released, the next one finds it in order.
func ExampleDetectCrash() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/accounts", coordinator.DetectCrash())
	transfer := func(who string, crash bool) {
		defer func() { _ = recover() }()
		_ = lock.Do(context.Background(), func(_ context.Context, grant events.Grant) error {
			if left := grant.Abandoned; left != nil {
				fmt.Printf("%s repairs what %s has left\n", who, left.Data)
			}
			if crash {
				panic("out of memory")
			}
			fmt.Println(who, "is done")
			return nil
		}, coordinator.WithData([]byte(who)))
	}
	transfer("ann", false)
	transfer("bob", true)
	transfer("cid", false)
	transfer("dan", false)

	// Output:
	// ann is done
	// cid repairs what bob has left
	// cid is done
	// dan is done
}
