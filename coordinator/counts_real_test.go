package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// toll is what a server has counted.
type toll struct {
	packets float64 // received, those that ask for the counters left out
	bytes   float64 // received
	woken   float64 // watches that fired because a node was deleted
}

// realToll has something done, and returns what the server has counted meanwhile.
func realToll(t *testing.T, e *ensemble.Ensemble, do func()) toll {
	t.Helper()
	asked := 0.0 // each question is a packet, and has been counted when it is answered
	read := func() toll {
		var counters map[string]float64
		eventually(t, "the server says what it has counted", func() bool {
			var err error
			asked++
			counters, err = e.Counters(realContext(t), 0)
			return err == nil
		})
		for _, name := range []string{"zk_packets_received", "zk_bytes_received_count", "zk_sum_node_deleted_watch_count"} {
			if _, ok := counters[name]; !ok {
				t.Fatalf("the server has no counter %s", name)
			}
		}
		return toll{counters["zk_packets_received"] - asked, counters["zk_bytes_received_count"], counters["zk_sum_node_deleted_watch_count"]}
	}
	before := read()
	do()
	after := read()
	return toll{after.packets - before.packets, after.bytes - before.bytes, after.woken - before.woken}
}

// TestRealCounts asks a real server what a lock has cost it. Pings come every few seconds,
// and none of this takes as long; one or two of them do no harm.
func TestRealCounts(t *testing.T) {
	const stray = 2
	e := ensemble.Start(t, 1,
		ensemble.Tick(2*time.Second), // for a long session timeout
		ensemble.Property("znode.container.checkIntervalMs", "600000"))
	connectIdle := func(t *testing.T) *coordinator.Coordinator {
		return connectReal(t, e.Connect(), coordinator.WithSessionTimeout(40*time.Second))
	}
	t.Run("a free lock", func(t *testing.T) {
		const cycles = 200
		l := connectIdle(t).Mutex("/locks/free")
		cycle := func() {
			a := l.Acquire(context.Background())
			grantOf(t, a)
			a.Release()
			<-a.Done()
		}
		cycle()
		cycle() // the directory is known to be ours
		n := realToll(t, e, func() {
			for range cycles {
				cycle()
			}
		})
		t.Logf("%d cycles: %+v", cycles, n)
		if n.packets < 2*cycles || n.packets > 2*cycles+stray || n.woken != 0 {
			t.Errorf("%v requests and %v wake-ups in %d cycles", n.packets, n.woken, cycles)
		}
	})
	t.Run("a queue", func(t *testing.T) {
		const handoffs = 20
		var tolls []toll
		for _, q := range []struct {
			dir     string
			waiters int
		}{{"/locks/small", 3 + handoffs + 1}, {"/locks/large", 1000}} {
			c, raw := connectIdle(t), rawClient(t, e.Addr(0))
			stream := c.Events(t.Context())
			all := map[uint64]*coordinator.Acquisition{}
			for range q.waiters + 1 {
				a := c.Mutex(q.dir).Acquire(context.Background())
				all[a.ID()] = a
			}
			holder := func() *coordinator.Acquisition { // which of them it is, the server has decided
				for ev := range stream {
					if grant, ok := ev.(events.Grant); ok {
						return all[grant.ID]
					}
				}
				t.Fatal("the stream has ended")
				return nil
			}
			now := holder()
			queued(t, raw, q.dir, len(all))
			next := func() {
				now.Release()
				<-now.Done()
				now = holder()
			}
			for range 3 { // the first of them have never waited, or had one ahead of them only
				next()
			}
			n := realToll(t, e, func() {
				for range handoffs {
					next()
				}
			})
			t.Logf("%d handoffs with %d waiting: %+v", handoffs, q.waiters, n)
			if n.woken != handoffs || n.packets < 2*handoffs || n.packets > 2*handoffs+stray {
				t.Errorf("%v requests and %v wake-ups for %d handoffs", n.packets, n.woken, handoffs)
			}
			tolls = append(tolls, n)
		}
		// The paths are as long; a zxid in hexadecimal may be longer.
		if more := tolls[1].bytes - tolls[0].bytes; more < -16*stray || more > 4*handoffs+16*stray {
			t.Errorf("%v bytes more in the long queue", more)
		}
	})
}
