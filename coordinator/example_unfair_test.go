package coordinator_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
)

// A task is claimed by whoever is quick. The others learn who has it, and go on to the next one.
func ExampleCoordinator_Unfair() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	claim := func(worker, task string) *coordinator.Acquisition {
		a := c.Unfair("/tasks/"+task).Acquire(ctx, coordinator.Try(), coordinator.WithData([]byte(worker)))
		_, err := a.Wait(ctx)
		var held *coordinator.HeldError
		switch {
		case err == nil:
			fmt.Println(worker, "works on", task)
		case errors.As(err, &held):
			fmt.Printf("%s leaves %s to %s\n", worker, task, held.Holder.Data)
		default:
			must(err)
		}
		return a
	}
	first := claim("ann", "resize")
	claim("bob", "resize")
	claim("bob", "rotate")
	first.Release() // before it is done: somebody else may do it
	<-first.Done()
	claim("bob", "resize")
	// Output:
	// ann works on resize
	// bob leaves resize to ann
	// bob works on rotate
	// bob works on resize
}
