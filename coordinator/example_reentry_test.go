package coordinator_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// A function takes the lock that it needs, whether or not its caller has it already: the
// context tells.
func ExampleReentrant() {
	c, srv, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/accounts", coordinator.Reentrant())
	balance := map[string]int{"a": 10, "b": 0}
	var tokens []int64
	add := func(ctx context.Context, account string, amount int) error {
		return lock.Do(ctx, func(_ context.Context, g events.Grant) error {
			balance[account] += amount
			tokens = append(tokens, g.Token)
			return nil
		})
	}
	must(lock.Do(context.Background(), func(ctx context.Context, g events.Grant) error {
		tokens = append(tokens, g.Token)
		err := errors.Join(add(ctx, "a", -5), add(ctx, "b", 5))
		fmt.Println("nodes:", len(srv.Children("/locks/accounts")))
		return err
	}))
	fmt.Println(balance, "one token:", tokens[0] == tokens[1] && tokens[1] == tokens[2])

	must(add(context.Background(), "b", 1)) // by itself it takes the lock
	fmt.Println(balance, "another token:", tokens[3] > tokens[2])
	// Output:
	// nodes: 1
	// map[a:5 b:5] one token: true
	// map[a:5 b:6] another token: true
}

// Whatever is held longer than the acquisition that it was entered by keeps the lock. Work
// under it needs a context that is not cancelled with that one.
func ExampleReentrant_handOn() {
	c, _, stop := exampleServer()
	defer stop()

	lock := c.Mutex("/locks/a", coordinator.Reentrant())
	first, grant := held(lock)
	second := lock.Acquire(first.Context(context.Background()))
	again, err := second.Wait(context.Background())
	must(err)
	work := second.Context(context.Background())

	first.Release()
	<-first.Done()
	fmt.Println("held:", second.Valid(), work.Err() == nil, again.Token == grant.Token)
	second.Release()
	fmt.Println("held:", second.Valid(), errors.Is(context.Cause(work), coordinator.ErrReleased))
	// Output:
	// held: true true true
	// held: false true
}
