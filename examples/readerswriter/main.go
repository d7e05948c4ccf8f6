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
	p := program.New("readerswriter", stderr)
	p.For(3 * time.Second)
	readers := p.Flags.Int("readers", 4, "how many readers")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *readers)
	})
}

// run has readers, two writers and an editor at work until ctx ends, each with a session of its
// own. It returns an error if one of them saw what it must not see.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, readers int) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("%d readers, two writers, an editor, one table, on %v", readers, zk)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	prices := &table{fail: abort}
	var crew sync.WaitGroup
	for i := range readers + 3 {
		p := &person{name: fmt.Sprintf("reader %d", i+1), prices: prices, say: say}
		work := p.read
		switch {
		case i == readers+2:
			p.name, work = "editor", p.revise
		case i >= readers:
			p.name = fmt.Sprintf("writer %d", i-readers+1)
			work = p.write
		}
		crew.Go(func() {
			if err := p.run(ctx, zk, work); err != nil {
				abort(fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
	crew.Wait()
	say("%d times written, %d times read; at most %d read at a time", prices.written, prices.read, prices.most)
	return context.Cause(ctx)
}

// run has the person connect and work again and again, until ctx ends.
func (p *person) run(ctx context.Context, zk *program.ZooKeeper, work func(context.Context, *coordinator.ReadWrite) error) error {
	c, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return program.UnlessEnded(ctx, err)
	}
	defer func() {
		if err := c.Close(); err != nil { // the servers will end the session by themselves
			p.say("%s  %v", p.name, err)
		}
	}()
	lock := c.ReadWrite(pricesLock)
	for ctx.Err() == nil {
		if err := work(ctx, lock); err != nil {
			return program.UnlessEnded(ctx, err)
		}
	}
	return nil
}
