package bridge_test

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A program leads until it has to stop.
func ExampleRun() {
	srv, err := zktest.New()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	ctx, shutdown := context.WithCancel(context.Background()) // in a service: signal.NotifyContext
	c, err := coordinator.Connect(ctx, srv.Addr())
	if err != nil {
		panic(err)
	}
	defer c.Close()

	err = bridge.Run(ctx, c.Election("/service/leader"), bridge.Callbacks{
		OnStartedLeading: func(ctx context.Context) {
			fmt.Println("leads")
			shutdown()
			<-ctx.Done() // also ends when the term is lost
			fmt.Println("has ended its work")
		},
		OnStoppedLeading: func() { fmt.Println("leads no more") },
	}, coordinator.Data([]byte("ann:80")))
	fmt.Println(err)
	// Output:
	// leads
	// has ended its work
	// leads no more
	// context canceled
}
