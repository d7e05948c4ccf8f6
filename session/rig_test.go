package session_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	// A session outlives its lease by at least a second: it ends at a multiple of the
	// tick after the timeout, and the lease after 19 s.
	sessionTimeout = 20 * time.Second
	leaseTime      = sessionTimeout - sessionTimeout/20
	serverTick     = 10 * time.Second

	lockDir  = "/locks/a"
	taskNode = "/tasks/a" // a lock that is a single node

	permitsAt = "/permits" // a semaphore
	queueAt   = permitsAt + "/locks"
	takenAt   = permitsAt + "/leases"

	ourData   = "zkgrant\n" // of a directory that the library has created
	theirData = "foreign data"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expect fails the test unless the condition holds.
func expect(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	eventstest.Expect(tb, holds, format, args...)
}

// equal fails the test unless got equals want. what describes the value.
func equal[T comparable](tb testing.TB, got, want T, what string, args ...any) {
	tb.Helper()
	expect(tb, got == want, "%s: %v, want %v", fmt.Sprintf(what, args...), got, want)
}

// floorOf returns a directory's data with the floor.
func floorOf(czxid int64) string { return fmt.Sprintf("zkgrant\nfloor 0x%x\n", czxid) }

// rig is a session on its own server, in a bubble.
type rig struct {
	*testing.T
	Server  *zktest.Server
	Session *session.Session
	Group   *actors.Group
	Start   time.Time // of the server; its ticks count from then
	Silent  []string  // more servers of the connect string; connections to them are not accepted
	Twins   []string  // more names of the server in it

	mu    sync.Mutex
	Heard []events.Event
}

// bubble runs the test in virtual time, on a server without a session.
func bubble(t *testing.T, test func(*rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t, zktest.Tick(serverTick))
		test(&rig{T: t, Server: server, Group: &actors.Group{}, Start: time.Now()})
	})
}

// inSession is bubble with a session.
func inSession(t *testing.T, test func(*rig), options ...session.Option) {
	t.Helper()
	bubble(t, func(r *rig) {
		r.Open("", options...)
		test(r)
	})
}

func run(t *testing.T, name string, test func(*rig), options ...session.Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inSession(t, test, options...) })
}

// configured returns an option that changes the config.
func configured(change func(c *session.Config)) session.Option { return session.OptionFunc(change) }

// Open opens the session. It is closed when the test ends, or before.
func (r *rig) Open(chroot string, options ...session.Option) {
	r.Helper()
	options = append([]session.Option{
		r.Server.Option(), configured(func(c *session.Config) { c.Timeout = sessionTimeout }),
	}, options...)
	options = append(options, configured(func(c *session.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if slices.Contains(r.Silent, addr) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, r.Server.Addr())
		}
	}))
	servers := session.Servers{Hosts: slices.Concat([]string{r.Server.Addr()}, r.Silent, r.Twins), Chroot: chroot}
	r.Session = session.Open(servers, session.NewConfig(options...), r.Group, func(ev events.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Heard = append(r.Heard, ev)
	})
	r.Cleanup(func() { // goroutines that are left would keep the bubble from ending
		r.Close(time.Second)
		r.Group.Close()
	})
	r.Must(r.Session.Ready(context.Background()))
	synctest.Wait()
}

func (r *rig) Close(grace time.Duration) (gone bool) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return r.Session.Close(ctx)
}

// Settle gives the session time to reconnect, and to send waiting requests.
func (r *rig) Settle() {
	r.Helper()
	r.Until("the session is connected", func() bool { return r.Session.State() == session.Connected })
	time.Sleep(100 * time.Millisecond) // replies on a resumed connection are held back for a moment
	synctest.Wait()
}

func (r *rig) Until(what string, cond func() bool) {
	r.Helper()
	began := time.Now()
	for range 100_000 {
		if synctest.Wait(); cond() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Fatalf("still not after %v: %s; the session is %v", time.Since(began), what, r.Session.State())
}

// Only returns the server's only session.
func (r *rig) Only() int64 {
	r.Helper()
	list := r.Server.Sessions()
	if len(list) != 1 {
		r.Fatalf("%d sessions, want one", len(list))
	}
	return list[0]
}

// Must ends the test if a step of its preparation fails.
func (r *rig) Must(err error) {
	r.Helper()
	eventstest.Must(r.T, err)
}

// On applies the action to each request of a kind.
func (r *rig) On(op zktest.Op, action zktest.Action) { r.Either(isA(op), action, zktest.Pass()) }

// Either applies the action to each request that meant accepts, and other to the rest.
func (r *rig) Either(meant func(zktest.Request) bool, action, other zktest.Action) {
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if meant(q) {
			return action
		}
		return other
	})
}

func (r *rig) OnAll(action zktest.Action) {
	r.Server.Intercept(func(zktest.Request) zktest.Action { return action })
}

// Times applies the action to the first n requests that meant accepts. The returned
// function reports whether it was applied n times.
func (r *rig) Times(n int, action zktest.Action, meant func(zktest.Request) bool) func() bool {
	var left atomic.Int64
	left.Store(int64(n))
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if left.Load() == 0 || !meant(q) {
			return zktest.Pass()
		}
		left.Add(-1)
		return action
	})
	return func() bool { return left.Load() == 0 }
}

func (r *rig) Once(action zktest.Action, meant func(zktest.Request) bool) func() bool {
	return r.Times(1, action, meant)
}

// isA returns a function that reports whether a request is of one of the kinds.
func isA(ops ...zktest.Op) func(zktest.Request) bool {
	return func(q zktest.Request) bool { return slices.Contains(ops, q.Op) }
}

// NoPings prevents the client's pings from counting as signs of life.
func (r *rig) NoPings() { r.On(zktest.OpPing, zktest.Swallow()) }

// Asked counts the requests except pings, by operation.
func (r *rig) Asked() func() map[zktest.Op]int {
	counts := map[zktest.Op]int{}
	r.Server.Intercept(func(q zktest.Request) zktest.Action {
		if q.Op != zktest.OpPing {
			counts[q.Op]++ // one connection, one request at a time
		}
		return zktest.Pass()
	})
	return func() map[zktest.Op]int {
		synctest.Wait()
		was := counts
		counts = map[zktest.Op]int{}
		return was
	}
}

// WantAsked checks that the server received each of these requests once, and no others.
func (r *rig) WantAsked(got map[zktest.Op]int, once ...zktest.Op) {
	r.Helper()
	want := map[zktest.Op]int{}
	for _, op := range once {
		want[op] = 1
	}
	expect(r, maps.Equal(got, want), "the server was asked for %v, want %v", got, want)
}

// Multis returns a function that checks how many Multis have arrived since its last call:
// between least and most. when names that period in the error.
func (r *rig) Multis() func(least, most int, when string) {
	seen := r.Server.Requests(zktest.OpMulti)
	return func(least, most int, when string) {
		r.Helper()
		synctest.Wait()
		before := seen
		seen = r.Server.Requests(zktest.OpMulti)
		n := seen - before
		expect(r, n >= least && n <= most, "%d Multis %s, want %d to %d", n, when, least, most)
	}
}

// Admin returns a plain client, which does what other clients may do.
func (r *rig) Admin() *zk.Conn {
	r.Helper()
	conn, news, err := zk.Connect([]string{r.Server.Addr()}, sessionTimeout, zk.WithLogInfo(false),
		zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
			return r.Server.DialContext(context.Background(), network, address)
		}))
	r.Must(err)
	r.Cleanup(func() {
		conn.Close()
		for range news { // closed once the client's goroutines have ended
		}
	})
	return conn
}

// DenyWriting revokes all clients' permission to write the directory's data.
func (r *rig) DenyWriting() {
	r.Helper()
	_, err := r.Admin().SetACL(lockDir, zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
	r.Must(err)
}

func (r *rig) Make(path, data string) {
	r.Helper()
	r.Must(r.Server.Create(path, []byte(data)))
}

// Plant creates nodes in the directory, as another client.
func (r *rig) Plant(names ...string) {
	r.Helper()
	for _, name := range names {
		r.Make(lockDir+"/"+name, "")
	}
}

// DeleteNode deletes a node of the directory, as another client.
func (r *rig) DeleteNode(name string) {
	r.Helper()
	r.Must(r.Server.Delete(lockDir + "/" + name))
}

// SetData changes the data of a node of the directory, as another client.
func (r *rig) SetData(name string) {
	r.Helper()
	r.Must(r.Server.SetData(lockDir+"/"+name, []byte(time.Now().String())))
}

func (r *rig) Write(data string) {
	r.Helper()
	r.Must(r.Server.SetData(lockDir, []byte(data)))
}

func (r *rig) WantData(want string) {
	r.Helper()
	got, _ := r.Server.Data(lockDir)
	expect(r, string(got) == want, "the directory's data are %q, want %q", got, want)
}

func (r *rig) WantChildren(n int) {
	r.Helper()
	synctest.Wait()
	got := r.Server.Children(lockDir)
	expect(r, len(got) == n, "the directory has %v, want %d nodes", got, n)
}

func (r *rig) WantWatches(n int) {
	r.Helper()
	equal(r, r.Server.Watches(), n, "watches at the server")
}

// WantPermits checks the number of nodes in the queue and among the permits.
func (r *rig) WantPermits(queue, permits int) {
	r.Helper()
	synctest.Wait()
	q, l := r.Server.Children(queueAt), r.Server.Children(takenAt)
	expect(r, len(q) == queue && len(l) == permits, "queue %v, permits %v; want %d and %d", q, l, queue, permits)
}

// Warm empties the directory, and makes the session know that it is ours.
func (r *rig) Warm() {
	r.Helper()
	s := r.Seated()
	node := s.Makes(1).Node
	s.Look(1, false)
	s.DeleteNode(node.Text)
	s.Close()
	s.Fresh()
	r.WantData(ourData)
}

// Together runs f in the session's loop, so that all requests of f are queued before any
// of them is sent.
func (r *rig) Together(f func()) {
	synctest.Wait()
	done := make(chan struct{})
	r.Session.Loop().Post(func() {
		f()
		close(done)
	})
	<-done
	synctest.Wait()
}

// gate returns a function that waits until the gate is opened or the test ends, and one
// that opens it.
func gate(r *rig) (wait, open func()) {
	closed := make(chan struct{})
	open = sync.OnceFunc(func() { close(closed) })
	r.Cleanup(open)
	return func() { <-closed }, open
}
