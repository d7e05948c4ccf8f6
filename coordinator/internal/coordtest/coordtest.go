// Package coordtest has what most tests of package coordinator share: a test server in
// virtual time, sessions on it, and the usual steps with a lock. Meters count what a lock
// costs. The rest is for tests on real servers.
package coordtest

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// LockPath is the lock that most tests use.
const LockPath = "/locks/reindex"

// Bubble runs the test in virtual time with its own server.
func Bubble(t *testing.T, test func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		test(t, zktest.Start(t))
	})
}

// Case runs a subtest as Bubble does.
func Case(t *testing.T, name string, test func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { Bubble(t, test) })
}

// Connect returns a coordinator with its own session. It is closed at the end of the
// test.
func Connect(t *testing.T, srv *zktest.Server, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), srv.Addr(), append([]coordinator.Option{srv.Option()}, options...)...)
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the server may be gone
	return c
}

// Hold returns a granted acquisition.
func Hold(
	t *testing.T, l coordinator.Handle, options ...coordinator.AcquireOption,
) (a *coordinator.Acquisition, grant events.Grant) {
	t.Helper()
	a = l.Acquire(context.Background(), options...)
	grant, err := a.Wait(t.Context())
	eventstest.Must(t, err)
	return a, grant
}

// Queue returns an acquisition that has joined the queue. It works only in bubbles.
func Queue(l coordinator.Handle, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	a := l.Acquire(context.Background(), options...)
	synctest.Wait()
	return a
}

// Soon waits for the Grant, at most five seconds of virtual time.
func Soon(t *testing.T, a *coordinator.Acquisition) events.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	grant, err := a.Wait(ctx)
	eventstest.Must(t, err)
	return grant
}

// Warm makes each coordinator hold the lock twice, so that its session knows that the
// directory is ours.
func Warm(t *testing.T, cs ...*coordinator.Coordinator) {
	t.Helper()
	for range 2 { // the coordinator that makes the directory learns from its next listing that it is ours
		for _, c := range cs {
			a, _ := Hold(t, c.Mutex(LockPath))
			End(a)
		}
	}
}

// End releases the acquisition, and waits until its node is gone.
func End(a *coordinator.Acquisition) {
	a.Release()
	<-a.Done()
}

// Creates reports whether the request creates a contender's node, alone or with the
// directory's marker.
func Creates(r zktest.Request) bool {
	return r.Op == zktest.OpCreate || r.Op == zktest.OpMulti && len(r.Parts) > 0 && r.Parts[0].Op == zktest.OpCreate
}

// IsClosed reports whether the channel is closed.
func IsClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Traffic counts the requests that the server receives from now on, except connects,
// closes and pings.
func Traffic(srv *zktest.Server) *atomic.Int32 {
	var n atomic.Int32
	srv.Intercept(func(r zktest.Request) zktest.Action {
		switch r.Op {
		case zktest.OpPing, zktest.OpConnect, zktest.OpClose:
		default:
			n.Add(1)
		}
		return zktest.Pass()
	})
	return &n
}

// Admin returns a plain client, for changes that a coordinator does not make. It is
// closed at the end of the test.
func Admin(t *testing.T, addr string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *zk.Conn {
	t.Helper()
	return client(t, addr, zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
		return dial(context.Background(), network, address)
	}))
}

func client(t *testing.T, servers string, dial func(*zk.Conn)) *zk.Conn {
	t.Helper()
	conn, news, err := zk.Connect(strings.Split(servers, ","), 10*time.Second, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false), dial)
	eventstest.Must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range news { // closed once the client's goroutines have ended
		}
	})
	return conn
}
