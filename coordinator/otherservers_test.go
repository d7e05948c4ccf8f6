package coordinator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// others are servers that lack container nodes.
var others = map[string]zktest.Setting{"ZooKeeper 3.4": zktest.ZooKeeper34(), "ClickHouse Keeper": zktest.ClickHouseKeeper()}

// Each such request costs a connection, so few are made.
func TestLocksWithoutContainers(t *testing.T) {
	for name, setting := range others {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				srv := zktest.Start(t, setting)
				core, logs := observer.New(zap.WarnLevel)
				c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
				start := time.Now()
				a, _ := coordtest.Hold(t, c.Mutex("/a/b/c"))
				if took := time.Since(start); took > time.Second {
					t.Errorf("the first lock takes %v, want a second at most", took)
				}
				b, _ := coordtest.Hold(t, c.ReadWrite("/d/e").Read())
				if n := srv.Requests(zktest.OpCreateContainer); n > 2 {
					t.Errorf("%d containers are asked for, want 2 at most", n)
				}
				if n := logs.FilterMessageSnippet("no container nodes").Len(); n != 1 {
					t.Errorf("the log tells of it %d times, want once", n)
				}
				next := coordtest.Queue(coordtest.Connect(t, srv).Mutex("/a/b/c"))
				coordtest.End(a)
				coordtest.Soon(t, next)
				coordtest.End(next)
				coordtest.End(b)
				time.Sleep(time.Hour)
				if !srv.Exists("/a/b/c") {
					t.Error("the lock's directory is gone, want it to stay")
				}
			})
		})
	}
}

// A connection that breaks says nothing about containers, also if many requests for one were under way.
func TestABrokenConnectionIsNoLackOfContainers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var cut atomic.Bool
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpCreateContainer || cut.Load() {
				return zktest.Pass()
			}
			return zktest.Swallow()
		})
		var locks []*coordinator.Acquisition
		for _, path := range []string{"/a/b", "/c/d", "/e/f"} {
			locks = append(locks, c.Mutex(path).Acquire(t.Context()))
		}
		time.Sleep(time.Second)
		cut.Store(true)
		srv.CutAll()
		for _, a := range locks {
			if _, err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			coordtest.End(a)
		}
		time.Sleep(5 * time.Minute) // containers are looked for once a minute
		if left := srv.Tree(); len(left) != 0 {
			t.Errorf("left: %v, want nothing", left)
		}
	})
}

// TestRealOnTheServersThereAre is what every server has to do, whatever it lacks.
func TestRealOnTheServersThereAre(t *testing.T) {
	eventstest.NeedsServersEachTime(t)
	server := coordtest.Servers(t, 1).Addr(0)
	c, other := coordtest.ConnectReal(t, server), coordtest.ConnectReal(t, server)
	a, first := coordtest.Hold(t, c.Mutex("/other/servers/a"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := other.Mutex("/other/servers/a").Acquire(ctx).Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second holder: %v, want none", err)
	}
	coordtest.End(a)
	b, second := coordtest.Hold(t, other.Mutex("/other/servers/a"))
	if second.Token <= first.Token {
		t.Errorf("the token of the second holder is %d, after %d; want a greater one", second.Token, first.Token)
	}
	coordtest.End(b)
}
