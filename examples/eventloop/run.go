package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// lockRoot is where the locks are.
const lockRoot = "/zkgrant/eventloop"

type options struct {
	zk       *program.ZooKeeper
	locks    int           // how many
	hold     time.Duration // how long each is held
	terminal bool          // progress may be written over itself
}

// run connects both sides, has them compete and prints how it goes to out. It
// returns program.ErrInterrupted, with everything given back, if ctx ends first.
func run(ctx context.Context, out io.Writer, opt options) error {
	fmt.Fprintf(out, "two sides, %d locks, one goroutine, on %s\n", opt.locks, opt.zk)

	err := compete(ctx, out, opt)
	if ctx.Err() == nil {
		return err
	}
	if err != nil { // there was nothing to give back yet
		return fmt.Errorf("%w: %w", program.ErrInterrupted, err)
	}
	return program.ErrInterrupted
}

// compete runs the loop between the making and the closing of its coordinators.
// Whatever is held or asked for when the loop ends is given back by Close.
func compete(ctx context.Context, out io.Writer, opt options) error {
	left, err := coordinator.Connect(ctx, opt.zk.Servers, opt.zk.Options()...)
	if err != nil {
		return err
	}
	defer closeSide(out, "left", left)
	right, err := coordinator.Connect(ctx, opt.zk.Servers, opt.zk.Options()...)
	if err != nil {
		return err
	}
	defer closeSide(out, "right", right)
	return newLoop(left, right, out, opt).run(ctx)
}

// closeSide closes a side's coordinator. If no server could be told, that is no
// failure: the servers end the session by themselves, and its nodes with it.
func closeSide(out io.Writer, name string, c *coordinator.Coordinator) {
	if err := c.Close(); err != nil {
		fmt.Fprintf(out, "%s: %v\n", name, err)
	}
}

// alone checks that the sides do not hold the lock together.
func (l *loop) alone(path string) error {
	left, right := l.sides[0].held[path], l.sides[1].held[path]
	if left != nil && right != nil && left.Valid() && right.Valid() {
		return fmt.Errorf("left and right both held %s", path)
	}
	return nil
}

// summary prints how it went.
func (l *loop) summary() {
	took := time.Since(l.begin)
	for _, s := range l.sides {
		l.out.line("%-5s  granted %d, lost %d, waited %v on average",
			s.name, s.grants, s.losses, (s.waited / time.Duration(s.grants)).Round(time.Millisecond))
	}
	grants := l.sides[0].grants + l.sides[1].grants
	l.out.line("%d grants in %v, never both sides at a time", grants, took.Round(time.Millisecond))
}
