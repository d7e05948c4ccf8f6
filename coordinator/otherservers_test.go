package coordinator_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// others are servers that lack container nodes.
var others = map[string]zktest.Setting{"ZooKeeper 3.4": zktest.ZooKeeper34(), "ClickHouse Keeper": zktest.ClickHouseKeeper()}

// Each request for a container costs a connection there, so few are made.
func TestLocksWithoutContainers(t *testing.T) {
	for name, setting := range others {
		eventstest.Case(t, name, func(t *testing.T) {
			srv := zktest.Start(t, setting)
			c, logs := logged(t, srv, zap.WarnLevel)
			start := time.Now()
			a, _ := coordtest.Hold(t, c.Mutex("/a/b/c"))
			took := time.Since(start)
			expect(t, took <= time.Second, "the first lock takes %v, want a second at most", took)
			b, _ := coordtest.Hold(t, c.ReadWrite("/d/e").Read())
			asked := srv.Requests(zktest.OpCreateContainer)
			expect(t, asked <= 2, "%d containers are asked for, want 2 at most", asked)
			expectEqual(t, logs.FilterMessageSnippet("no container nodes").Len(), 1, "lines about it")
			next := coordtest.Queue(coordtest.Connect(t, srv).Mutex("/a/b/c"))
			coordtest.End(a)
			coordtest.Soon(t, next)
			coordtest.End(next)
			coordtest.End(b)
			time.Sleep(time.Hour)
			expect(t, srv.Exists("/a/b/c"), "the lock's directory is gone, want it to stay")
		})
	}
}

// A broken connection is no sign that a server lacks containers, even if many requests
// for one were under way.
func TestABrokenConnectionIsNoLackOfContainers(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		onEach(srv, zktest.Swallow(), zktest.OpCreateContainer)
		var locks []*coordinator.Acquisition
		for _, path := range []string{"/a/b", "/c/d", "/e/f"} {
			locks = append(locks, c.Mutex(path).Acquire(t.Context()))
		}
		time.Sleep(time.Second)
		srv.Intercept(nil)
		srv.CutAll()
		for _, a := range locks {
			coordtest.GrantOf(t, a)
			coordtest.End(a)
		}
		time.Sleep(5 * time.Minute) // the server looks for empty containers once a minute
		expectNone(t, srv.Tree(), "nodes that are left")
	})
}

// TestRealOnTheServersThereAre checks what a lock needs from any server.
func TestRealOnTheServersThereAre(t *testing.T) {
	eventstest.NeedsServersEachTime(t)
	server := coordtest.Servers(t, 1).Addr(0)
	c, other := coordtest.ConnectReal(t, server), coordtest.ConnectReal(t, server)
	a, first := coordtest.HoldReal(t, c.Mutex("/other/servers/a"))
	_, err := other.Mutex("/other/servers/a").Acquire(within(t, 100*time.Millisecond)).Wait(t.Context())
	expectError(t, err, context.DeadlineExceeded, "a second holder")
	coordtest.End(a)
	b, second := coordtest.HoldReal(t, other.Mutex("/other/servers/a"))
	expect(t, second.Token > first.Token,
		"the token of the second holder is %d, after %d; want a greater one", second.Token, first.Token)
	coordtest.End(b)
}
