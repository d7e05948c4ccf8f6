package coordinator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// throttling is a server that turns requests away, as an overloaded one does (ThrottledOp).
type throttling struct {
	*testing.T
	server   *zktest.Server
	c, other *coordinator.Coordinator
	asked    atomic.Int64 // requests
	on       atomic.Bool
}

var (
	throttledReads  = []zktest.Op{zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren, zktest.OpGetChildren2}
	throttledWrites = []zktest.Op{zktest.OpCreate, zktest.OpCreate2, zktest.OpCreateContainer, zktest.OpDelete, zktest.OpSetData, zktest.OpMulti}
)

// throttledTrial runs a scene on a server that turns such requests away while it is on.
func throttledTrial(t *testing.T, away []zktest.Op, scene func(*throttling)) {
	t.Helper()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		th := &throttling{T: t, server: srv, c: coordtest.Connect(t, srv), other: coordtest.Connect(t, srv)}
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpPing {
				return zktest.Pass()
			}
			th.asked.Add(1)
			for _, op := range away {
				if q.Op == op && th.on.Load() {
					return zktest.Fail(zktest.Throttled)
				}
			}
			return zktest.Pass()
		})
		scene(th)
		th.on.Store(false) // Close has to get through
	})
}

// minute returns how many requests were made in the next minute.
func (th *throttling) minute() int64 {
	before := th.asked.Load()
	time.Sleep(time.Minute)
	return th.asked.Load() - before
}

// lock returns one of 20 locks.
func lockNumber(i int) string { return fmt.Sprintf("%s/%d", lockPath, i) }

// TestThrottledRequestsAreMadeAgainSeldom, of every kind that is made again: at a pause of
// a quarter of the timeout each, and in all kinds of locks.
func TestThrottledRequestsAreMadeAgainSeldom(t *testing.T) {
	const locks = 20
	scenes := map[string]func(*throttling){
		"held, and not watched yet": func(th *throttling) {
			for i := range locks { // the second time no directory is read, and no node is watched
				a, _ := coordtest.Hold(th.T, th.c.Mutex(lockNumber(i)))
				coordtest.End(a)
				coordtest.Hold(th.T, th.c.Mutex(lockNumber(i)))
			}
			th.on.Store(true)
		},
		"waiters whose turn has come": func(th *throttling) {
			for i := range locks {
				coordtest.Hold(th.T, th.other.Mutex(lockNumber(i)))
				coordtest.Queue(th.c.Mutex(lockNumber(i)))
			}
			th.on.Store(true)
			th.server.Cut(th.other.SessionID())
			_ = th.server.Expire(th.other.SessionID())
		},
		"newcomers": func(th *throttling) {
			th.on.Store(true)
			for i := range locks {
				th.c.Mutex(lockNumber(i)).Acquire(th.Context())
			}
		},
		"unfair locks": func(th *throttling) {
			th.on.Store(true)
			for i := range locks {
				th.c.Unfair(lockNumber(i)).Acquire(th.Context())
			}
		},
		"semaphores": func(th *throttling) {
			for i := range locks {
				th.other.Semaphore(lockNumber(i), 1).Acquire(th.Context())
			}
			time.Sleep(time.Second)
			for i := range locks {
				th.c.Semaphore(lockNumber(i), 1).Acquire(th.Context())
			}
			time.Sleep(time.Second)
			th.on.Store(true)
			_ = th.server.Expire(th.other.SessionID())
		},
		"observers": func(th *throttling) {
			for i := range locks {
				th.other.Election(lockNumber(i)).Campaign(th.Context(), nil)
				words := th.c.Election(lockNumber(i)).Observe(th.Context())
				go func() {
					for range words { // until the test is over
					}
				}()
			}
			time.Sleep(time.Second)
			th.on.Store(true)
			_ = th.server.Expire(th.other.SessionID())
		},
		"cached locks": func(th *throttling) {
			for i := range locks {
				a := th.c.Mutex(lockNumber(i), coordinator.Cached()).Acquire(th.Context())
				coordtest.Soon(th.T, a)
				coordtest.End(a)
			}
			th.on.Store(true)
			for i := range locks {
				th.other.Mutex(lockNumber(i)).Acquire(th.Context())
			}
		},
	}
	for kind, away := range map[string][]zktest.Op{"reads": throttledReads, "writes": throttledWrites, "all": append(append([]zktest.Op(nil), throttledReads...), throttledWrites...)} {
		for name, scene := range scenes {
			t.Run(name+", "+kind, func(t *testing.T) {
				throttledTrial(t, away, func(th *throttling) {
					scene(th)
					th.minute() // it has grown
					// One pause is 1.25 s at least, and there are two clients, of two requests each at most.
					const most = 2 * 2 * locks * 48
					for range 2 {
						if n := th.minute(); n > most {
							th.Errorf("%d requests in a minute, want %d at most", n, most)
						}
					}
				})
			})
		}
	}
}

// TestNothingIsAskedForNobody: locks come and go while a server turns requests away. When
// all of them are gone nothing is asked any more, and before it is no more each minute.
func TestNothingIsAskedForNobody(t *testing.T) {
	const locks = 20
	for kind, away := range map[string][]zktest.Op{"reads": throttledReads, "writes": throttledWrites} {
		t.Run(kind, func(t *testing.T) {
			throttledTrial(t, away, func(th *throttling) {
				for i := range locks { // the directories are known then
					for range 2 {
						a, _ := coordtest.Hold(th.T, th.c.Mutex(lockNumber(i)))
						coordtest.End(a)
					}
				}
				var held []*coordinator.Acquisition
				for i := range locks {
					a, _ := coordtest.Hold(th.T, th.c.Mutex(lockNumber(i)))
					held = append(held, a)
				}
				th.on.Store(true) // and none of the nodes is watched
				for range 10 {
					for i := range locks {
						for _, c := range []*coordinator.Coordinator{th.c, th.other} {
							ctx, cancel := context.WithTimeout(th.Context(), 5*time.Second)
							a := c.Mutex(lockNumber(i)).Acquire(ctx)
							go func() {
								defer cancel()
								_, _ = a.Wait(ctx) // granted or not
								a.Release()
							}()
						}
					}
					time.Sleep(6 * time.Second)
				}
				const most = 3 * 2 * locks * 48 // of those that come and go, and of those that hold
				if n := th.minute(); n > most {
					th.Errorf("%d requests in the next minute, want %d at most", n, most)
				}
				for _, a := range held {
					a.Release()
				}
				if kind == "writes" {
					th.on.Store(false) // or no lock could go
				}
				th.minute()
				if n := th.minute(); n > 0 {
					th.Errorf("%d requests in a minute without a lock, want none", n)
				}
				th.on.Store(false)
				for i := range locks {
					begun := time.Now()
					a := th.c.Mutex(lockNumber(i)).Acquire(th.Context())
					if _, err := a.Wait(th.Context()); err != nil || time.Since(begun) > 3*time.Second {
						th.Errorf("after that a lock is granted after %v (%v), want soon", time.Since(begun), err)
					}
					coordtest.End(a)
				}
			})
		})
	}
}

// TestATransactionThatIsGivenUpCountsOnce: its caller gives up while the transaction waits to be made again.
func TestATransactionThatIsGivenUpCountsOnce(t *testing.T) {
	throttledTrial(t, throttledWrites, func(th *throttling) {
		holder, _ := coordtest.Hold(th.T, th.c.Mutex(lockPath))
		synctest.Wait()
		th.on.Store(true)
		ctx, cancel := context.WithTimeout(th.Context(), 60*time.Millisecond)
		defer cancel()
		if _, err := holder.Txn(ctx, &zk.CreateRequest{Path: "/e", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}); err == nil {
			th.Error("the transaction was executed")
		}
		time.Sleep(time.Minute)
		th.on.Store(false)
		if n := th.c.Nodes().Nodes; n != 1 {
			th.Errorf("%d nodes count, want the lock's", n)
		}
		coordtest.End(holder) // it was lost, as no write was let through
		time.Sleep(time.Minute)
		if n := th.c.Nodes().Nodes; n != 0 {
			th.Errorf("%d nodes count a minute after the end, want none", n)
		}
	})
}

// TestACreateThatWasTurnedAwayGoesByItself: it had joined a release, and is withdrawn in its pause. The next one joins neither of them.
func TestACreateThatWasTurnedAwayGoesByItself(t *testing.T) {
	throttledTrial(t, []zktest.Op{zktest.OpMulti, zktest.OpDelete}, func(th *throttling) {
		for range 3 {
			a, _ := coordtest.Hold(th.T, th.c.Mutex(lockPath))
			coordtest.End(a)
		}
		holder, _ := coordtest.Hold(th.T, th.c.Mutex(lockPath))
		synctest.Wait()
		th.on.Store(true)
		holder.Release()
		withdrawn := th.c.Mutex(lockPath).Acquire(th.Context())
		time.Sleep(20 * time.Millisecond)
		withdrawn.Release()
		next := th.c.Mutex(lockPath).Acquire(th.Context())
		time.Sleep(20 * time.Millisecond)
		th.on.Store(false)
		coordtest.Soon(th.T, next)
	})
}
