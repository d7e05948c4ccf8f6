package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// lockPath is what everybody wants.
const lockPath = "/zkgrant/quickstart"

type options struct {
	zk      *program.ZooKeeper
	hold    time.Duration // how long a contender works
	colours bool
}

// run plays the whole scene and prints it to out. It returns program.ErrInterrupted, with
// everything given back, if ctx ends first; any other error says what went wrong
// or which promise was not kept.
func run(ctx context.Context, out io.Writer, opt options) error {
	names := []string{"ann", "bob", "cid", "dee", "eve"}
	lines := newTimeline(out, opt.colours)
	lines.title("%d contenders for one lock, %s, on %s", len(names), lockPath, opt.zk)

	book := newLedger(names)
	err := play(ctx, names, book, lines, opt)
	if ctx.Err() != nil {
		err = program.ErrInterrupted
	}

	// Whether the scene was played to its end or not: nothing may be left of it.
	left, leftErr := nodesLeft(context.WithoutCancel(ctx), opt)
	if leftErr == nil && left > 0 {
		leftErr = fmt.Errorf("%d nodes are left in %s", left, lockPath)
	}
	if err != nil {
		if leftErr == nil {
			lines.title("nodes left: 0")
		}
		return errors.Join(err, leftErr)
	}
	err = errors.Join(book.verify(), leftErr)
	lines.summary(book, left, leftErr)
	return err
}

// play has the contenders queue up in order, each behind the one before, and
// waits until every one of them has done its work.
func play(ctx context.Context, names []string, book *ledger, lines *timeline, opt options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var crew sync.WaitGroup
	for i, name := range names {
		r := &role{
			name: name, opt: opt, book: book, lines: lines, crew: &crew,
			doomed:  i == len(names)/2,
			inQueue: make(chan struct{}),
			fail:    func(err error) { cancel(fmt.Errorf("%s: %w", name, err)) }, // the others need not go on
		}
		crew.Go(func() {
			if err := contend(ctx, r); err != nil {
				r.fail(err)
			}
		})
		select {
		case <-r.inQueue:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	crew.Wait()
	return context.Cause(ctx)
}
