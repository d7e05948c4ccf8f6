package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// throttling is a server that refuses requests as an overloaded one does (ThrottledOp).
type throttling struct {
	*testing.T
	server   *zktest.Server
	c, other *coordinator.Coordinator
	asked    atomic.Int64 // requests received
	on       atomic.Bool
}

var (
	throttledReads  = []zktest.Op{zktest.OpExists, zktest.OpGetData, zktest.OpGetChildren, zktest.OpGetChildren2}
	throttledWrites = []zktest.Op{zktest.OpCreate, zktest.OpCreate2, zktest.OpCreateContainer, zktest.OpDelete, zktest.OpSetData, zktest.OpMulti}
)

// throttledTrial runs a scene on a server that refuses these requests while on is set.
func throttledTrial(t *testing.T, away []zktest.Op, scene func(*throttling)) {
	t.Helper()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		th := &throttling{T: t, server: srv, c: coordtest.Connect(t, srv), other: coordtest.Connect(t, srv)}
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpPing {
				th.asked.Add(1)
			}
			if th.on.Load() && slices.Contains(away, q.Op) {
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		scene(th)
		th.on.Store(false) // Close has to get through
	})
}

// minute returns how many requests are sent in the next minute.
func (th *throttling) minute() int64 {
	before := th.asked.Load()
	time.Sleep(time.Minute)
	return th.asked.Load() - before
}

// lockNumber returns the path of a lock.
func lockNumber(i int) string { return fmt.Sprintf("%s/%d", lockPath, i) }

// throttledLocks is the number of locks.
const throttledLocks = 20

// eachLock calls the function for the path of each lock.
func eachLock(do func(path string)) {
	for i := range throttledLocks {
		do(lockNumber(i))
	}
}

// TestThrottledRequestsAreMadeAgainSeldom, with pauses of a quarter of the timeout.
func TestThrottledRequestsAreMadeAgainSeldom(t *testing.T) {
	scenes := map[string]func(*throttling){
		"held, and not watched yet": func(th *throttling) {
			eachLock(func(path string) { // the second Hold reads no directory and watches no node yet
				holdAgainAndAgain(th.T, th.c.Mutex(path), 1)
				coordtest.Hold(th.T, th.c.Mutex(path))
			})
			th.on.Store(true)
		},
		"waiters whose turn has come": func(th *throttling) {
			eachLock(func(path string) {
				coordtest.Hold(th.T, th.other.Mutex(path))
				coordtest.Queue(th.c.Mutex(path))
			})
			th.on.Store(true)
			th.server.Cut(th.other.SessionID())
			_ = th.server.Expire(th.other.SessionID())
		},
		"newcomers": func(th *throttling) {
			th.on.Store(true)
			eachLock(func(path string) { th.c.Mutex(path).Acquire(th.Context()) })
		},
		"unfair locks": func(th *throttling) {
			th.on.Store(true)
			eachLock(func(path string) { th.c.Unfair(path).Acquire(th.Context()) })
		},
		"semaphores": func(th *throttling) {
			eachLock(func(path string) { th.other.Semaphore(path, 1).Acquire(th.Context()) })
			time.Sleep(time.Second)
			eachLock(func(path string) { th.c.Semaphore(path, 1).Acquire(th.Context()) })
			time.Sleep(time.Second)
			th.on.Store(true)
			_ = th.server.Expire(th.other.SessionID())
		},
		"observers": func(th *throttling) {
			eachLock(func(path string) {
				th.other.Election(path).Acquire(th.Context(), nil)
				words := th.c.Election(path).Observe(th.Context())
				go func() {
					for range words { // until the test ends
					}
				}()
			})
			time.Sleep(time.Second)
			th.on.Store(true)
			_ = th.server.Expire(th.other.SessionID())
		},
		"cached locks": func(th *throttling) {
			eachLock(func(path string) { holdAgainAndAgain(th.T, th.c.Mutex(path, coordinator.Cached()), 1) })
			th.on.Store(true)
			eachLock(func(path string) { th.other.Mutex(path).Acquire(th.Context()) })
		},
	}
	for kind, away := range map[string][]zktest.Op{
		"reads": throttledReads, "writes": throttledWrites, "all": slices.Concat(throttledReads, throttledWrites),
	} {
		for name, scene := range scenes {
			t.Run(name+", "+kind, func(t *testing.T) {
				throttledTrial(t, away, func(th *throttling) {
					scene(th)
					th.minute() // the pause has grown
					// A pause is at least 1.25 s, and there are two clients with at most
					// two requests for each lock.
					const most = 2 * 2 * throttledLocks * 48
					for range 2 {
						n := th.minute()
						expect(th.T, n <= most, "%d requests in a minute, want %d at most", n, most)
					}
				})
			})
		}
	}
}

// TestNothingIsAskedForNobody once all locks that came and went are released.
func TestNothingIsAskedForNobody(t *testing.T) {
	for kind, away := range map[string][]zktest.Op{"reads": throttledReads, "writes": throttledWrites} {
		t.Run(kind, func(t *testing.T) {
			throttledTrial(t, away, func(th *throttling) {
				var held []*coordinator.Acquisition
				eachLock(func(path string) {
					holdAgainAndAgain(th.T, th.c.Mutex(path), 2) // makes the directories known
					a, _ := coordtest.Hold(th.T, th.c.Mutex(path))
					held = append(held, a)
				})
				th.on.Store(true) // and none of the nodes is watched
				for range 10 {
					eachLock(func(path string) {
						for _, c := range []*coordinator.Coordinator{th.c, th.other} {
							ctx := within(th.T, 5*time.Second)
							a := c.Mutex(path).Acquire(ctx)
							go func() {
								_, _ = a.Wait(ctx) // whether granted or not
								a.Release()
							}()
						}
					})
					time.Sleep(6 * time.Second)
				}
				const most = 3 * 2 * throttledLocks * 48 // for the locks that come and go, and for the held ones
				n := th.minute()
				expect(th.T, n <= most, "%d requests in the next minute, want %d at most", n, most)
				for _, a := range held {
					a.Release()
				}
				if kind == "writes" {
					th.on.Store(false) // otherwise no node could be deleted
				}
				th.minute()
				n = th.minute()
				expect(th.T, n == 0, "%d requests in a minute without a lock, want none", n)
				th.on.Store(false)
				eachLock(func(path string) { holdAgainAndAgain(th.T, th.c.Mutex(path), 1) })
			})
		})
	}
}

// TestATransactionThatIsGivenUpCountsOnce: its caller gives up while the transaction
// waits to be retried.
func TestATransactionThatIsGivenUpCountsOnce(t *testing.T) {
	throttledTrial(t, throttledWrites, func(th *throttling) {
		holder, _ := coordtest.Hold(th.T, th.c.Mutex(lockPath))
		synctest.Wait()
		th.on.Store(true)
		create := &zk.CreateRequest{Path: "/e", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}
		_, err := holder.Txn(within(th.T, 60*time.Millisecond), create)
		expect(th.T, err != nil, "the transaction was executed")
		time.Sleep(time.Minute)
		th.on.Store(false)
		expect(th.T, th.c.Nodes().Nodes == 1, "%+v count, want the lock's node", th.c.Nodes())
		coordtest.End(holder) // it was lost, because every write was refused
		time.Sleep(time.Minute)
		expect(th.T, th.c.Nodes().Nodes == 0, "%+v count a minute after the end, want no node", th.c.Nodes())
	})
}

// TestACreateThatWasTurnedAwayGoesByItself: the create was combined with a release, and
// is withdrawn during its pause. The next create is combined with neither.
func TestACreateThatWasTurnedAwayGoesByItself(t *testing.T) {
	throttledTrial(t, []zktest.Op{zktest.OpMulti, zktest.OpDelete}, func(th *throttling) {
		holdAgainAndAgain(th.T, th.c.Mutex(lockPath), 3)
		for range 10 { // the scheduler decides whether the two are combined
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
			coordtest.End(next)
		}
	})
}

const turnedAwayMessage = session.TurnedAway

// TestRequestsThatAreTurnedAwayAreSaid in the log, after some seconds and then once a
// minute: a caller whose wait ends only gets the error of its own end.
func TestRequestsThatAreTurnedAwayAreSaid(t *testing.T) {
	for code, cause := range map[zktest.Code]string{zktest.Throttled: "throttled by the server", zktest.MarshallingError: "its log has the reason"} {
		coordtest.Case(t, code.Error(), func(t *testing.T, srv *zktest.Server) {
			c, logs := logged(t, srv, zap.InfoLevel)
			asked := striking(srv, zktest.Fail(code), func(r zktest.Request) bool {
				return !isA(zktest.OpPing, zktest.OpClose)(r)
			})
			said := func(want int, when string) {
				lines := logs.FilterMessage(turnedAwayMessage).All()
				expectEqual(t, len(lines), want, "%s: lines of the log that say it", when)
				for _, line := range lines {
					text, _ := line.ContextMap()["error"].(string)
					expect(t, line.Level == zap.WarnLevel && strings.Contains(text, cause),
						"the log has %v %v, want a warning with %q", line.Level, line.ContextMap(), cause)
				}
			}
			ctx := within(t, 150*time.Second)
			a := c.Mutex(lockPath).Acquire(ctx)
			time.Sleep(2 * time.Second)
			said(0, "after 2 s")
			time.Sleep(8 * time.Second)
			said(1, "after 10 s")
			before := asked.Load()
			time.Sleep(time.Minute)
			said(2, "a minute later")
			n := asked.Load() - before
			expect(t, n <= 60, "%d requests in a minute, want one for each pause of about 2 s", n)
			<-ctx.Done()
			said(3, "in the end")
			srv.Intercept(nil)
			<-a.Done()
			coordtest.Hold(t, c.Mutex(lockPath))
		})
	}
}

// TestConnectionsThatEndAtOnceAreExplained: a server with too many connections may reset
// a dial, and a server of another ensemble closes the connection instead of refusing the
// identity.
func TestConnectionsThatEndAtOnceAreExplained(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		strike(srv, zktest.CutBefore(), isA(zktest.OpAuth))
		reset := func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EPIPE)}
		}
		for _, c := range []struct {
			option coordinator.Option
			says   string
		}{
			{coordinator.WithDialer(reset), "maxCnxns"},
			{coordinator.WithAuth("ensemble", []byte("there")), "the server is of another ensemble"},
			{coordinator.WithAuth("digest", []byte("u:p")), `identity of scheme "digest": the server, or something on the way to it, closed the connection`},
		} {
			_, err := coordinator.Connect(within(t, 5*time.Second), srv.Addr(), srv.Option(), c.option)
			const another = "another ensemble"
			expect(t, err != nil && strings.Contains(err.Error(), c.says) &&
				strings.Contains(err.Error(), another) == strings.Contains(c.says, another), "%v, want %q", err, c.says)
		}
	})
}
