package coordinator_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Two values belong together, and a writer changes one after the other. A writer that dies in between leaves
// half a change. Each Grant reports that crash until another writer has released: readers leave the values alone
// until then, and the next writer repairs them first.
func ExampleDetectCrash_readers() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock := c.ReadWrite("/locks/prices", coordinator.DetectCrash())
	gross, net := 119, 100
	write := func(who string, price int, dies bool) {
		defer func() { _ = recover() }()
		must(lock.Write().Do(ctx, func(_ context.Context, grant events.Grant) error {
			if left := grant.Abandoned; left != nil {
				fmt.Printf("%s repairs what %s left: %d, %d\n", who, left.Data, gross, net)
				gross = net * 119 / 100
			}
			net = price
			if dies {
				panic("out of memory")
			}
			gross = price * 119 / 100
			return nil
		}, coordinator.WithData([]byte(who))))
	}
	read := func() {
		must(lock.Read().Do(ctx, func(_ context.Context, grant events.Grant) error {
			if left := grant.Abandoned; left != nil {
				fmt.Printf("a reader waits for the repair of what %s left\n", left.Data)
				return nil // the next Grant reports the crash again
			}
			fmt.Println("a reader sees", gross, net)
			return nil
		}))
	}
	read()
	write("ann", 200, true)
	read()
	write("bob", 300, false)
	read()
	// Output:
	// a reader sees 119 100
	// a reader waits for the repair of what ann left
	// bob repairs what ann left: 119, 200
	// a reader sees 357 300
}
