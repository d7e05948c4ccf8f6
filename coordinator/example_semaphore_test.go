package coordinator_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
)

func ExampleCoordinator_Semaphore() {
	c, _, stop := exampleServer()
	defer stop()

	exports := c.Semaphore("/limits/exports", 3)
	large := exports.Acquire(context.Background(), coordinator.WithPermits(2)) // both at once, or none
	small := exports.Acquire(context.Background())
	fmt.Println((<-large.Granted()).Path, (<-small.Granted()).Path)

	other := c.Semaphore("/limits/exports", 5).Acquire(context.Background())
	<-other.Done()
	fmt.Println(errors.Is(other.Err(), coordinator.ErrSizeMismatch), other.Err())

	large.Release() // both
	small.Release()
	// Output:
	// /limits/exports /limits/exports
	// true zkgrant: semaphore size mismatch: /limits/exports has 3 permits, and not 5
}

func ExampleSemaphore_Resize() {
	c, _, stop := exampleServer()
	defer stop()

	exports := c.Semaphore("/limits/exports", 1)
	first := exports.Acquire(context.Background())
	<-first.Granted()
	second := exports.Acquire(context.Background())
	if err := exports.Resize(context.Background(), 2); err != nil {
		fmt.Println(err)
	}
	<-second.Granted() // nobody has released
	fmt.Println(first.Valid(), second.Valid())
	// Output: true true
}

func ExampleAdoptSize() {
	c, _, stop := exampleServer()
	defer stop()

	old := c.Semaphore("/limits/exports", 2).Acquire(context.Background())
	<-old.Granted()
	// The next version of the program has another default, and does not insist.
	next := c.Semaphore("/limits/exports", 5, coordinator.AdoptSize())
	one := next.Acquire(context.Background())
	<-one.Granted()
	another := next.Acquire(context.Background(), coordinator.Try())
	<-another.Done()
	fmt.Println(another.Err())
	// Output: zkgrant: not acquired
}

func ExampleWithPermits() {
	c, _, stop := exampleServer()
	defer stop()

	for _, n := range []int{0, 4} {
		a := c.Semaphore("/limits/exports", 3).Acquire(context.Background(), coordinator.WithPermits(n))
		fmt.Println(a.Err())
	}
	fmt.Println(c.Mutex("/locks/a").Acquire(context.Background(), coordinator.WithPermits(1)).Err())
	// Output:
	// zkgrant: no such number of permits: 0 of /limits/exports
	// zkgrant: no such number of permits: 4 of /limits/exports, which has 3
	// zkgrant: no such number of permits: /locks/a is no semaphore
}
