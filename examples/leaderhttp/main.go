package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("leaderhttp", stderr)
	p.For(3 * time.Second)
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk)
	})
}

// run has three instances serve until ctx ends, the first leader for a second only,
// and a customer who orders.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("three instances, of which one leads, on %v", zk)
	all, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	var (
		crew      sync.WaitGroup
		addresses []string
		lives     = map[string]context.CancelFunc{}
	)
	defer crew.Wait()
	defer abort(nil)
	for range 3 {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		address := listener.Addr().String()
		life, end := context.WithCancel(all)
		addresses, lives[address] = append(addresses, address), end
		crew.Go(func() {
			if err := instance(life, say, listener, zk); err != nil && life.Err() == nil {
				abort(fmt.Errorf("%s: %w", address, err))
			}
		})
	}
	customer(all, say, addresses, func(leader string) { lives[leader]() })
	<-all.Done()
	crew.Wait()
	return context.Cause(all)
}
