// Command hello holds a lock until Ctrl-C. Start it twice: the second one waits for the
// first.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/zkgrant/zkgrant/coordinator"
)

func main() {
	servers := flag.String("zk", "localhost:2181", "ZooKeeper's `servers`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	c, err := coordinator.Open(*servers) // connects in the background
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	defer c.Close() // gives the lock back
	log.Println("stopped:", c.Mutex("/locks/hello").Do(ctx, func(ctx context.Context, grant coordinator.Grant) error {
		log.Println("hello, token", grant.Token)
		<-ctx.Done() // work here until the lock is lost, or a signal comes
		return context.Cause(ctx)
	}))
}
