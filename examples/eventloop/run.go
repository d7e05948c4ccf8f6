package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// lockRoot is where the locks are.
const lockRoot = "/zkgrant/eventloop"

// errInterrupted says that the program was told to stop before it was through.
var errInterrupted = errors.New("interrupted")

type options struct {
	servers  string        // empty: start one in this process
	locks    int           // how many
	hold     time.Duration // how long each is held
	timeout  time.Duration // of the sessions
	terminal bool          // progress may be written over itself
}

// run connects both sides, has them compete and prints how it goes to out. It
// returns errInterrupted, with everything given back, if ctx ends first.
func run(ctx context.Context, out io.Writer, opt options) error {
	where := "ZooKeeper at " + opt.servers
	if opt.servers == "" {
		server, err := zktest.New()
		if err != nil {
			return err
		}
		defer server.Close()
		opt.servers = server.Addr()
		where = "a ZooKeeper inside this program"
	}
	fmt.Fprintf(out, "two sides, %d locks, one goroutine, on %s\n", opt.locks, where)

	err := compete(ctx, out, opt)
	if ctx.Err() == nil {
		return err
	}
	if err != nil { // there was nothing to give back yet
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return errInterrupted
}

// compete runs the loop between the making and the closing of its coordinators.
// Whatever is held or asked for when the loop ends is given back by Close.
func compete(ctx context.Context, out io.Writer, opt options) error {
	timeout := coordinator.WithSessionTimeout(opt.timeout)
	left, err := coordinator.Connect(ctx, opt.servers, timeout)
	if err != nil {
		return err
	}
	defer closeSide(out, "left", left)
	right, err := coordinator.Connect(ctx, opt.servers, timeout)
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
