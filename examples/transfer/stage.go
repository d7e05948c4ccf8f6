package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// names are the accounts, and each begins with start.
var names = [...]string{"anna", "ben", "carla", "dan"}

const start = 1000

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	p := program.New("transfer", stderr)
	p.For(4 * time.Second)
	tellers := p.Flags.Int("tellers", 6, "how many move money at the same time")
	return p.Run(args, func(ctx context.Context, zk *program.ZooKeeper) error {
		return run(ctx, stdout, zk, *tellers)
	})
}

// tally counts how the transfers ended. If an outcome is unknown, either both accounts were changed or none.
type tally struct{ moved, refused, lost, unknown atomic.Int64 }

// run has the tellers move money until ctx ends, and adds the accounts up.
func run(ctx context.Context, out io.Writer, servers *program.ZooKeeper, tellers int) error {
	fmt.Fprintf(out, "%d tellers, %d accounts, on %v\n", tellers, len(names), servers)
	reads, root, closed, err := servers.Client() //nolint:contextcheck // it is closed behind whatever ctx ends
	if err != nil {
		return err
	}
	defer closed()
	if err := open(reads, root); err != nil {
		return err
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	var working sync.WaitGroup
	var done tally
	for i := range tellers {
		working.Go(func() {
			// Each teller has its own session, as if it were a process.
			if err := servers.Process(ctx, nil, func(c *coordinator.Coordinator) error {
				return teller(ctx, &bank{c: c, reads: reads, root: root}, uint64(i), &done)
			}); err != nil {
				abort(fmt.Errorf("teller %d: %w", i, err))
			}
		})
	}
	working.Wait()
	fmt.Fprintf(out, "%d transfers, %d refused for lack of money, %d that a loss prevented, %d of unknown outcome\n",
		done.moved.Load(), done.refused.Load(), done.lost.Load(), done.unknown.Load())
	sum := 0
	b := &bank{reads: reads, root: root}
	for _, name := range names {
		a, err := b.balance(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-6s has %5d\n", name, a.amount)
		sum += a.amount
	}
	if sum != start*len(names) {
		return fmt.Errorf("there are %d, and there were %d", sum, start*len(names))
	}
	fmt.Fprintf(out, "together %d, as in the beginning\n", sum)
	return context.Cause(ctx)
}

// teller moves money to and fro until ctx ends.
func teller(ctx context.Context, b *bank, seed uint64, done *tally) error {
	random := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		pair := random.Perm(len(names))
		var lost *coordinator.LostError
		switch err := b.transfer(ctx, names[pair[0]], names[pair[1]], 1+random.IntN(300)); {
		case err == nil:
			done.moved.Add(1)
		case errors.Is(err, errNoFunds):
			done.refused.Add(1)
		case errors.Is(err, coordinator.ErrOutcomeUnknown): // a loss, or the end of ctx, came before the answer
			done.unknown.Add(1)
		case errors.As(err, &lost), errors.Is(err, zk.ErrBadVersion):
			done.lost.Add(1)
		case ctx.Err() != nil:
		default:
			return err
		}
	}
	return nil
}

// open makes the accounts, or sets them back to their first balances.
func open(c *zk.Conn, root string) error {
	for _, name := range names {
		node, amount := root+path.Join(accountRoot, name), []byte(strconv.Itoa(start))
		if err := makeAll(c, path.Dir(node)); err != nil {
			return err
		}
		_, err := c.Create(node, amount, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = c.Set(node, amount, -1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func makeAll(c *zk.Conn, node string) error {
	if node == "/" {
		return nil
	}
	if err := makeAll(c, path.Dir(node)); err != nil {
		return err
	}
	_, err := c.Create(node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
