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
		w := &writer{name: fmt.Sprintf("writer %d", i+1), pair: nodes, tally: count, say: say}
		m := &mortal{writer: w, connection: zk.NewGate()}
		w.halfway = m.die
		work, rest := m.change, 200*time.Millisecond
		if i >= writers {
			work, rest = (&reader{nodes, count}).look, 50*time.Millisecond
		}
		crew.Go(func() {
			if err := again(ctx, zk, m.connection, work, rest); err != nil {
				abort(err)
			}
		})
	}
	crew.Wait()
	say("%d times written, %d times read; died half-way %d times, repaired %d times, kept %d readers waiting",
		count.written, count.read, count.died, count.repaired, count.waited)
	return context.Cause(ctx)
}
