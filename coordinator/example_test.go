package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// exampleServer stands in for an ensemble. A program would name its servers:
// coordinator.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181/app").
func exampleServer() (c *coordinator.Coordinator, srv *zktest.Server, stop func()) {
	srv, err := zktest.New()
	if err != nil {
		log.Fatal(err)
	}
	c, err = coordinator.Connect(context.Background(), srv.Addr(), coordinator.WithSessionTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return c, srv, func() {
		if err := c.Close(); err != nil {
			log.Print(err)
		}
		srv.Close()
	}
}

// The whole loop: a lock is asked for, granted, lost, and over.
func Example() {
	c, srv, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/reindex").Acquire(context.Background())
	defer lock.Release()
	for {
		select {
		case grant := <-lock.Granted():
			fmt.Println("granted", grant.Path, "valid:", lock.Valid())
			if err := srv.Expire(c.SessionID()); err != nil { // an accident
				log.Print(err)
			}
		case lost := <-lock.Lost():
			fmt.Println("lost:", lost.Reason, "valid:", lock.Valid())
		case <-lock.Done():
			select {
			case lost := <-lock.Lost(): // both were ready
				fmt.Println("lost:", lost.Reason, "valid:", lock.Valid())
			default:
			}
			fmt.Println("over:", lock.Err())
			return
		}
	}
	// Output:
	// granted /locks/reindex valid: true
	// lost: session expired valid: false
	// over: zkgrant: lock /locks/reindex lost: session expired
}

func ExampleLock_Do() {
	c, _, stop := exampleServer()
	defer stop()

	err := c.Mutex("/locks/report").Do(context.Background(), func(ctx context.Context, g events.Grant) error {
		fmt.Println("working under", g.Path, "until done or", ctx.Err())
		return nil
	})
	fmt.Println(err)
	// Output:
	// working under /locks/report until done or <nil>
	// <nil>
}

func ExampleAcquisition_Wait() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/import").Acquire(context.Background())
	grant, err := lock.Wait(context.Background())
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println("a token to fence with:", grant.Token > 0)
	lock.Release()
	<-lock.Done() // the node is gone
	fmt.Println(lock.Err())
	// Output:
	// a token to fence with: true
	// <nil>
}

func ExampleTry() {
	c, _, stop := exampleServer()
	defer stop()

	first := c.Mutex("/locks/nightly").Acquire(context.Background())
	if _, err := first.Wait(context.Background()); err != nil {
		log.Print(err)
		return
	}
	second := c.Mutex("/locks/nightly").Acquire(context.Background(), coordinator.Try())
	<-second.Done()
	fmt.Println(errors.Is(second.Err(), coordinator.ErrNotAcquired))
	// Output: true
}

// Who holds the lock, who waits for it, and since when.
func ExampleLock_Queue() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/nightly")
	first := lock.Acquire(context.Background(), coordinator.WithData([]byte("host-1, pid 17")))
	if _, err := first.Wait(context.Background()); err != nil {
		log.Print(err)
		return
	}
	second := lock.Acquire(context.Background(), coordinator.WithData([]byte("host-2, pid 4711")))
	defer second.Release()
	var queue []events.Contender
	for len(queue) < 2 { // until the server has the second one's node
		var err error
		if queue, err = lock.Queue(context.Background()); err != nil {
			log.Print(err)
			return
		}
	}
	for _, who := range queue {
		fmt.Printf("%s, holding: %v, for less than a minute: %v\n", who.Data, who.Holding, time.Since(who.Since) < time.Minute)
	}
	// Output:
	// host-1, pid 17, holding: true, for less than a minute: true
	// host-2, pid 4711, holding: false, for less than a minute: true
}

// One loop for any number of locks.
func ExampleCoordinator_Events() {
	c, _, stop := exampleServer()
	defer stop()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream := c.Events(ctx)
	locks := map[uint64]*coordinator.Acquisition{}
	for i := range 3 {
		lock := c.Mutex(fmt.Sprintf("/shards/%d", i)).Acquire(ctx)
		locks[lock.ID()] = lock
	}
	held := 0
	for len(locks) > 0 {
		switch ev := (<-stream).(type) {
		case events.Grant:
			held++
			locks[ev.ID].Release() // the work would come first
		case events.Lost:
			delete(locks, ev.ID)
		case events.Ended:
			delete(locks, ev.ID)
		}
	}
	fmt.Println("held", held)
	// Output: held 3
}
