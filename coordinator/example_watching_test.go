package coordinator_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A program that leads until it is told to stop.
func ExampleElection_Run() {
	c, _, stop := exampleServer()
	defer stop()
	ctx, shutdown := context.WithCancel(context.Background()) // in a service: signal.NotifyContext

	err := c.Election("/service/leader").Run(ctx, coordinator.Callbacks{
		OnStartedLeading: func(ctx context.Context) {
			fmt.Println("leads")
			shutdown()
			<-ctx.Done() // so it does when the term is lost
			fmt.Println("has ended its work")
		},
		OnStoppedLeading: func() { fmt.Println("leads no more") },
	}, coordinator.WithData([]byte("ann:80")))
	fmt.Println(err)
	// Output:
	// leads
	// has ended its work
	// leads no more
	// context canceled
}

// Reading the stream for a board changes nothing for those who ask for locks.
func ExamplePassive() {
	c, _, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	news := c.Events(ctx, coordinator.Passive())

	lock := c.Mutex("/locks/reindex").Acquire(ctx)
	for ev := range news {
		switch ev := ev.(type) {
		case events.Grant:
			fmt.Println("granted:", ev.Path)
			lock.Release() // before anybody has read lock.Granted()
		case events.Ended:
			fmt.Println("ended:", ev.Err)
			cancel() // which closes the stream
		}
	}
	// Output:
	// granted: /locks/reindex
	// ended: zkgrant: not acquired
}

// counter counts what is asked for by the kind of lock.
type counter map[string]int

func (c counter) OnAcquire(_ context.Context, info coordinator.AcquireInfo) { c[info.Kind]++ }

func ExampleWithHooks() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	asked := counter{}
	ctx := context.Background()
	c, err := coordinator.Connect(ctx, srv.Addr(), coordinator.WithHooks(asked))
	must(err)
	held(c.Mutex("/locks/reindex"))
	held(c.Unfair("/tasks/17"))
	must(c.Close())
	fmt.Println(asked)
	// Output:
	// map[mutex:1 unfair:1]
}

func ExampleWithSlog() {
	srv, err := zktest.New()
	must(err)
	defer srv.Close()
	log := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "session" || a.Key == "epoch" || a.Key == "server" {
				return slog.Attr{} // another one each time
			}
			return a
		},
	})
	c, err := coordinator.Connect(context.Background(), srv.Addr(), coordinator.WithSlog(log))
	must(err)
	must(c.Close())
	// Output:
	// level=INFO msg="session established" timeout=10s
	// level=INFO msg="session closed" confirmed=true
}
