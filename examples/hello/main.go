// Command hello holds a lock until Ctrl-C. Start it twice: the second process waits for
// the first.
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
	context.AfterFunc(ctx, stop)         // a second signal is not caught
	c, err := coordinator.Open(*servers) // connects in the background
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() // after Do has released the lock
	log.Println("stopped:", c.Mutex("/locks/hello").Do(ctx, func(ctx context.Context, grant coordinator.Grant) error {
		log.Println("hello, token", grant.Token)
		<-ctx.Done() // work here; ctx ends if the lock is lost, or on a signal
		return context.Cause(ctx)
	}))
}
