package coordinator_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
)

// A candidate leads for a while, and anybody hears who does.
func ExampleElection_Terms() {
	c, _, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	election := c.Election("/service/leader")
	leaders := election.Observe(ctx)
	fmt.Println("at first:", (<-leaders).Node == "")
	terms := 0
	for term, err := range election.Terms(ctx, coordinator.WithData([]byte("ann:80"))) {
		must(err)
		leader := <-leaders
		fmt.Printf("%s leads: %v\n", leader.Data, leader.Token == term.Grant().Token)
		must(election.Proclaim(ctx, term, []byte("ann:81")))
		fmt.Printf("%s leads: %v\n", (<-leaders).Data, term.Valid())
		if terms++; terms == 2 {
			break // and is no candidate any more
		}
		term.Release() // and is one again, behind all who wait
		fmt.Println("nobody:", (<-leaders).Node == "")
	}
	fmt.Println("nobody:", (<-leaders).Node == "")
	// Output:
	// at first: true
	// ann:80 leads: true
	// ann:81 leads: true
	// nobody: true
	// ann:80 leads: true
	// ann:81 leads: true
	// nobody: true
}
