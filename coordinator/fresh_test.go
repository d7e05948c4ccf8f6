package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// freshPath is an unused path, and the prefix of several.
const freshPath = "/locks/fresh"

// atFresh returns a function that reports whether a request has this operation, at or
// below a fresh path.
func atFresh(op zktest.Op) func(zktest.Request) bool {
	return func(q zktest.Request) bool { return q.Op == op && strings.HasPrefix(q.Path, freshPath) }
}

// TestAFreshPathWhateverHappensToItsRequests: each of the two requests for a lock at a
// fresh path meets each fault. The lock is granted once and has one node. No node is left
// after the release, after a release before the Grant, or after Close.
func TestAFreshPathWhateverHappensToItsRequests(t *testing.T) {
	faults := mishaps()
	faults["no word"] = func(*zktest.Server, int64) zktest.Action { return zktest.Swallow() }
	faults["all deleted by hand"] = func(srv *zktest.Server, _ int64) zktest.Action {
		for _, node := range append(srv.Children(freshPath), "") {
			_ = srv.Delete(path.Join(freshPath, node)) // each may be gone already
		}
		return zktest.Pass()
	}
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate} {
		for _, end := range []string{"held", "released before", "closed"} {
			t.Run(fmt.Sprint(op, ", ", end), func(t *testing.T) {
				forEach(t, faults, func(t *testing.T, srv *zktest.Server, f func(*zktest.Server, int64) zktest.Action) {
					c := coordtest.Connect(t, srv)
					holdAgainAndAgain(t, c.Mutex("/locks/first"), 1) // from now on the session sends both requests together
					strikeNth(srv, 1, f, atFresh(op))
					a := c.Mutex(freshPath).Acquire(context.Background())
					switch end {
					case "held":
						coordtest.GrantOf(t, a)
						time.Sleep(time.Minute)
						expectEqual(t, len(srv.Children(freshPath)) == 1, a.Valid(), "it has its only node")
						coordtest.End(a)
					case "released before":
						coordtest.End(a)
					case "closed":
						_ = c.Close() // it returns an error if the servers do not answer
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					expectNone(t, srv.Children(freshPath), "nodes that are left")
				})
			})
		}
	}
}

// TestAFreshPathReleasedBeforeItIsSent: a lock at a fresh path is released while the
// client is still writing an earlier request. No create is sent for its node.
func TestAFreshPathReleasedBeforeItIsSent(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var shut atomic.Pointer[chan struct{}]
		c := coordtest.Connect(t, srv, coordinator.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, addr)
			return gated{conn, &shut}, err
		}))
		holdAgainAndAgain(t, c.Mutex("/locks/first"), 1)
		asked := map[zktest.Op]int{}
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if atFresh(q.Op)(q) {
				asked[q.Op]++
			}
			return zktest.Pass()
		})
		gate := make(chan struct{})
		shut.Store(&gate)
		earlier := coordtest.Queue(c.Mutex("/locks/first"))
		a := coordtest.Queue(c.Mutex(freshPath))
		a.Release()
		synctest.Wait()
		shut.Store(nil)
		close(gate)
		<-a.Done()
		coordtest.End(earlier)
		expect(t, asked[zktest.OpCreateContainer] == 1 && asked[zktest.OpCreate] == 0,
			"asked for were %v, want the directory once and no node", asked)
	})
}

// TestACutAmidFreshPathsCostsOneConnection: requests left in the client's queue when the
// connection ended do not end the next one, too.
func TestACutAmidFreshPathsCostsOneConnection(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate} {
		for _, nth := range []int32{1, 20, 60} {
			coordtest.Case(t, fmt.Sprintf("%v %d", op, nth), func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				holdAgainAndAgain(t, c.Mutex("/locks/first"), 1)
				connections := srv.Requests(zktest.OpConnect)
				strikeNth(srv, nth, mishaps()["cut after"], atFresh(op))
				var all []*coordinator.Acquisition
				for i := range 100 {
					all = append(all, c.Mutex(fmt.Sprint(freshPath, "-", i)).Acquire(t.Context()))
				}
				for _, a := range all {
					coordtest.GrantOf(t, a)
					coordtest.End(a)
				}
				expectEqual(t, srv.Requests(zktest.OpConnect)-connections, 1, "connections after the cut")
			})
		}
	}
}
