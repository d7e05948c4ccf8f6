package coordinator_test

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// watchables make a handle of each kind.
var watchables = map[string]func(c *coordinator.Coordinator) handle{
	"mutex":     func(c *coordinator.Coordinator) handle { return c.Mutex("/watched/mutex") },
	"reader":    func(c *coordinator.Coordinator) handle { return c.ReadWrite("/watched/reader").Read() },
	"writer":    func(c *coordinator.Coordinator) handle { return c.ReadWrite("/watched/writer").Write() },
	"semaphore": func(c *coordinator.Coordinator) handle { return c.Semaphore("/watched/permits", 2) },
	"election":  func(c *coordinator.Coordinator) handle { return c.Election("/watched/lead") },
	"unfair":    func(c *coordinator.Coordinator) handle { return c.Unfair("/watched/node") },
	"multi": func(c *coordinator.Coordinator) handle {
		return c.Multi(c.Mutex("/watched/b"), c.ReadWrite("/watched/a").Read())
	},
}

// wantQueue fails the test unless the watcher just received the queue that Queue returns,
// with n contenders.
func wantQueue(t *testing.T, h handle, seen <-chan []events.Contender, n int) []events.Contender {
	t.Helper()
	got, ok, closed := said(seen)
	want, err := h.Queue(t.Context())
	eventstest.Must(t, err)
	if !ok || closed || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) || len(got) != n {
		t.Fatalf("the watcher hears %+v (%v, its channel is closed: %v), want %d contenders, as Queue has them: %+v", got, ok, closed, n, want)
	}
	return got
}

// TestWatch with each kind: the watcher receives the queue at once, and again when a
// contender joins, is granted the lock or leaves, when the path is removed or created
// again, and in the next session.
func TestWatch(t *testing.T) {
	for kind, handle := range watchables {
		coordtest.Case(t, kind, func(t *testing.T, srv *zktest.Server) {
			c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			h, theirs := handle(c), handle(other)
			each := cmp.Or(map[string]int{"multi": 2}[kind], 1)
			waits := each
			if kind == "unfair" {
				waits = 0 // its waiters have no nodes
			}
			seen := h.Watch(t.Context())
			calm := func() { time.Sleep(time.Minute) }
			wantQueue(t, h, seen, 0)
			for range 2 {
				first, _ := coordtest.Hold(t, theirs, coordinator.Data([]byte("first")))
				calm()
				queue := wantQueue(t, h, seen, each)
				expect(t, string(queue[0].Data) == "first" && queue[0].Holding, "first: %+v, want it to hold", queue[0])
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
				wantQuiet(t, "the next session has the same queue", seen)
				coordtest.End(second)
				coordtest.End(third)
				calm()
				wantQueue(t, h, seen, 0)
				wantQueue(t, h, late, 0)
				srv.Reap()
				calm()
				wantQuiet(t, "the path has gone", seen)
			}
		})
	}
}

// TestWatchAtEachStep makes a change before each request of a watcher. At the end, the
// watcher has received the current queue.
func TestWatchAtEachStep(t *testing.T) {
	for kind, handle := range watchables {
		for _, meanwhile := range []string{"cut before", "cut after", "expired", "join", "leave", "path"} {
			for step, requests := int32(1), int32(1); requests >= step; step++ {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					first, _ := coordtest.Hold(t, handle(other))
					if meanwhile == "path" {
						coordtest.End(first)
						srv.Reap()
					}
					strikes := mishaps()[meanwhile]
					if strikes == nil {
						strikes = func(*zktest.Server, int64) zktest.Action {
							if meanwhile == "leave" {
								go first.Release()
							} else {
								go handle(other).Acquire(t.Context())
							}
							return zktest.Delay(time.Second)
						}
					}
					reads := of(c.SessionID(), zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren2)
					asked := strikeNth(srv, step, strikes, reads)
					seen := handle(c).Watch(t.Context())
					time.Sleep(time.Minute)
					srv.Intercept(nil)
					requests = asked.Load()
					time.Sleep(time.Minute) // the last change may have been made just now
					queue, ok, _ := said(seen)
					want, err := handle(c).Queue(t.Context())
					eventstest.Must(t, err)
					expect(t, ok && len(queue) == len(want) && (len(want) == 0 || reflect.DeepEqual(queue, want)),
						"%s at request %d of %s: the watcher hears %+v, want %+v", meanwhile, step, kind, queue, want)
				})
				if t.Failed() || requests > 30 {
					t.Fatalf("%s at request %d of %s: %d requests, want at most 30", meanwhile, step, kind, requests)
				}
			}
		}
	}
}

// TestWhatWatchersCost: one listing and the new data for all watchers of a path, and at
// most one listing per probe interval. A slow watcher receives the newest queue.
func TestWhatWatchersCost(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const crowd = 500
		cs, ms := coordtest.Metered(t, srv, 1)
		others := coordtest.Connect(t, srv)
		const interval = time.Second // T/10
		costs := func(what string, requests int, change func()) {
			expectEqual(t, coordtest.Cost(ms, change).Requests, requests, "%s: requests", what)
		}
		held, _ := coordtest.Hold(t, others.Mutex(lockPath))
		var seen []<-chan []events.Contender
		costs("to begin", 2, func() { seen = append(seen, cs[0].Mutex(lockPath).Watch(t.Context())) }) // list, read
		costs("other watchers", 0, func() {
			for range 10 {
				seen = append(seen, cs[0].Election(lockPath).Watch(t.Context()))
				seen = append(seen, mutexes(cs[0], lockPath).Watch(t.Context()))
			}
		})
		costs("an hour", 0, func() { time.Sleep(time.Hour) })
		var crowded []*coordinator.Acquisition
		costs("one that comes", 2, func() { crowded = append(crowded, coordtest.Queue(others.Mutex(lockPath))) })
		time.Sleep(interval)
		costs("a crowd that comes in five intervals", 6+crowd, func() {
			for i := range crowd {
				if i%(crowd/5) == 0 {
					time.Sleep(interval)
				}
				crowded = append(crowded, coordtest.Queue(others.Mutex(lockPath)))
			}
			time.Sleep(2 * interval)
		})
		for i, s := range seen {
			queue, _, _ := said(s)
			expectEqual(t, len(queue), crowd+2, "contenders that watcher %d reads for the first time", i)
			if i == 0 {
				clear(queue) // the slice belongs to this watcher
			}
		}
		held.Release()
		time.Sleep(2 * interval)
		for _, s := range seen {
			queue, _, _ := said(s)
			expect(t, len(queue) == crowd+1 && queue[0].Holding && queue[0].Node == crowded[0].Grant().Node,
				"the lock was handed on, and a watcher hears of %d contenders, %+v", len(queue), queue)
		}
	})
}

// TestWatchersEnd with their context, with the coordinator, and if the path cannot be
// read: the channel is closed.
func TestWatchersEnd(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, logs := logged(t, srv, zap.WarnLevel)
		admin := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		for node, perms := range map[string]int32{"/closed": zk.PermAll &^ zk.PermRead, "/plain": zk.PermAll} {
			_, err := admin.Create(node, nil, zk.FlagPersistent, zk.WorldACL(perms))
			eventstest.Must(t, err)
		}
		stays := c.Mutex(lockPath).Watch(t.Context())
		endWithTheirContexts(t, mutexes(c, lockPath, "/other").Watch)
		expect(t, logs.Len() == 0, "watchers that have ended led to %d warnings, want none", logs.Len())
		isOver(t, "no path", c.Mutex("service").Watch(t.Context()))
		isOver(t, "an option of another kind", c.Mutex(lockPath, coordinator.AdoptSize()).Watch(t.Context()))
		isOver(t, "an empty ACL", c.Election(lockPath, coordinator.ACL(nil)).Watch(t.Context()))
		isOver(t, "no members", c.Multi().Watch(t.Context()))
		isOver(t, "a path that may not be read", c.Mutex("/closed").Watch(t.Context()))
		isOver(t, "a member that may not be read", mutexes(c, lockPath, "/closed").Watch(t.Context()))
		isOver(t, "no lock", c.Unfair("/plain").Watch(t.Context()))
		_, err := c.Unfair("/plain").Queue(t.Context())
		expectError(t, err, coordinator.ErrKind, "Queue of no lock")
		expectEqual(t, logs.FilterMessage("cannot read the lock's queue").Len(), 7, "warnings about it")
		_, ok, closed := said(stays)
		expect(t, ok && !closed, "a watcher beside them hears %v (closed: %v), want one queue", ok, closed)
		changes := c.Mutex(lockPath).Watch(t.Context())
		a, _ := coordtest.Hold(t, c.Mutex(lockPath)) // a listing is due when Close is called
		coordtest.End(a)
		began := time.Now()
		eventstest.Must(t, c.Close())
		isOver(t, "a coordinator that was closed", stays)
		isOver(t, "a coordinator that was closed", changes)
		isOver(t, "a coordinator that is closed", c.Mutex(lockPath).Watch(t.Context()))
		expect(t, time.Since(began) < time.Second, "closed after %v, want no wait for a listing", time.Since(began))
	})
}

// realWatch lets contenders of three sessions come and go on a real ensemble, at locks of
// each kind. A watcher at each server receives the last queue.
func realWatch(t *testing.T, e *ensemble.Ensemble) {
	rounds, ctx := eventstest.Amount(10, 40), coordtest.RealContext(t)
	for kind, handle := range watchables {
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
				coming.Go(func() { holdAgainAndAgain(t, handle(c), rounds) })
			}
			coming.Wait()
			last, _ := coordtest.HoldReal(t, handle(cs[0]), coordinator.Data([]byte(fmt.Sprint("last ", kind))))
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

// TestWatchersOfAPathDoNotTakeEachOthersWatch: a watch on a node's data reports nothing
// about its children, and the reverse. So locks of every kind can be watched at one path,
// in any order.
func TestWatchersOfAPathDoNotTakeEachOthersWatch(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		calm := func() { time.Sleep(time.Minute) }
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		node := c.Unfair(lockPath).Watch(t.Context())
		calm()
		_, _, closed := said(node)
		expect(t, closed, "a directory is watched as a lock of one node, want that to end")
		queue := c.Mutex(lockPath).Watch(t.Context())
		calm()
		wantQueue(t, c.Mutex(lockPath), queue, 1)
		coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath)) // this session does not write to the directory's data
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
		all := wantQueue(t, c.Unfair(single), node, 1)
		expect(t, string(all[0].Data) == "later", "the holder's data are %q, want what it has set", all[0].Data)
	})
}
