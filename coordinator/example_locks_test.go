package coordinator_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
)

func ExampleCoordinator_Locks() {
	c, _, stop := exampleServer()
	defer stop()

	ctx := context.Background()
	held(c.Mutex("/locks/report"), coordinator.WithData([]byte("host-7")))
	<-c.Semaphore("/locks/exports", 5).Acquire(ctx, coordinator.WithPermits(2)).Granted()

	for lock, err := range c.Locks(ctx, "/locks") {
		if err != nil {
			fmt.Println(lock.Path, err) // it may not be read, and the walk goes on
			continue
		}
		for _, contender := range lock.Contenders {
			fmt.Printf("%s is a %v: %q %v %d\n", lock.Path, lock.Kind, contender.Data, contender.Holding, contender.Permits)
		}
	}
	// Output:
	// /locks/exports is a semaphore: "" true 2
	// /locks/report is a mutex: "host-7" true 0
}
