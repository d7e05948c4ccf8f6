package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// watchable is a handle with a queue.
type watchable interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
	Queue(ctx context.Context) ([]events.Contender, error)
	Watch(ctx context.Context) <-chan []events.Contender
}

// watchables are handles of each kind.
func watchables() map[string]func(c *coordinator.Coordinator) watchable {
	return map[string]func(c *coordinator.Coordinator) watchable{
		"mutex":     func(c *coordinator.Coordinator) watchable { return c.Mutex("/watched/mutex") },
		"reader":    func(c *coordinator.Coordinator) watchable { return c.ReadWrite("/watched/reader").Read() },
		"writer":    func(c *coordinator.Coordinator) watchable { return c.ReadWrite("/watched/writer").Write() },
		"semaphore": func(c *coordinator.Coordinator) watchable { return c.Semaphore("/watched/permits", 2) },
		"election":  func(c *coordinator.Coordinator) watchable { return c.Election("/watched/lead") },
		"unfair":    func(c *coordinator.Coordinator) watchable { return c.Unfair("/watched/node") },
		"multi": func(c *coordinator.Coordinator) watchable {
			return c.Multi(c.Mutex("/watched/b"), c.ReadWrite("/watched/a").Read())
		},
	}
}

// newest returns the queue that a watcher has not read yet.
func newest(seen <-chan []events.Contender) (queue []events.Contender, ok, closed bool) {
	synctest.Wait()
	select {
	case queue, ok = <-seen:
		return queue, ok, !ok
	default:
		return nil, false, false
	}
}

// wantQueue fails the test unless the watcher was just told what Queue returns, with so
// many contenders.
func wantQueue(t *testing.T, h watchable, seen <-chan []events.Contender, n int) []events.Contender {
	t.Helper()
	got, ok, closed := newest(seen)
	want, err := h.Queue(t.Context())
	eventstest.Must(t, err)
	if !ok || closed || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || len(got) != n {
		t.Fatalf("the watcher hears %+v (%v, its channel is closed: %v), want %d contenders, as Queue has them: %+v", got, ok, closed, n, want)
	}
	return got
}

// TestWatch of each kind: the queue at once, and again when a contender comes, gets the
// lock or goes, when the path goes and comes again, and in the next session.
func TestWatch(t *testing.T) {
	for kind, handle := range watchables() {
		coordtest.Case(t, kind, func(t *testing.T, srv *zktest.Server) {
			c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			h, theirs := handle(c), handle(other)
			each := 1
			if kind == "multi" {
				each = 2
			}
			waits := each // an unfair lock's waiters have no nodes
			if kind == "unfair" {
				waits = 0
			}
			seen := h.Watch(t.Context())
			calm := func() { time.Sleep(time.Minute) }
			wantQueue(t, h, seen, 0)
			for range 2 {
				first := theirs.Acquire(t.Context(), coordinator.Data([]byte("first")))
				coordtest.Soon(t, first)
				calm()
				if queue := wantQueue(t, h, seen, each); string(queue[0].Data) != "first" || !queue[0].Holding {
					t.Errorf("first of the queue: %+v, want a holder, and its data", queue[0])
				}
				second := theirs.Acquire(t.Context())
				third := theirs.Acquire(t.Context())
				calm()
				if waits > 0 {
					wantQueue(t, h, seen, each+2*waits)
				}
				coordtest.End(first)
				calm()
				wantQueue(t, h, seen, each+waits)
				late := h.Watch(t.Context())
				wantQueue(t, h, late, each+waits)
				eventstest.Must(t, srv.Expire(c.SessionID()))
				calm()
				if _, ok, closed := newest(seen); ok || closed {
					t.Error("the next session has the same queue, and a watcher hears it again; want nothing")
				}
				for _, a := range []*coordinator.Acquisition{second, third} {
					coordtest.End(a)
				}
				calm()
				wantQueue(t, h, seen, 0)
				wantQueue(t, h, late, 0)
				srv.Reap()
				calm()
				if queue, ok, closed := newest(seen); ok || closed {
					t.Errorf("the path has gone, and a watcher hears %v (closed: %v), want nothing", queue, closed)
				}
			}
		})
	}
}

// TestWatchAtEachStep makes a change before each request of a watcher. In the end it has
// heard of the present queue.
func TestWatchAtEachStep(t *testing.T) {
	for kind, handle := range watchables() {
		for _, meanwhile := range []string{"cut before", "cut after", "expire", "join", "leave", "path"} {
			for step, requests := 1, 1; requests >= step; step++ {
				requests = 0
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					first := handle(other).Acquire(t.Context())
					coordtest.Soon(t, first)
					if meanwhile == "path" {
						coordtest.End(first)
						srv.Reap()
					}
					second := first
					mine := of(c.SessionID())
					change := func() {
						if meanwhile == "leave" {
							first.Release()
						} else {
							second = handle(other).Acquire(t.Context())
						}
					}
					srv.Intercept(func(q zktest.Request) zktest.Action {
						if !mine(q) || !isA(zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren2)(q) {
							return zktest.Pass()
						}
						if requests++; requests != step {
							return zktest.Pass()
						}
						switch meanwhile {
						case "cut before":
							return zktest.CutBefore()
						case "cut after":
							return zktest.CutAfter()
						case "expire":
							_ = srv.Expire(q.Session)
							return zktest.Pass()
						}
						go change()
						return zktest.Delay(time.Second)
					})
					seen := handle(c).Watch(t.Context())
					time.Sleep(time.Minute)
					srv.Intercept(nil)
					time.Sleep(time.Minute) // the last change may have come just now
					queue, ok, _ := newest(seen)
					want, err := handle(c).Queue(t.Context())
					eventstest.Must(t, err)
					if !ok || len(queue) != len(want) || len(want) > 0 && !reflect.DeepEqual(queue, want) {
						t.Fatalf("%s at request %d of %s: the watcher hears %+v, want %+v", meanwhile, step, kind, queue, want)
					}
					second.Release()
				})
				if t.Failed() || requests > 30 {
					t.Fatalf("%s at request %d of %s: %d requests, want at most 30", meanwhile, step, kind, requests)
				}
			}
		}
	}
}

// TestWhatWatchersCost: a listing and the new data for all watchers of a path, and one
// listing in a probe interval however often it changes. A slow watcher hears the newest
// queue.
func TestWhatWatchersCost(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const crowd = 500
		cs, ms := coordtest.Metered(t, srv, 1)
		others := coordtest.Connect(t, srv)
		const interval = time.Second // T/10
		costs := func(what string, requests int, change func()) {
			t.Helper()
			before := ms[0].Read()
			change()
			if n := ms[0].Read().Minus(before); n.Requests != requests {
				t.Errorf("%s: %+v, want %d requests", what, n, requests)
			}
		}
		held, _ := coordtest.Hold(t, others.Mutex(coordtest.LockPath))
		var seen []<-chan []events.Contender
		costs("to begin", 2, func() { seen = append(seen, cs[0].Mutex(coordtest.LockPath).Watch(t.Context())) }) // list, read
		costs("other watchers", 0, func() {
			for range 10 {
				seen = append(seen, cs[0].Election(coordtest.LockPath).Watch(t.Context()), cs[0].Multi(cs[0].Mutex(coordtest.LockPath)).Watch(t.Context()))
			}
		})
		costs("an hour", 0, func() { time.Sleep(time.Hour) })
		var crowded []*coordinator.Acquisition
		costs("one that comes", 2, func() { crowded = append(crowded, coordtest.Queue(others.Mutex(coordtest.LockPath))) })
		time.Sleep(interval)
		costs("a crowd that comes in five intervals", 6+crowd, func() {
			for i := range crowd {
				if i%(crowd/5) == 0 {
					time.Sleep(interval)
				}
				crowded = append(crowded, coordtest.Queue(others.Mutex(coordtest.LockPath)))
			}
			time.Sleep(2 * interval)
		})
		for i, s := range seen {
			if queue, ok, _ := newest(s); !ok || len(queue) != crowd+2 {
				t.Fatalf("watcher %d reads for the first time, and hears of %d contenders, want the newest %d", i, len(queue), crowd+2)
			} else if i == 0 {
				queue[0] = events.Contender{} // its own
			}
		}
		held.Release()
		time.Sleep(2 * interval)
		for _, s := range seen {
			if queue, _, _ := newest(s); len(queue) != crowd+1 || !queue[0].Holding || queue[0].Node != crowded[0].Grant().Node {
				t.Fatalf("the lock was handed on, and a watcher hears of %d contenders, and first %+v; want %d", len(queue), queue[:min(1, len(queue))], crowd+1)
			}
		}
		for _, a := range crowded {
			a.Release()
		}
	})
}

// TestWatchersEnd with their contexts, with the coordinator, and where the path cannot be
// read: the channel is closed.
func TestWatchersEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		admin := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		for node, perms := range map[string]int32{"/closed": zk.PermAll &^ zk.PermRead, "/plain": zk.PermAll} {
			_, err := admin.Create(node, nil, zk.FlagPersistent, zk.WorldACL(perms))
			eventstest.Must(t, err)
		}
		isOver := func(what string, seen <-chan []events.Contender) {
			t.Helper()
			if _, ok, _ := newest(seen); ok {
				newest(seen)
			}
			if _, _, closed := newest(seen); !closed {
				t.Errorf("%s: the channel is open, want it closed", what)
			}
		}
		stays := c.Mutex(coordtest.LockPath).Watch(t.Context())
		for i := range 100 { // before, while and after it is first looked
			short, end := context.WithCancel(t.Context())
			if i%3 == 0 {
				end()
			}
			seen := c.Multi(c.Mutex(coordtest.LockPath), c.Mutex("/other")).Watch(short)
			if i%3 == 1 {
				synctest.Wait()
			}
			end()
			isOver("a context that ends", seen)
		}
		if n := logs.Len(); n != 0 {
			t.Errorf("watchers that have ended led to %d warnings, want none", n)
		}
		isOver("no path", c.Mutex("service").Watch(t.Context()))
		isOver("no members", c.Multi().Watch(t.Context()))
		isOver("a path that may not be read", c.Mutex("/closed").Watch(t.Context()))
		isOver("a member that may not be read", c.Multi(c.Mutex(coordtest.LockPath), c.Mutex("/closed")).Watch(t.Context()))
		isOver("no lock", c.Unfair("/plain").Watch(t.Context()))
		if _, err := c.Unfair("/plain").Queue(t.Context()); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("Queue of no lock: %v, want ErrKind", err)
		}
		if n := logs.FilterMessage("cannot read the lock's queue").Len(); n != 5 {
			t.Errorf("%d warnings that a queue cannot be read, want 5", n)
		}
		if _, ok, closed := newest(stays); !ok || closed {
			t.Errorf("a watcher beside them hears %v (its channel is closed: %v), want one queue", ok, closed)
		}
		changes := c.Mutex(coordtest.LockPath).Watch(t.Context())
		a, _ := coordtest.Hold(t, c.Mutex(coordtest.LockPath)) // a listing is due when it closes
		coordtest.End(a)
		began := time.Now()
		eventstest.Must(t, c.Close())
		isOver("a coordinator that was closed", stays)
		isOver("a coordinator that was closed", changes)
		isOver("a coordinator that is closed", c.Mutex(coordtest.LockPath).Watch(t.Context()))
		if took := time.Since(began); took >= time.Second {
			t.Errorf("it was closed after %v, want no wait for the next listing", took)
		}
	})
}

// realWatch has contenders of three sessions come and go on a real ensemble, at mutexes
// and semaphores. A watcher at each server hears of the last ones.
func realWatch(t *testing.T, e *ensemble.Ensemble) {
	rounds, ctx := eventstest.Amount(10, 40), coordtest.RealContext(t)
	for kind, handle := range watchables() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			watching, end := context.WithCancel(ctx)
			var seen []<-chan []events.Contender
			var cs []*coordinator.Coordinator
			for i := range 3 {
				cs = append(cs, coordtest.ConnectReal(t, e.Addr(i)))
				seen = append(seen, handle(cs[i]).Watch(watching))
			}
			var coming sync.WaitGroup
			for _, c := range cs {
				coming.Go(func() {
					for range rounds {
						a := handle(c).Acquire(ctx)
						coordtest.GrantOf(t, a)
						coordtest.End(a)
					}
				})
			}
			coming.Wait()
			last := handle(cs[0]).Acquire(ctx, coordinator.Data([]byte(fmt.Sprint("last ", kind))))
			coordtest.GrantOf(t, last)
			want, err := handle(cs[0]).Queue(ctx)
			eventstest.Must(t, err)
			for i, s := range seen {
				for queue := range s {
					if reflect.DeepEqual(queue, want) {
						break
					}
				}
				eventstest.Must(t, ctx.Err())
				t.Logf("the watcher at server %d has heard of the last", i)
			}
			end()
			coordtest.End(last)
		})
	}
}

// TestWatchersOfAPathDoNotTakeEachOthersWatch: one of the node's data says nothing of the
// children, and the other way round. So all kinds can be looked for at one path, in any
// order.
func TestWatchersOfAPathDoNotTakeEachOthersWatch(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		calm := func() { time.Sleep(time.Minute) }
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		node := c.Unfair(lockPath).Watch(t.Context())
		calm()
		if _, _, closed := newest(node); !closed {
			t.Error("a directory is watched as a lock of one node, want that to end")
		}
		queue := c.Mutex(lockPath).Watch(t.Context())
		calm()
		wantQueue(t, c.Mutex(lockPath), queue, 1)
		coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath)) // its session does not write to the directory's data
		calm()
		wantQueue(t, c.Mutex(lockPath), queue, 2)
		coordtest.End(holder)

		const single = "/locks/single"
		children := c.Mutex(single).Watch(t.Context())
		first, _ := coordtest.Hold(t, other.Unfair(single), coordinator.Data([]byte("first")))
		calm()
		wantQueue(t, c.Mutex(single), children, 0)
		node = c.Unfair(single).Watch(t.Context())
		calm()
		wantQueue(t, c.Unfair(single), node, 1)
		eventstest.Must(t, first.SetData(t.Context(), []byte("later")))
		calm()
		if all := wantQueue(t, c.Unfair(single), node, 1); string(all[0].Data) != "later" {
			t.Errorf("the holder's data are %q, want those that it has set", all[0].Data)
		}
	})
}
