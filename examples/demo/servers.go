package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// servers is where the locks are, and what the program can do to it.
type servers struct {
	zk *program.ZooKeeper

	// Fault is the label of the fault; empty if there is none, and then Cannot says why.
	Fault, Cannot string
	// strike does it, and returns when it is undone.
	strike func(context.Context) error
}

// choose returns the servers that the command line asks for. The caller must call closed.
func choose(ctx context.Context, zk *program.ZooKeeper, real bool) (where *servers, closed func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case real && zk.Inside == nil:
		return nil, nil, errors.New("-zk and -ensemble name two places")
	case real:
		return threeServers(ctx, zk.Timeout)
	case zk.Inside == nil:
		return &servers{zk: zk, Cannot: "These servers are yours: kill one by hand, and watch."}, nothing, nil
	default:
		return inside(zk), nothing, nil
	}
}

// inside are the one server of the program. It cannot lose a leader, so it is away for as long as an election may take.
func inside(zk *program.ZooKeeper) *servers {
	const outage = 1500 * time.Millisecond
	return &servers{zk: zk, Fault: "Restart the server", strike: func(ctx context.Context) error {
		zk.Inside.Down(true)
		defer zk.Inside.Down(false)
		return pass(ctx, outage)
	}}
}

// threeServers starts an ensemble.
func threeServers(ctx context.Context, timeout time.Duration) (_ *servers, closed func() error, err error) {
	installation, err := ensemble.Find()
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "zkgrant-demo-")
	if err != nil {
		return nil, nil, err
	}
	e, err := ensemble.Launch(ctx, installation, folder, 3)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	zk, err := program.Open(e.Connect(), timeout)
	closed = func() error { return errors.Join(e.Close(), os.RemoveAll(folder)) }
	if err != nil {
		return nil, nil, errors.Join(err, closed())
	}
	return &servers{zk: zk, Fault: "Kill the leader", strike: func(ctx context.Context) error { return killLeader(ctx, e) }}, closed, nil
}

// killLeader kills the leader. It comes back as a follower.
func killLeader(ctx context.Context, e *ensemble.Ensemble) error {
	const gone = 5 * time.Second
	leader, err := e.Leader(ctx)
	if err != nil {
		return err
	}
	if err := e.Kill(leader); err != nil {
		return err
	}
	return errors.Join(pass(ctx, gone), e.Restart(leader), e.Wait(ctx))
}

// pass lets the time pass, or returns nil at the end of ctx.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return nil
}

// String says where it is.
func (s *servers) String() string {
	if s.strike != nil && s.zk.Inside == nil {
		return fmt.Sprintf("three servers started by this program, at %s", s.zk.Servers)
	}
	return s.zk.String()
}
