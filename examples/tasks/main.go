package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
)

type options struct {
	tasks, workers int
	each           time.Duration // a task takes
}

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("tasks", stderr)
	var opt options
	p.Flags.IntVar(&opt.tasks, "tasks", 100, "how many tasks")
	p.Flags.IntVar(&opt.workers, "workers", 8, "how many workers, one of whom dies")
	p.Flags.DurationVar(&opt.each, "task", 50*time.Millisecond, "how long a task takes")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, opt)
	})
}

// run has the tasks done, or as many of them as are done before ctx ends. It returns
// an error if one was done twice, or begun by two at the same time.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, opt options) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("%d tasks, %d workers, on %v", opt.tasks, opt.workers, zk)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	tasks := newBoard(opt.tasks)
	var crew sync.WaitGroup
	for i := range opt.workers {
		w := &worker{name: fmt.Sprintf("worker %d", i+1), tasks: tasks, work: wait(opt.each), pause: opt.each, say: say}
		connection := zk.NewGate()
		if i == 0 {
			w.work = dying(3, w.work, connection.Shut)
		}
		crew.Go(func() {
			err := connect(ctx, w, zk, connection)
			if err != nil && ctx.Err() == nil {
				abort(fmt.Errorf("%s: %w", w.name, err))
			}
		})
	}
	crew.Wait()
	begun, done, again := tasks.counts()
	say("%d tasks done, each once; begun %d times, of which again: %v", done, begun, again)
	return context.Cause(ctx)
}
