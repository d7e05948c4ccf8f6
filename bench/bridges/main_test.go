package bridges

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing is a test run that ends the real server of all tests.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	if shared.server != nil {
		_ = shared.server.Close() // a server that ends late fails no test
		_ = os.RemoveAll(shared.folder)
	}
	return code
}

var shared struct {
	once   sync.Once
	err    error
	folder string
	server *ensemble.Ensemble
}

// realServer returns the connect string of a real server.
func realServer(t *testing.T) string {
	t.Helper()
	eventstest.NeedsServers(t)
	installation := ensemble.Installed(t)
	shared.once.Do(func() {
		if shared.folder, shared.err = os.MkdirTemp("", "zkgrant"); shared.err != nil { //nolint:usetesting // it outlives the first test
			return
		}
		shared.server, shared.err = ensemble.Launch(eventstest.Patiently(t, time.Minute), installation, shared.folder, 1)
	})
	eventstest.Must(t, shared.err)
	return shared.server.Connect()
}

// stage is where a test plays. Each coordinator stands for a process.
type stage struct {
	*testing.T
	servers string
	double  *zktest.Server // nil on a real server
	virtual bool
}

// inVirtualTime plays on the in-process server, where an hour takes a moment.
func inVirtualTime(t *testing.T, play func(s stage)) {
	t.Helper()
	t.Run("virtual", func(t *testing.T) {
		t.Parallel()
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t)
			play(stage{t, srv.Addr(), srv, true})
		})
	})
}

// overTCP plays on the in-process server, for libraries with their own sockets.
func overTCP(t *testing.T, play func(s stage)) {
	t.Helper()
	t.Run("double", func(t *testing.T) {
		t.Parallel()
		srv := zktest.Start(t)
		play(stage{t, srv.Addr(), srv, false})
	})
}

var roots atomic.Int32

// onARealServer plays on ZooKeeper itself, below its own root.
func onARealServer(t *testing.T, play func(s stage)) {
	t.Helper()
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		servers := realServer(t)
		play(stage{t, fmt.Sprintf("%s/test%d", servers, roots.Add(1)), nil, false})
	})
}

// process returns a coordinator that the end of the test closes.
func (s stage) process() *coordinator.Coordinator {
	s.Helper()
	options := []coordinator.Option{coordinator.WithSessionTimeout(10 * time.Second)}
	if s.virtual {
		options = append(options, s.double.Option())
	}
	c, err := coordinator.Connect(s.Context(), s.servers, options...)
	eventstest.Must(s, err)
	s.Cleanup(func() { eventstest.Check(s, c.Close()) })
	return c
}

// lose makes the process lose the lock at the path: the double ends the session, and on a real server the node is removed.
func (s stage) lose(c *coordinator.Coordinator, path string) {
	s.Helper()
	if s.double != nil {
		eventstest.Must(s, s.double.Expire(c.SessionID()))
		return
	}
	servers, root, _ := strings.Cut(s.servers, "/")
	admin, news, err := zk.Connect([]string{servers}, 10*time.Second, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	eventstest.Must(s, err)
	defer func() {
		admin.Close()
		for range news { // closed when the client's goroutines have ended
		}
	}()
	path = "/" + root + path
	names, stat, err := admin.Children(path)
	eventstest.Must(s, err)
	if stat.EphemeralOwner == c.SessionID() {
		eventstest.Must(s, admin.Delete(path, -1))
		return
	}
	for _, name := range names {
		_, stat, err := admin.Exists(path + "/" + name)
		eventstest.Must(s, err)
		if stat.EphemeralOwner == c.SessionID() {
			eventstest.Must(s, admin.Delete(path+"/"+name, -1))
			return
		}
	}
	s.Fatalf("session %#x has no node at %s", c.SessionID(), path)
}

// queued waits until that many contenders hold the lock or wait for it.
func (s stage) queued(lock *coordinator.Lock, want int) {
	s.Helper()
	if s.virtual {
		synctest.Wait()
	}
	eventstest.Eventually(s, fmt.Sprintf("%d contenders at %s", want, lock.Path()), func() bool {
		queue, err := lock.Queue(s.Context())
		return err == nil && len(queue) == want
	})
}

// within returns a context that ends a hang.
func (s stage) within() context.Context {
	s.Helper()
	if s.virtual {
		return s.Context() // the watchdog of virtual time ends it
	}
	return eventstest.Patiently(s, time.Minute)
}

func isLoss(err error) bool { return errors.As(err, new(*coordinator.LostError)) }
