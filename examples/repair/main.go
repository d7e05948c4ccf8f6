package main

import (
	"context"
	"errors"
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
	p := program.New("repair", stderr)
	p.For(20 * time.Second)
	writers := p.Flags.Int("writers", 2, "how many writers, who die now and then")
	readers := p.Flags.Int("readers", 3, "how many readers")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *writers, *readers)
	})
}

// tally counts.
type tally struct {
	mu                                    sync.Mutex
	written, died, repaired, read, waited int
}

func (t *tally) add(what *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*what++
}

// run has everybody at work until ctx ends, each with a session of its own. It returns an error if somebody has seen
// the two nodes at odds.
func run(ctx context.Context, out io.Writer, zk *program.ZooKeeper, writers, readers int) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("%d writers, %d readers, two nodes, on %v", writers, readers, zk)
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)

	nodes, done, err := open(context.WithoutCancel(ctx), zk)
	if err != nil {
		return err
	}
	defer done()
	count := &tally{}
	if err := with(ctx, zk, zk.NewGate(), func(lock *coordinator.ReadWrite) error { return prepare(ctx, lock) }); err != nil {
		return unlessEnded(ctx, err)
	}
	var crew sync.WaitGroup
	for i := range writers + readers {
		w := &writer{name: fmt.Sprintf("writer %d", i+1), pair: nodes, tally: count, say: say, connection: zk.NewGate()}
		work, rest := w.change, 200*time.Millisecond
		if i >= writers {
			work, rest = (&reader{nodes, count}).look, 50*time.Millisecond
		}
		crew.Go(func() {
			if err := again(ctx, zk, w.connection, work, rest); err != nil {
				abort(err)
			}
		})
	}
	crew.Wait()
	say("%d times written, %d times read; died half-way %d times, repaired %d times, kept %d readers waiting",
		count.written, count.read, count.died, count.repaired, count.waited)
	return context.Cause(ctx)
}

// again has somebody work until ctx ends, and come back as another process when he has died.
func again(
	ctx context.Context, zk *program.ZooKeeper, connection *program.Gate, work func(context.Context, *coordinator.ReadWrite) error, rest time.Duration,
) error {
	for ctx.Err() == nil {
		err := with(ctx, zk, connection, func(lock *coordinator.ReadWrite) error {
			for ctx.Err() == nil {
				var lost *coordinator.LostError
				switch err := work(ctx, lock); {
				case errors.As(err, new(*brokenError)):
					return err
				case errors.Is(err, errDead), errors.As(err, &lost):
					return nil
				case err != nil:
					return err
				}
				select {
				case <-time.After(rest):
				case <-ctx.Done():
				}
			}
			return nil
		})
		if err := unlessEnded(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// with connects, as one process, and has something done with the lock.
func with(ctx context.Context, zk *program.ZooKeeper, connection *program.Gate, do func(*coordinator.ReadWrite) error) error {
	connection.Open()
	c, err := coordinator.Connect(ctx, zk.Servers, append(zk.Options(), coordinator.WithDialer(connection.DialContext))...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // if the servers cannot be reached they end the session by themselves
	return do(c.ReadWrite(pairLock, coordinator.DetectCrash()))
}

// unlessEnded returns an error, unless ctx has ended: then it says no more than that.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.As(err, new(*brokenError)) {
		return nil
	}
	return err
}
