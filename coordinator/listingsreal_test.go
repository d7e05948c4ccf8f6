package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// gauge counts the bytes that a client reads, and can cut its connection.
type gauge struct {
	read atomic.Int64
	mu   sync.Mutex
	now  net.Conn
}

type gauged struct {
	net.Conn
	gauge *gauge
}

func (g *gauge) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = conn
	return gauged{conn, g}, nil
}

func (c gauged) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gauge.read.Add(int64(n))
	return n, err
}

func (g *gauge) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.now.Close()
}

// TestRealWaitersOfASessionShareAListing is TestManyWaitersOfASessionShareAListing with a real server, and at full length with more
// waiters, and with some behind a long queue of others.
func TestRealWaitersOfASessionShareAListing(t *testing.T) {
	eventstest.NeedsServers(t)
	queues := []struct{ waiters, ahead int }{{500, 0}, {10_000, 0}, {1_000, 60_000}}
	for _, q := range queues[:eventstest.Many(1, len(queues))] {
		t.Run(fmt.Sprintf("%d waiters behind %d nodes", q.waiters, q.ahead), func(t *testing.T) {
			realWaiters(t, q.waiters, q.ahead)
		})
	}
}

func realWaiters(t *testing.T, waiters, ahead int) {
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	var link gauge
	c := coordtest.ConnectReal(t, e.Connect(), coordinator.WithSessionTimeout(6*time.Second), coordinator.WithDialer(link.dial))
	held, _ := coordtest.Hold(t, c.Mutex("/locks/held"))
	coordtest.Hold(t, coordtest.ConnectReal(t, e.Connect()).Mutex(lockPath))
	name := "_c_00000000-0000-0000-0000-000000000000-lock-"
	for left := ahead; left > 0; {
		ops := make([]any, min(left, 1000))
		for i := range ops {
			ops[i] = &zk.CreateRequest{Path: lockPath + "/" + name, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}
		}
		if _, err := raw.Multi(ops...); err != nil {
			t.Fatal(err)
		}
		left -= len(ops)
	}
	var queued atomic.Int64
	stream := c.Events(t.Context())
	go func() {
		for ev := range stream {
			if _, ok := ev.(events.Queued); ok {
				queued.Add(1)
			}
		}
	}()
	one := int64((waiters + ahead) * (4 + len(name) + 10))
	share := func(when string, ask func()) {
		t.Helper()
		queued.Store(0)
		before, began := link.read.Load(), time.Now()
		ask()
		eventstest.Eventually(t, when+", each waiter knows its place", func() bool { return int(queued.Load()) >= waiters })
		read := link.read.Load() - before
		t.Logf("%s: %d bytes in %v; a listing has %d", when, read, time.Since(began).Round(time.Millisecond), one)
		if most := 8*one + int64(waiters)*1000; read > most {
			t.Errorf("%s, %d waiters read %d bytes, want at most %d", when, waiters, read, most)
		}
		coordtest.NotLost(t, held)
	}
	share("queueing up", func() {
		for range waiters {
			c.Mutex(lockPath).Acquire(context.Background())
		}
	})
	share("after a cut", link.cut)
}
