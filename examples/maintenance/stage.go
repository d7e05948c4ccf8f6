package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

type options struct {
	tables       int
	each         time.Duration
	after, grace time.Duration
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("maintenance", stderr)
	var opt options
	p.Flags.IntVar(&opt.tables, "tables", 5, "how many tables there are")
	p.Flags.DurationVar(&opt.each, "table", 500*time.Millisecond, "how long a table takes")
	p.Flags.DurationVar(&opt.after, "after", 1200*time.Millisecond, "when the operator comes")
	p.Flags.DurationVar(&opt.grace, "grace", 2*time.Second, "how long it lets the job go on")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		var mu sync.Mutex // the job and the operator both print
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(stdout, format+"\n", args...)
		}
		return run(ctx, zk, opt, &job{tables: opt.tables, each: opt.each, say: say})
	})
}

// run runs the job, and the operator once, until all tables are copied or ctx ends.
func run(ctx context.Context, zk *program.ZooKeeper, opt options, j *job) (err error) {
	j.say("works on %v", zk)
	jobs, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.Close()) }()
	operators, err := coordinator.Connect(ctx, zk.Servers, zk.Options()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operators.Close()) }()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	var crew sync.WaitGroup
	crew.Go(func() {
		select {
		case <-time.After(opt.after):
		case <-ctx.Done():
			return
		}
		if err := maintain(ctx, operators, opt.grace, j.say); err != nil {
			abort(err)
		}
	})
	if err := j.run(ctx, jobs); err != nil {
		abort(err)
	}
	crew.Wait()
	j.say("copied %d, abandoned %d", j.copied, j.abandoned)
	return context.Cause(ctx)
}
