package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// servers are the locks' ZooKeeper servers, and the fault that the program can cause
// there.
type servers struct {
	zk   *program.ZooKeeper
	tick time.Duration // the servers' tickTime; 0 if unknown

	// Fault is the label of the fault. If it is empty, there is none, and Cannot says
	// why.
	Fault, Cannot string
	// strike causes the fault, and returns once it is undone.
	strike func(context.Context) error
}

// ticks is the session timeout in ticks, if this program starts the servers. It is the
// ratio of the defaults, 10 s and 2 s.
const ticks = 5

// options returns the options for a coordinator on these servers.
func (s *servers) options(more ...coordinator.Option) []coordinator.Option {
	options := s.zk.Options()
	if s.tick > 0 {
		options = append(options, coordinator.WithTickTime(s.tick))
	}
	return append(options, more...)
}

// choose returns the servers that the command line asks for. The caller must call closed.
func choose(ctx context.Context, zk *program.ZooKeeper, three bool) (where *servers, closed func() error, err error) {
	switch {
	case three && zk.Inside == nil:
		return nil, nil, errors.New("-zk and -ensemble name two places")
	case three:
		return threeServers(ctx, zk.Timeout)
	case zk.Inside == nil:
		return &servers{zk: zk, Cannot: "These servers are yours: kill one by hand, and watch."}, func() error { return nil }, nil
	default:
		return inside(zk.Timeout)
	}
}

// inside starts one server in this process. It has no leader to lose, so its fault is to
// be down for the time of an election.
func inside(timeout time.Duration) (_ *servers, closed func() error, err error) {
	tick := timeout / ticks
	server, err := zktest.New(zktest.Tick(tick))
	if err != nil {
		return nil, nil, err
	}
	s := &servers{zk: program.Within(server, timeout), tick: tick, Fault: "Restart the server"}
	s.strike = func(ctx context.Context) error {
		server.Down(true)
		defer server.Down(false)
		pass(ctx, tick)
		return nil
	}
	return s, func() error { server.Close(); return nil }, nil
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
	tick := timeout / ticks
	e, err := ensemble.Launch(ctx, installation, folder, 3, ensemble.Tick(tick))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	zk, err := program.Open(e.Connect(), timeout)
	closed = func() error { return errors.Join(e.Close(), os.RemoveAll(folder)) }
	if err != nil {
		return nil, nil, errors.Join(err, closed())
	}
	strike := func(ctx context.Context) error { return killLeader(ctx, e) }
	return &servers{zk: zk, tick: tick, Fault: "Kill the leader", strike: strike}, closed, nil
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
	pass(ctx, gone)
	return errors.Join(e.Restart(leader), e.Wait(ctx))
}

// pass waits for d, or until ctx ends.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// String names the servers.
func (s *servers) String() string {
	if s.strike != nil && s.zk.Inside == nil {
		return fmt.Sprintf("three servers started by this program, at %s", s.zk.Servers)
	}
	return s.zk.String()
}
