package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealCounts asks a real server what a lock has cost it. Pings come every few seconds,
// and none of this takes as long; one or two of them do no harm.
func TestRealCounts(t *testing.T) {
	const stray = 2
	e := ensemble.Start(t, 1,
		ensemble.Tick(2*time.Second), // for a long session timeout
		ensemble.Property("znode.container.checkIntervalMs", "600000"))
	connectIdle := func(t *testing.T) *coordinator.Coordinator {
		return coordtest.ConnectReal(t, e.Connect(), coordinator.WithSessionTimeout(40*time.Second))
	}
	t.Run("a free lock", func(t *testing.T) {
		const cycles = 200
		l := connectIdle(t).Mutex("/locks/free")
		cycle := func() {
			a := l.Acquire(context.Background())
			coordtest.GrantOf(t, a)
			a.Release()
			<-a.Done()
		}
		cycle()
		cycle() // the directory is known to be ours
		n := coordtest.RealToll(t, e, func() {
			for range cycles {
				cycle()
			}
		})
		t.Logf("%d cycles: %+v", cycles, n)
		if n.Packets < 2*cycles || n.Packets > 2*cycles+stray || n.Woken != 0 {
			t.Errorf("%v requests and %v wake-ups in %d cycles", n.Packets, n.Woken, cycles)
		}
	})
	t.Run("a queue", func(t *testing.T) {
		const handoffs = 20
		var tolls []coordtest.Toll
		for _, q := range []struct {
			dir     string
			waiters int
		}{{"/locks/small", 3 + handoffs + 1}, {"/locks/large", 1000}} {
			c, raw := connectIdle(t), coordtest.RawClient(t, e.Addr(0))
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
			coordtest.Queued(t, raw, q.dir, len(all))
			next := func() {
				now.Release()
				<-now.Done()
				now = holder()
			}
			for range 3 { // the first of them have never waited, or had one ahead of them only
				next()
			}
			n := coordtest.RealToll(t, e, func() {
				for range handoffs {
					next()
				}
			})
			t.Logf("%d handoffs with %d waiting: %+v", handoffs, q.waiters, n)
			if n.Woken != handoffs || n.Packets < 2*handoffs || n.Packets > 2*handoffs+stray {
				t.Errorf("%v requests and %v wake-ups for %d handoffs", n.Packets, n.Woken, handoffs)
			}
			tolls = append(tolls, n)
		}
		// The paths are as long; a zxid in hexadecimal may be longer.
		if more := tolls[1].Bytes - tolls[0].Bytes; more < -16*stray || more > 4*handoffs+16*stray {
			t.Errorf("%v bytes more in the long queue", more)
		}
	})
}
