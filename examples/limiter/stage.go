package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

type options struct {
	limit, raised int
	raise         time.Duration // when to raise it; never, if the program ends before
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
			if err := zk.Process(ctx, nil, func(c *coordinator.Coordinator) error {
				return instance(ctx, i, say, c, opt, use)
			}); err != nil {
				abort(fmt.Errorf("instance %d: %w", i+1, err))
			}
		})
	}
	crew.Wait()
	say("%d small jobs and %d big ones; at most %d permits in use", use.small, use.big, use.most)
	return context.Cause(ctx)
}

// instance stands for one process of the service. The first instance sets the number of permits.
func instance(ctx context.Context, number int, say func(string, ...any), c *coordinator.Coordinator, opt options, use *usage) error {
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

// raise raises the number of permits once its time has come.
func raise(ctx context.Context, permits *coordinator.Semaphore, opt options, say func(string, ...any)) error {
	select {
	case <-time.After(opt.raise):
	case <-ctx.Done():
		return nil
	}
	if err := permits.Resize(ctx, opt.raised); err != nil {
		return err
	}
	say("there are %d permits now", opt.raised)
	return nil
}

// job returns a job of a size. It fails the program if there are more permits in use than the limit.
func (u *usage) job(name string, size int, say func(string, ...any)) func(context.Context, events.Grant) error {
	return func(ctx context.Context, grant events.Grant) error {
		done, err := u.begin(size)
		if err != nil {
			u.fail(err)
			return err
		}
		defer done()
		if size > 1 {
			say("%s  a big job begins, after %v; %d permits in use", name, grant.Waited.Round(time.Millisecond), u.now())
		}
		select {
		case <-time.After(time.Duration(size) * 40 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// usage counts the permits in use. It is for the show: no service needs it.
type usage struct {
	limit int
	fail  func(error) // ends the program

	mu         sync.Mutex
	used, most int
	small, big int
}

// begin counts a job, and done its end. It returns an error if there are more permits in use than the limit.
func (u *usage) begin(size int) (done func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used+size > u.limit {
		return nil, fmt.Errorf("%d permits are in use, and there are %d", u.used+size, u.limit)
	}
	u.used += size
	u.most = max(u.most, u.used)
	if size == 1 {
		u.small++
	} else {
		u.big++
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.used -= size
	}, nil
}

func (u *usage) now() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used
}
