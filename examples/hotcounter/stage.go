package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

const (
	processes  = 2
	goroutines = 64 // in each process
)

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("hotcounter", stderr)
	increments := p.Flags.Int("increments", 4000, "how many, with Cached and without it")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *increments)
	})
}

// run counts first without Cached, and then with it.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, increments int) error {
	fmt.Fprintf(out, "%d processes, %d goroutines each, on %v\n", processes, goroutines, zk)
	folder, err := os.MkdirTemp("", "hotcounter")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, way := range []*race{
		{name: "without Cached", lock: plainLock},
		{name: "with Cached", lock: cachedLock, options: []coordinator.LockOption{coordinator.Cached()}},
	} {
		way.zk, way.increments = zk, int64(increments)
		way.file = filepath.Join(folder, filepath.Base(way.lock))
		if err := way.run(ctx, out); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

// race is one counter, to which both processes add until it has the wanted number.
type race struct {
	name       string
	lock, file string
	options    []coordinator.LockOption
	zk         *program.ZooKeeper
	increments int64

	begun    atomic.Int64 // increments
	done     [processes]atomic.Int64
	requests atomic.Int64
}

// OnRequest counts requests.
func (r *race) OnRequest(coordinator.RequestInfo) { r.requests.Add(1) }

// run returns an error if the counter does not have the number that it should have.
func (r *race) run(ctx context.Context, out io.Writer) error {
	began := time.Now()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	var working sync.WaitGroup
	for i := range processes {
		working.Go(func() {
			if err := r.process(ctx, i); err != nil {
				abort(fmt.Errorf("process %d: %w", i+1, err))
			}
		})
	}
	working.Wait()
	took := time.Since(began)

	c, err := openCounter(r.file)
	if err != nil {
		return err
	}
	defer c.file.Close()
	now, err := c.read()
	if err != nil {
		return err
	}
	first, second := r.done[0].Load(), r.done[1].Load()
	fmt.Fprintf(out, "%-14s  %d increments (%d and %d) took %d requests, %v\n",
		r.name, first+second, first, second, r.requests.Load(), took.Round(time.Millisecond))
	if now.Value != first+second {
		return fmt.Errorf("the counter has %d, and was incremented %d times", now.Value, first+second)
	}
	return context.Cause(ctx)
}

// process stands for one process: it has its own session and its own open file.
func (r *race) process(ctx context.Context, number int) error {
	c, err := openCounter(r.file)
	if err != nil {
		return err
	}
	defer c.file.Close()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	err = r.zk.Process(ctx, nil, func(zk *coordinator.Coordinator) error {
		lock := zk.Mutex(r.lock, r.options...)
		var working sync.WaitGroup
		for range goroutines {
			working.Go(func() {
				for ctx.Err() == nil && r.begun.Add(1) <= r.increments {
					if err := r.increment(ctx, lock, c, number); err != nil && ctx.Err() == nil {
						abort(err)
					}
				}
			})
		}
		working.Wait()
		return nil
	}, coordinator.WithHooks(r))
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// increment adds one, and asks again if it loses the lock before it has added.
func (r *race) increment(ctx context.Context, lock *coordinator.Lock, c *counter, number int) error {
	for {
		added := false
		err := lock.Do(ctx, func(_ context.Context, g events.Grant) error {
			if err := c.increment(g); err != nil {
				return err
			}
			added = true
			r.done[number].Add(1)
			return nil
		})
		if !errors.As(err, new(*coordinator.LostError)) {
			return err
		}
		if added {
			return nil
		}
	}
}
