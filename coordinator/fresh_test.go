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

// TestAFreshPathWhateverHappensToItsRequests: each of the two requests for a lock at a fresh
// path meets each fault. The lock is granted once and has one node, and none is left
// after the release, after a release before the Grant, and after Close.
func TestAFreshPathWhateverHappensToItsRequests(t *testing.T) {
	const fresh = "/locks/fresh"
	faults := map[string]func(srv *zktest.Server, q zktest.Request) zktest.Action{
		"not executed": func(*zktest.Server, zktest.Request) zktest.Action { return zktest.CutBefore() },
		"not answered": func(*zktest.Server, zktest.Request) zktest.Action { return zktest.CutAfter() },
		"no word":      func(*zktest.Server, zktest.Request) zktest.Action { return zktest.Swallow() },
		"throttled":    func(*zktest.Server, zktest.Request) zktest.Action { return zktest.Fail(zktest.Throttled) },
		"expired": func(srv *zktest.Server, q zktest.Request) zktest.Action {
			_ = srv.Expire(q.Session) // a resumed one may be over
			return zktest.Pass()
		},
		"all deleted by hand": func(srv *zktest.Server, _ zktest.Request) zktest.Action {
			for _, node := range srv.Children(fresh) {
				_ = srv.Delete(path.Join(fresh, node)) // each may have gone by itself
			}
			_ = srv.Delete(fresh)
			return zktest.Pass()
		},
	}
	ends := map[string]func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator, a *coordinator.Acquisition){
		"held": func(t *testing.T, srv *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
			coordtest.GrantOf(t, a)
			time.Sleep(time.Minute)
			if nodes := srv.Children(fresh); a.Valid() != (len(nodes) == 1) {
				t.Errorf("valid %v, and its nodes are %v; want one while it is", a.Valid(), nodes)
			}
			coordtest.End(a)
		},
		"released before": func(_ *testing.T, _ *zktest.Server, _ *coordinator.Coordinator, a *coordinator.Acquisition) {
			coordtest.End(a)
		},
		"closed": func(_ *testing.T, _ *zktest.Server, c *coordinator.Coordinator, _ *coordinator.Acquisition) {
			_ = c.Close() // it says so if the servers do not answer
		},
	}
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate} {
		for fault, strikes := range faults {
			for end, play := range ends {
				coordtest.Case(t, fmt.Sprintf("%v %s, %s", op, fault, end), func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					holdAgainAndAgain(t, c.Mutex("/locks/first"), 1) // from now on the session asks for all at once
					struck := false
					srv.Intercept(func(q zktest.Request) zktest.Action {
						if struck || q.Op != op || !strings.HasPrefix(q.Path, fresh) {
							return zktest.Pass()
						}
						struck = true
						return strikes(srv, q)
					})
					play(t, srv, c, c.Mutex(fresh).Acquire(context.Background()))
					time.Sleep(time.Minute)
					synctest.Wait()
					if nodes := srv.Children(fresh); len(nodes) > 0 {
						t.Errorf("left are %v, want none", nodes)
					}
				})
			}
		}
	}
}

// TestAFreshPathReleasedBeforeItIsSent: a lock at a fresh path is released while the
// client still writes an earlier request. Its node is not asked for.
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
			if strings.HasPrefix(q.Path, "/locks/fresh") {
				asked[q.Op]++
			}
			return zktest.Pass()
		})
		gate := make(chan struct{})
		shut.Store(&gate)
		earlier := c.Mutex("/locks/first").Acquire(t.Context())
		synctest.Wait()
		a := c.Mutex("/locks/fresh").Acquire(t.Context())
		synctest.Wait()
		a.Release()
		synctest.Wait()
		shut.Store(nil)
		close(gate)
		<-a.Done()
		coordtest.End(earlier)
		if asked[zktest.OpCreateContainer] != 1 || asked[zktest.OpCreate] != 0 {
			t.Errorf("asked for were %v, want the directory once and no node", asked)
		}
	})
}

// TestACutAmidFreshPathsCostsOneConnection: what the client had in its queue when the
// connection ended does not end the next one, too.
func TestACutAmidFreshPathsCostsOneConnection(t *testing.T) {
	const paths = 100
	for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate} {
		for _, nth := range []int{1, 20, 60} {
			coordtest.Case(t, fmt.Sprintf("%v %d", op, nth), func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				holdAgainAndAgain(t, c.Mutex("/locks/first"), 1)
				seen, connections := 0, srv.Requests(zktest.OpConnect)
				srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Op == op && strings.HasPrefix(q.Path, "/locks/fresh") {
						if seen++; seen == nth {
							return zktest.CutAfter()
						}
					}
					return zktest.Pass()
				})
				var all []*coordinator.Acquisition
				for i := range paths {
					all = append(all, c.Mutex(fmt.Sprintf("/locks/fresh-%d", i)).Acquire(t.Context()))
				}
				for _, a := range all {
					coordtest.GrantOf(t, a)
					coordtest.End(a)
				}
				if n := srv.Requests(zktest.OpConnect) - connections; n != 1 {
					t.Errorf("%d connections after the cut, want 1", n)
				}
			})
		}
	}
}
