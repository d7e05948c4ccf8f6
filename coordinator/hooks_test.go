package coordinator_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// connect_test.go tests which hooks are refused. The hooks on real servers are tested in
// coordinator/telemetry.

// ear is a hook that records its calls.
type ear struct {
	mu       sync.Mutex
	acquired []hooks.Acquire
	contexts []context.Context
	heard    []events.Event
	requests []hooks.Request
	leases   []hooks.Lease
}

// noting runs f with the mutex held.
func (e *ear) noting(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *ear) OnAcquire(ctx context.Context, info hooks.Acquire) {
	e.noting(func() { e.acquired, e.contexts = append(e.acquired, info), append(e.contexts, ctx) })
}

func (e *ear) OnEvent(event events.Event) {
	e.noting(func() { e.heard = append(e.heard, event) })
}

func (e *ear) OnRequest(info hooks.Request) {
	e.noting(func() { e.requests = append(e.requests, info) })
}

func (e *ear) OnLease(info hooks.Lease) {
	e.noting(func() { e.leases = append(e.leases, info) })
}

// all returns the events so far, once nothing is under way.
func (e *ear) all() (heard []events.Event) {
	synctest.Wait()
	e.noting(func() { heard = slices.Clone(e.heard) })
	return heard
}

// count returns the number of requests for which is reports true.
func (e *ear) count(is func(hooks.Request) bool) (n int) {
	e.noting(func() {
		for _, r := range e.requests {
			if is(r) {
				n++
			}
		}
	})
	return n
}

// TestHooksHearWhatIsAskedFor: OnAcquire gets the caller's context and runs before any
// event.
func TestHooksHearWhatIsAskedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		rw, kazoo := c.ReadWrite("/rw"), c.ReadWrite("/kazoo", coordinator.AsKazoo())
		hears := func(kind, path string, l handle, options ...coordinator.AcquireOption) {
			t.Helper()
			a := l.Acquire(ctx, options...)
			got, value := hook.acquired[len(hook.acquired)-1], hook.contexts[len(hook.contexts)-1].Value(key{})
			want := hooks.Acquire{ID: a.ID(), Path: path, Kind: kind, Try: path == "/try"}
			if kind == "semaphore" {
				want.Permits = 2
			}
			expect(t, got == want && value == "the caller's",
				"the hook hears %+v, with %v in the context; want %+v, and the caller's context", got, value, want)
			a.Release()
		}
		hears("mutex", "/mutex", c.Mutex("/mutex"))
		hears("mutex", "/m/kazoo", c.Mutex("/m/kazoo", coordinator.AsKazoo()))
		hears("mutex", "/try", c.Mutex("/try"), coordinator.Try())
		hears("read", "/rw", rw.Read())
		hears("write", "/rw", rw.Write())
		hears("read", "/kazoo", kazoo.Read())
		hears("write", "/kazoo", kazoo.Write())
		hears("unfair", "/unfair", c.Unfair("/unfair"))
		hears("election", "/e", c.Election("/e"))
		hears("election", "/ke", c.Election("/ke", coordinator.AsKazoo()))
		hears("semaphore", "/s", c.Semaphore("/s", 3), coordinator.Permits(2))
		hears("multi", "/a", c.Multi(c.Mutex("/a"), c.Mutex("/b")))
		hears("multi", "", c.Multi())
		hears("mutex", "bad", c.Mutex("bad"))
	})
}

// TestHooksHearAllEventsAndTakeNothing: a Grant that only a hook has received is taken
// back.
func TestHooksHearAllEventsAndTakeNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c, other := coordtest.Connect(t, srv, coordinator.WithHooks(hook)), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		ctx, cancel := context.WithCancel(t.Context())
		a := c.Mutex(lockPath).Acquire(ctx)
		synctest.Wait()
		eventstest.Must(t, srv.Expire(c.SessionID()))
		time.Sleep(5 * time.Second)
		holder.Release()
		synctest.Wait()
		expect(t, a.Valid(), "behind the holder the waiter is not granted")
		cancel()
		time.Sleep(time.Second)
		expectError(t, a.Err(), context.Canceled, "when the wait has ended")
		expect(t, !a.Valid(), "when the wait has ended the lock is held, want it taken back")
		const want = "Connected Queued Suspended SessionExpired Connected Requeued Queued Grant Ended"
		got := storyOf(hook.all())
		swapped := strings.Replace(want, "Connected Requeued", "Requeued Connected", 1)
		expect(t, got == want || got == swapped, "the hook hears %q, want %q", got, want)
	})
}

// TestHooksHearOfRequests: as many as the server received, each with its outcome.
func TestHooksHearOfRequests(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		failed := func() int { return hook.count(func(r hooks.Request) bool { return r.Err != nil }) }
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		a, grant := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		before := failed() // the first create found no directory
		_, err := a.Txn(t.Context(), &zk.CheckVersionRequest{Path: "/missing"})
		expectError(t, err, zk.ErrNoNode, "a transaction on a node that is not there")
		synctest.Wait() // a probe may be under way at that instant
		for _, op := range []zktest.Op{zktest.OpConnect, zktest.OpMulti, zktest.OpPing, zktest.OpGetData} {
			n := hook.count(func(r hooks.Request) bool { return r.Op == op.String() })
			expect(t, n == srv.Requests(op) && n > 0,
				"the hook has heard of %d requests %v, want %d as the server has had", n, op, srv.Requests(op))
		}
		odd := hook.count(func(r hooks.Request) bool {
			return r.Server != srv.Addr() || r.Bytes < 24 || r.Duration < 0
		})
		expectEqual(t, odd, 0, "requests with another server than %s, or no size", srv.Addr())
		expectEqual(t, failed()-before, 1, "requests that have failed when one transaction was refused")
		onEach(srv, zktest.Swallow(), zktest.OpExists)
		queue := looking(t.Context(), c.Mutex(grant.Path))
		time.Sleep(time.Second)
		srv.Intercept(nil)
		srv.Cut(c.SessionID())
		time.Sleep(5 * time.Second)
		eventstest.Check(t, (<-queue).err)
		handshakes := hook.count(func(r hooks.Request) bool { return r.Op == "connect" && r.Err == nil })
		expectEqual(t, handshakes, 2, "handshakes that the hook has heard of when the connection was cut once")
	})
}

// TestHooksHearOfTheLease: of each new deadline, and once when the lease has run out.
func TestHooksHearOfTheLease(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		synctest.Wait() // a probe may be answered at that instant
		var last hooks.Lease
		hook.noting(func() {
			for _, l := range hook.leases {
				expect(t, l.Deadline.After(last.Deadline) && l.Session == c.SessionID() && !l.RanOut,
					"after %+v the hook hears %+v, want a later deadline of session 0x%x", last, l, c.SessionID())
				last = l
			}
			expect(t, last.Deadline.Equal(a.Deadline()) && len(hook.leases) > 9,
				"a minute later the hook has heard of %d deadlines and %v at last, want that of the acquisition, %v",
				len(hook.leases), last.Deadline, a.Deadline())
		})
		srv.Mute(c.SessionID(), true)
		<-a.Lost()
		hook.noting(func() { last = hook.leases[len(hook.leases)-1] })
		expect(t, last.RanOut && !time.Now().Before(last.Deadline),
			"when the lock is lost the last that the hook has heard is %+v, want that the lease ran out", last)
	})
}

// idle is a hook that does nothing.
type idle struct{}

func (idle) OnAcquire(context.Context, hooks.Acquire) {}

// TestALogThatIsOffAndHooksCostNoAllocation in an acquisition. Other tests cover requests
// and events.
func TestALogThatIsOffAndHooksCostNoAllocation(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cost := func(options ...coordinator.Option) float64 {
			lock, ctx := coordtest.Connect(t, srv, options...).Mutex("no path"), t.Context()
			return testing.AllocsPerRun(1000, func() { lock.Acquire(ctx) }) // it ends at once
		}
		without, hook := cost(), cost(coordinator.WithHooks(idle{}))
		log := cost(slogTo(&eventstest.Screen{}, slog.LevelInfo))
		expect(t, without > 0 && hook == without && log == without,
			"an acquisition takes %v allocations, %v with a hook and %v with a log that leaves it out; want the same",
			without, hook, log)
	})
}
