package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("twolocks", stderr)
	p.For(4 * time.Second)
	first := p.Flags.Duration("first", 2*time.Second, "how long the first instance works")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *first)
	})
}

// run has two instances of the service, each with a session of its own, until ctx
// ends; the first one only for a while.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, first time.Duration) error {
	fmt.Fprintf(out, "two locks, two instances, on %v\n", zk)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	short, cancel := context.WithTimeout(ctx, first)
	defer cancel()

	var instances sync.WaitGroup
	start := func(ctx context.Context, name string) {
		instances.Go(func() {
			if err := instance(ctx, name, out, zk); err != nil {
				abort(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	start(short, "first")
	start(ctx, "second")
	instances.Wait()
	return context.Cause(ctx)
}

// instance is one process of the service, as it were.
func instance(ctx context.Context, name string, out io.Writer, zk *program.ZooKeeper) error {
	c, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return program.UnlessEnded(ctx, err)
	}
	defer func() {
		if err := c.Close(); err != nil { // the servers will end the session by themselves
			fmt.Fprintf(out, "%s: %v\n", name, err)
		}
	}()
	err = serve(ctx, c, func(format string, args ...any) { fmt.Fprintf(out, "%-6s  %s\n", name, fmt.Sprintf(format, args...)) })
	return program.UnlessEnded(ctx, err)
}
