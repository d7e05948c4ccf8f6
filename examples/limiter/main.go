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

type options struct {
	limit, raised int
	raise         time.Duration // when; never, if that is longer than it goes on
}

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("limiter", stderr)
	p.For(4 * time.Second)
	var opt options
	p.Flags.IntVar(&opt.limit, "limit", 4, "how many permits there are, at least 3")
	p.Flags.IntVar(&opt.raised, "raised", 6, "how many there are later")
	p.Flags.DurationVar(&opt.raise, "raise", 2*time.Second, "when that is")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, opt)
	})
}

// run has three instances of five workers each work until ctx ends.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, opt options) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("three instances, five workers each, %d permits, on %v", opt.limit, zk)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	use := &usage{limit: max(opt.limit, opt.raised), fail: abort}
	var crew sync.WaitGroup
	for i := range 3 {
		crew.Go(func() {
			if err := instance(ctx, i, say, zk, opt, use); err != nil && ctx.Err() == nil {
				abort(fmt.Errorf("instance %d: %w", i+1, err))
			}
		})
	}
	crew.Wait()
	small, big, most := use.counts()
	say("%d small jobs and %d big ones; at most %d permits in use", small, big, most)
	return context.Cause(ctx)
}

// instance is one process of the service, as it were. The first of them says how
// many permits there are.
func instance(ctx context.Context, number int, say func(string, ...any), zk *program.ZooKeeper, opt options, use *usage) error {
	c, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Close(); err != nil { // the servers will end the session by themselves
			say("instance %d: %v", number+1, err)
		}
	}()
	permits, err := semaphore(ctx, c, opt.limit, number == 0)
	if err != nil {
		return err
	}

	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	var crew sync.WaitGroup
	if number == 0 {
		crew.Go(func() {
			if err := raise(ctx, permits, opt, say); err != nil {
				abort(err)
			}
		})
	}
	for w := range 5 {
		crew.Go(func() {
			size := 1
			if w == 0 {
				size = 3
			}
			name := fmt.Sprintf("worker %d.%d", number+1, w+1)
			worker := &worker{name, size, use.job(name, size, say), say}
			if err := worker.run(ctx, permits); err != nil {
				abort(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	crew.Wait()
	return context.Cause(ctx)
}

// raise raises the number of permits when it is time.
func raise(ctx context.Context, permits *coordinator.Semaphore, opt options, say func(string, ...any)) error {
	select {
	case <-time.After(opt.raise):
	case <-ctx.Done():
		return nil
	}
	if err := permits.Resize(ctx, opt.raised); err != nil {
		return program.UnlessEnded(ctx, err)
	}
	say("there are %d permits now", opt.raised)
	return nil
}
