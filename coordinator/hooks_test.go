package coordinator_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// ear is a hook that notes what it hears.
type ear struct {
	mu       sync.Mutex
	acquired []coordinator.AcquireInfo
	contexts []context.Context
	heard    []events.Event
	requests []coordinator.RequestInfo
	leases   []coordinator.LeaseInfo
}

func (e *ear) OnAcquire(ctx context.Context, info coordinator.AcquireInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.acquired, e.contexts = append(e.acquired, info), append(e.contexts, ctx)
}

func (e *ear) OnEvent(event events.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, event)
}

func (e *ear) OnRequest(info coordinator.RequestInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, info)
}

func (e *ear) OnLease(info coordinator.LeaseInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases = append(e.leases, info)
}

// kinds are the types of the events, in order.
func (e *ear) kinds() (kinds []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.heard {
		kinds = append(kinds, reflect.TypeOf(ev).Name())
	}
	return kinds
}

// told counts the requests with an operation and an error.
func (e *ear) told(op string, err error) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if r.Op == op && errors.Is(r.Err, err) && (err != nil || r.Err == nil) {
			n++
		}
	}
	return n
}

// failed counts the requests with an error.
func (e *ear) failed() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if r.Err != nil {
			n++
		}
	}
	return n
}

var (
	_ coordinator.HookAcquire = (*ear)(nil)
	_ coordinator.HookEvent   = (*ear)(nil)
	_ coordinator.HookRequest = (*ear)(nil)
	_ coordinator.HookLease   = (*ear)(nil)
)

// TestHooksHearWhatIsAskedFor: each acquisition, with the caller's context, before any of its events.
func TestHooksHearWhatIsAskedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		rw, kazoo := c.ReadWrite("/rw"), c.ReadWrite("/kazoo", coordinator.AsKazoo())
		for _, test := range []struct {
			a    *coordinator.Acquisition
			want coordinator.AcquireInfo
		}{
			{c.Mutex("/mutex").Acquire(ctx), coordinator.AcquireInfo{Path: "/mutex", Kind: "mutex"}},
			{c.Mutex("/m/kazoo", coordinator.AsKazoo()).Acquire(ctx), coordinator.AcquireInfo{Path: "/m/kazoo", Kind: "mutex"}},
			{c.Mutex("/try").Acquire(ctx, coordinator.Try()), coordinator.AcquireInfo{Path: "/try", Kind: "mutex", Try: true}},
			{rw.Read().Acquire(ctx), coordinator.AcquireInfo{Path: "/rw", Kind: "read"}},
			{rw.Write().Acquire(ctx), coordinator.AcquireInfo{Path: "/rw", Kind: "write"}},
			{kazoo.Read().Acquire(ctx), coordinator.AcquireInfo{Path: "/kazoo", Kind: "read"}},
			{kazoo.Write().Acquire(ctx), coordinator.AcquireInfo{Path: "/kazoo", Kind: "write"}},
			{c.Unfair("/unfair").Acquire(ctx), coordinator.AcquireInfo{Path: "/unfair", Kind: "unfair"}},
			{c.Election("/e").Campaign(ctx), coordinator.AcquireInfo{Path: "/e", Kind: "election"}},
			{c.Election("/ke", coordinator.AsKazoo()).Campaign(ctx), coordinator.AcquireInfo{Path: "/ke", Kind: "election"}},
			{c.Semaphore("/s", 3).Acquire(ctx, coordinator.WithPermits(2)), coordinator.AcquireInfo{Path: "/s", Kind: "semaphore", Permits: 2}},
			{c.Multi(c.Mutex("/a"), c.Mutex("/b")).Acquire(ctx), coordinator.AcquireInfo{Path: "/a", Kind: "multi"}},
			{c.Multi().Acquire(ctx), coordinator.AcquireInfo{Kind: "multi"}},
			{c.Mutex("bad").Acquire(ctx), coordinator.AcquireInfo{Path: "bad", Kind: "mutex"}},
		} {
			test.want.ID = test.a.ID()
			n := len(hook.acquired) - 14 + int(test.a.ID()) // they are asked for one after the other
			if got := hook.acquired[n-1]; got != test.want {
				t.Errorf("the hook hears %+v, want %+v", got, test.want)
			}
			if got := hook.contexts[n-1].Value(key{}); got != "the caller's" {
				t.Errorf("%s: the context has the value %v, want that of the caller", test.want.Kind, got)
			}
			test.a.Release()
		}
	})
}

// TestHooksHearAllEventsAndTakeNothing: a Grant that only a hook has heard of is taken back at the end of the wait.
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
		if !a.Valid() {
			t.Fatal("behind the holder the waiter is not granted")
		}
		cancel()
		time.Sleep(time.Second)
		if a.Valid() || !errors.Is(a.Err(), context.Canceled) {
			t.Errorf("when the wait has ended: held %v, Err %v; want it taken back", a.Valid(), a.Err())
		}
		want := []string{"Connected", "Queued", "Suspended", "SessionExpired", "Connected", "Requeued", "Queued", "Grant", "Ended"}
		if got := hook.kinds(); !reflect.DeepEqual(got, want) && !reflect.DeepEqual(got, swapped(want, 4)) {
			t.Errorf("the hook hears %q, want %q", got, want)
		}
	})
}

// swapped has the two from i on in the other order.
func swapped(all []string, i int) []string {
	all = append([]string(nil), all...)
	all[i], all[i+1] = all[i+1], all[i]
	return all
}

// TestHooksHearOfRequests: as many as the server got, with the outcome of each, and its server.
func TestHooksHearOfRequests(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		a, grant := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		before := hook.failed() // the first create has found no directory
		_, err := a.Txn(t.Context(), &zk.CheckVersionRequest{Path: "/missing"})
		if err == nil {
			t.Fatal("a transaction on a node that is not there is executed")
		}
		synctest.Wait() // a probe may be on its way at that instant
		for _, op := range []zktest.Op{zktest.OpConnect, zktest.OpMulti, zktest.OpPing, zktest.OpGetData} {
			hook.mu.Lock()
			n := 0
			for _, r := range hook.requests {
				if r.Op == op.String() {
					n++
				}
			}
			hook.mu.Unlock()
			if want := srv.Requests(op); n != want || n == 0 {
				t.Errorf("the hook has heard of %d requests of the kind %v, want %d as the server has had", n, op, want)
			}
		}
		hook.mu.Lock()
		for _, r := range hook.requests {
			if r.Server != srv.Addr() || r.Bytes < 24 || r.Duration < 0 {
				t.Errorf("the hook hears %+v, want the server %s, and its bytes", r, srv.Addr())
			}
		}
		hook.mu.Unlock()
		if n := hook.failed() - before; n != 1 {
			t.Errorf("when one transaction was refused %d requests have failed, want 1", n)
		}
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpExists {
				return zktest.Swallow()
			}
			return zktest.Pass()
		})
		looking := make(chan error, 1)
		go func() {
			_, err := c.Mutex(grant.Path).Queue(t.Context())
			looking <- err
		}()
		time.Sleep(time.Second)
		srv.Intercept(nil)
		srv.Cut(c.SessionID())
		time.Sleep(5 * time.Second)
		if err := <-looking; err != nil {
			t.Errorf("Queue returns %v, want nil", err)
		}
		if n := hook.told("connect", nil); n != 2 {
			t.Errorf("when the connection was cut once the hook has heard of %d handshakes, want 2", n)
		}
	})
}

// TestHooksHearOfTheLease: of each deadline, which is the acquisition's, and once that the lease has run out.
func TestHooksHearOfTheLease(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		hook := &ear{}
		c := coordtest.Connect(t, srv, coordinator.WithHooks(hook))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		synctest.Wait() // a probe may be answered at that instant
		hook.mu.Lock()
		var last coordinator.LeaseInfo
		for _, l := range hook.leases {
			if !l.Deadline.After(last.Deadline) || l.Session != c.SessionID() || l.RanOut {
				t.Errorf("after %+v the hook hears %+v, want a later deadline of session 0x%x", last, l, c.SessionID())
			}
			last = l
		}
		n := len(hook.leases)
		hook.mu.Unlock()
		if deadline := a.Deadline(); !last.Deadline.Equal(deadline) || n < 10 {
			t.Errorf("a minute later the hook has heard of %d deadlines and %v at last, want that of the acquisition, %v", n, last.Deadline, deadline)
		}
		srv.Mute(c.SessionID(), true)
		<-a.Lost()
		hook.mu.Lock()
		out := hook.leases[len(hook.leases)-1]
		hook.mu.Unlock()
		if !out.RanOut || time.Now().Before(out.Deadline) {
			t.Errorf("when the lock is lost the last that the hook has heard is %+v, want that the lease ran out", out)
		}
		srv.Mute(c.SessionID(), false)
	})
}

// deaf hears nothing.
type deaf struct{}

func TestAHookThatHearsNothingIsRefused(t *testing.T) {
	for _, test := range []struct {
		hooks []coordinator.Hook
		want  error
	}{
		{nil, nil},
		{[]coordinator.Hook{&ear{}}, nil},
		{[]coordinator.Hook{&ear{}, deaf{}}, coordinator.ErrInvalid},
		{[]coordinator.Hook{nil}, coordinator.ErrInvalid},
		{[]coordinator.Hook{ear{}}, coordinator.ErrInvalid}, // the methods are the pointer's, which is the mistake
	} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithHooks(), coordinator.WithHooks(test.hooks...))
			if !errors.Is(err, test.want) || err != nil && test.want == nil {
				t.Errorf("with the hooks %T Connect returns %v, want %v", test.hooks, err, test.want)
			}
			if err == nil {
				eventstest.Must(t, c.Close())
			}
		})
	}
}

// idle does nothing.
type idle struct{}

func (idle) OnAcquire(context.Context, coordinator.AcquireInfo) {}
func (idle) OnEvent(events.Event)                               {}

// TestHooksCostNoAllocation: an acquisition takes as many allocations with a hook as without one, so without one nothing is made
// for it. The allocations of requests and events are tested where they are made.
func TestHooksCostNoAllocation(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cost := func(c *coordinator.Coordinator) float64 {
			lock, ctx := c.Mutex("no path"), t.Context()
			return testing.AllocsPerRun(1000, func() { lock.Acquire(ctx) }) // and ends at once
		}
		without, with := cost(coordtest.Connect(t, srv)), cost(coordtest.Connect(t, srv, coordinator.WithHooks(idle{})))
		if without == 0 || with != without {
			t.Errorf("an acquisition takes %v allocations without hooks and %v with one, want the same", without, with)
		}
	})
}

func TestRealHooks(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	hook := &ear{}
	c := coordtest.ConnectReal(t, e.Connect(), coordinator.WithHooks(hook))
	ctx, cancel := context.WithCancel(t.Context())
	a := c.Mutex(lockPath).Acquire(ctx)
	eventstest.Eventually(t, "the hook hears of the Grant", func() bool {
		kinds := hook.kinds()
		return kinds[len(kinds)-1] == "Grant"
	})
	cancel()
	if err := coordtest.EndOf(t, a); !errors.Is(err, context.Canceled) {
		t.Errorf("an acquisition of which only a hook knows ends with %v, want the cause of its context", err)
	}
	b, _ := coordtest.Hold(t, c.Mutex(lockPath))
	before := hook.failed()
	if _, err := b.Txn(t.Context(), &zk.CheckVersionRequest{Path: "/missing"}); err == nil {
		t.Error("a transaction on a node that is not there is executed")
	}
	if n := hook.failed() - before; n != 1 {
		t.Errorf("when one transaction was refused %d requests have failed, want 1", n)
	}
	// The server may have removed the empty directory before this Grant, which then takes no transaction.
	if _, err := b.Txn(t.Context(), &zk.CheckVersionRequest{Path: lockPath, Version: -1}); err != nil {
		t.Error(err)
	}
	b.Release()
	eventstest.Must(t, coordtest.EndOf(t, b))
	want := []string{"Connected", "Grant", "Ended", "Grant", "Ended"}
	if got := hook.kinds(); !reflect.DeepEqual(got, want) {
		t.Errorf("the hook hears %q, want %q", got, want)
	}
	if hook.told("connect", nil) != 1 || hook.told("multi", nil) == 0 || hook.told("delete", nil) == 0 {
		t.Errorf("the hook hears of the requests %+v, want the handshake, transactions and the delete", hook.requests)
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	for _, r := range hook.requests {
		if r.Server != e.Addr(0) {
			t.Errorf("a request went to %s, want %s", r.Server, e.Addr(0))
		}
	}
	if len(hook.leases) == 0 || len(hook.acquired) != 2 {
		t.Errorf("the hook hears of %d deadlines and %d acquisitions, want some and 2", len(hook.leases), len(hook.acquired))
	}
}
