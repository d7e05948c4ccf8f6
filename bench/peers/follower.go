package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// members is the number of servers in a ZooKeeper ensemble or an etcd cluster.
const members = 3

// Follower is a ZooKeeper server with a distant leader. The third server is near the
// leader, so the leader needs no distant server to commit. Elections are not delayed.
type Follower struct {
	Server

	leader int
	ways   map[way]*ensemble.Proxy // between each pair of servers
}

// way is the direction from one server to another.
type way struct{ from, to int }

// StartFollower starts three servers in a folder below parent, or in the default
// temporary directory if parent is empty. The caller must Close the Follower, which stops
// all of them. The error wraps [ensemble.ErrNotFound] if there is no ZooKeeper on this
// machine.
func StartFollower(ctx context.Context, parent string, settings ...ensemble.Setting) (*Follower, error) {
	f := &Follower{ways: make(map[way]*ensemble.Proxy)}
	if err := f.start(ctx, parent, settings); err != nil {
		return nil, errors.Join(fmt.Errorf("peers: %w", err), f.Close())
	}
	return f, nil
}

func (f *Follower) start(ctx context.Context, parent string, settings []ensemble.Setting) error {
	var failed []error
	through := ensemble.QuorumVia(func(from, to, port int) int {
		p, err := ensemble.NewProxy(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			failed = append(failed, err)
			return port
		}
		if before := f.ways[way{from, to}]; before != nil { // from an attempt to start that was repeated with other ports
			failed = append(failed, before.Close())
		}
		f.ways[way{from, to}] = p
		_, there, err := net.SplitHostPort(p.Addr())
		failed = append(failed, err)
		port, err = strconv.Atoi(there)
		failed = append(failed, err)
		return port
	})
	// A server that wrongly believes that it leads notices after this many ticks without
	// a follower.
	soon := ensemble.Line("initLimit", "2")
	err := f.launch(ctx, parent, members, append(slices.Clip(settings), soon, through))
	if err = errors.Join(append(failed, err)...); err != nil {
		return err
	}
	if f.leader, err = f.Servers.Leader(ctx); err != nil {
		return err
	}
	return f.describe(ctx, (f.leader+1)%members)
}

// Lag sets the round trip to the leader.
func (f *Follower) Lag(roundTrip time.Duration) {
	f.ways[way{f.index, f.leader}].Lag(ensemble.BothWays, roundTrip/2)
}

// Close ends the servers and the proxies, and removes their data.
func (f *Follower) Close() error {
	err := f.Server.Close()
	for _, p := range f.ways {
		err = errors.Join(err, p.Close())
	}
	return err
}
