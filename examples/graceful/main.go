package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("graceful", stderr)
	p.For(2500 * time.Millisecond)
	s := &service{say: func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }}
	p.Flags.DurationVar(&s.each, "item", time.Second, "how long an item takes")
	p.Flags.DurationVar(&s.drain, "drain", 5*time.Second, "how long the item at hand may take after the signal")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, s, zk)
	})
}

// run has the service work until ctx ends.
func run(ctx context.Context, s *service, zk *program.ZooKeeper) error {
	s.say("works on %v", zk)
	c, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return err
	}
	err = s.run(ctx, c)
	began := time.Now()
	if closed := c.Close(); closed != nil { // the servers will end the session by themselves
		s.say("%v", closed)
	} else {
		s.say("the session is ended, after %v", time.Since(began).Round(time.Millisecond))
	}
	return err
}
