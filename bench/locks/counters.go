package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// serverSettings are those of the ZooKeeper server: where package ensemble has other settings for tests, they are its
// defaults again, and there is room for everything that is kept in it.
func serverSettings() []ensemble.Setting {
	return []ensemble.Setting{
		ensemble.Tick(serverTick),
		ensemble.Heap("1g"),
		// In tests empty containers are removed every moment: here the directory of a lock that is taken in a loop.
		ensemble.Property("znode.container.checkIntervalMs", "60000"),
	}
}

// counts are what a server has counted so far.
type counts struct {
	requests float64
	watches  float64 // armed now
	fired    float64 // so many watches were told of something
}

// counted asks the server of the library.
func (p *place) counted(ctx context.Context, l library) (counts, error) {
	if l.Key == keyEtcd {
		c, err := p.etcd.Counters(ctx)
		return counts{
			requests: c["grpc_server_started_total"],
			// A watch on what was before now, as that of a waiting mutex, is told nothing for up to a tenth of a second,
			// until it has caught up. Whoever has waited for longer is handed the lock at once.
			watches: c["etcd_debugging_mvcc_watcher_total"] - c["etcd_debugging_mvcc_slow_watcher_total"],
		}, err
	}
	var err error
	for range 20 { // a server that sends long listings may be too busy to answer in time
		var c map[string]float64
		if c, err = p.zookeeper.Counters(ctx); err == nil {
			return counts{
				requests: c["zk_packets_received"],
				watches:  c["zk_watch_count"],
				fired: c["zk_sum_node_deleted_watch_count"] + c["zk_sum_node_created_watch_count"] +
					c["zk_sum_node_changed_watch_count"] + c["zk_sum_node_children_watch_count"],
			}, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return counts{}, err
}

// during runs f and returns what the server counted meanwhile, what counting costs aside.
func (p *place) during(ctx context.Context, l library, f func() error) (counts, error) {
	first, err := p.counted(ctx, l)
	if err != nil {
		return counts{}, err
	}
	before, err := p.counted(ctx, l)
	if err != nil {
		return counts{}, err
	}
	if err := f(); err != nil {
		return counts{}, err
	}
	after, err := p.counted(ctx, l)
	return counts{
		requests: after.requests - before.requests - (before.requests - first.requests),
		fired:    after.fired - before.fired,
	}, err
}

// queued waits until the server has so many watches armed, and then until nobody asks it for anything any more:
// everybody who waits knows for whom, and has nothing left to do.
func (p *place) queued(ctx context.Context, l library, watches float64) error {
	// A server that is counted on answers with an error, or not at all, while it is too busy; that passes, or the time.
	late := fmt.Errorf("%s: not everybody queues up within %v", l.Name, patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	asking := 1.0 // the question itself is a request
	if l.Key == keyEtcd {
		asking = 0
	}
	var before counts
	wait, quiet := time.Millisecond, 0
	for quiet < 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now, err := p.counted(ctx, l)
		if err != nil || now.watches < watches {
			wait, quiet = min(2*wait, 50*time.Millisecond), 0
			continue
		}
		quiet++
		if now.requests-before.requests > asking {
			quiet = 0
		}
		before, wait = now, 3*time.Millisecond
	}
	return nil
}

// computed is how long the server of the contestant, and the contestant itself, have computed so far.
func (p *place) computed(c *contestant) (server, client time.Duration, err error) {
	if server, err = p.of(c.Key).ProcessorTime(); err != nil {
		return 0, 0, err
	}
	client, err = c.process.ProcessorTime()
	return server, client, err
}
