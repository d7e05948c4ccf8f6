package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// serverSettings returns the settings of the ZooKeeper server. They restore ZooKeeper's
// defaults where package ensemble has other settings for tests, and give it memory for
// all data.
func serverSettings() []ensemble.Setting {
	return []ensemble.Setting{
		ensemble.Tick(serverTick),
		ensemble.Heap("1g"),
		// With ensemble's setting for tests, the server would keep removing empty
		// containers: here the directory of a lock that is taken in a loop.
		ensemble.Property("znode.container.checkIntervalMs", "60000"),
	}
}

// counts are a server's counters so far.
type counts struct {
	requests float64
	watches  float64 // currently armed
	fired    float64 // watches that have fired
}

func (p *place) counted(ctx context.Context, l library) (counts, error) {
	if l.Key == keyEtcd {
		c, err := p.etcd.Counters(ctx)
		return counts{
			requests: c["grpc_server_started_total"],
			// A watch on a past revision, as a waiting mutex has, gets no events for up
			// to 100 ms, until it has caught up. A contender that has waited longer is
			// notified at once.
			watches: c["etcd_debugging_mvcc_watcher_total"] - c["etcd_debugging_mvcc_slow_watcher_total"],
		}, err
	}
	var err error
	for range 20 { // a server that is sending long listings may not answer in time
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

// queued waits until the server has that many watches, and then until no client sends
// requests any more: every waiter watches the contender before it, and is idle.
func (p *place) queued(ctx context.Context, l library, watches float64) error {
	// Ignore errors: a busy server may answer with one, or not at all. If that does not
	// pass, the time runs out.
	late := fmt.Errorf("%s: not all contenders queue up within %v", l.Name, patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	asking := 1.0 // the question itself is a request
	if l.Key == keyEtcd {
		asking = 0
	}
	var before counts
	wait, quiet := time.Millisecond, 0
	for quiet < 2 {
		if err := peers.Pause(ctx, wait); err != nil {
			return err
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
