package coordinator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// What is wrong is said at once, by name, and nothing is sent.

func TestBadLockPathsEndInErrPathAndSendNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		for _, path := range []string{
			"", "a", "a/b", " /a", "//", "/a/", "/a//b", "/a/../b", "/..", "/./a", "/a\x00", "/\x00", "/a\x1f", "/a\xff", "/\U0001F512",
			"/zookeeper", "/zookeeper/x", "/zookeeper/quota/locks",
			"/" + strings.Repeat("a", 1<<20), strings.Repeat("/a", 1<<19), strings.Repeat("x", 1<<20),
		} {
			for name, ask := range map[string]func(*coordinator.Lock) error{
				"Acquire": func(l *coordinator.Lock) error {
					a := l.Acquire(t.Context())
					if !coordtest.IsClosed(a.Done()) {
						t.Errorf("%.20q: not over when Acquire returned", path)
					}
					return a.Err()
				},
				"Try": func(l *coordinator.Lock) error {
					_, err := l.Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
					return err
				},
				"Do": func(l *coordinator.Lock) error {
					return l.Do(t.Context(), func(context.Context, events.Grant) error { return nil })
				},
			} {
				err := ask(c.Mutex(path))
				if !errors.Is(err, coordinator.ErrPath) {
					t.Errorf("%s of %.20q: %v", name, path, err)
				} else if len(err.Error()) > 200 {
					t.Errorf("%s of %.20q: the error has %d bytes", name, path, len(err.Error()))
				}
				if len(path) >= 1<<20 && !errors.Is(err, coordinator.ErrTooLarge) {
					t.Errorf("%s of %d bytes: %v", name, len(path), err)
				}
			}
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// The servers' own tree is meant where it is, and not what an application calls so.
func TestTheServersTreeIsRefusedWhereverTheChrootIs(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		dial := func(chroot string) *coordinator.Coordinator {
			c, err := coordinator.Connect(t.Context(), srv.Addr()+chroot, srv.Option())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			return c
		}
		coordtest.Hold(t, dial("/app").Mutex("/zookeeper/x"))
		if got := srv.Children("/app/zookeeper/x"); len(got) != 1 {
			t.Errorf("tree: %v", srv.Tree())
		}
		coordtest.Hold(t, dial("").Mutex("/zookeepers"))
		for _, path := range []string{"/x", "/"} {
			a := dial("/zookeeper").Mutex(path).Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrPath) {
				t.Errorf("%s below /zookeeper: %v", path, a.Err())
			}
		}
	})
}

// What is refused for its size is refused here, and what is not is accepted by the
// server. A server hangs up on a request that is too long, which would look like an
// outage, and the request would be made again for ever.
func TestSizeLimit(t *testing.T) {
	const limit = 0xfffff - 1<<10 // for the path, the data and the access control list
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		hugeACL := slices.Repeat([]zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: strings.Repeat("x", 100) + ":y"}}, 10_000)
		for name, a := range map[string]*coordinator.Acquisition{
			"data": c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithData(make([]byte, limit))),
			"acl":  c.Mutex(lockPath, coordinator.WithACL(hugeACL)).Acquire(t.Context()),
		} {
			if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrTooLarge) || errors.Is(a.Err(), coordinator.ErrPath) {
				t.Errorf("%s: over %v, Err = %v", name, coordtest.IsClosed(a.Done()), a.Err())
			}
		}
		synctest.Wait()
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests were sent", n)
		}

		world := zk.WorldACL(zk.PermAll)
		fits := limit - len(lockPath) - 12 - len(world[0].Scheme) - len(world[0].ID)
		a, grant := coordtest.Hold(t, c.Mutex(lockPath), coordinator.WithData(make([]byte, fits)))
		if got, _ := srv.Data(grant.Node); len(got) != fits {
			t.Errorf("the node has %d bytes of %d", len(got), fits)
		}
		a.Release()
		long := "/" + strings.Repeat("a", fits-1+len(lockPath))
		if _, grant := coordtest.Hold(t, c.Mutex(long)); !strings.HasPrefix(grant.Node, long) {
			t.Error("the longest path was not used")
		}
		if n := srv.Requests(zktest.OpConnect); n != 1 {
			t.Errorf("%d handshakes: the server hung up", n)
		}
	})
}

// A quota is the server's word, and final.
func TestQuota(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Hold(t, c.Mutex(lockPath))
		refused := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if !coordtest.Creates(r) {
				return zktest.Pass()
			}
			if refused++; refused > storm {
				return zktest.Swallow()
			}
			return zktest.Fail(zktest.QuotaExceeded)
		})
		start := time.Now()
		a := c.Mutex(lockPath).Acquire(t.Context(), coordinator.WithMaxWait(time.Minute))
		if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrQuota) || time.Since(start) != 0 {
			t.Errorf("Err = %v after %v", a.Err(), time.Since(start))
		}
		time.Sleep(time.Hour)
		if refused != 1 || len(srv.Children(lockPath)) != 1 {
			t.Errorf("%d creates, children %v", refused, srv.Children(lockPath))
		}
	})
}

// What access control denies ends an acquisition at once. Nothing is tried again,
// and nothing is left for which there was permission to remove it.

// makeDir makes the directory of lockPath below the chroot, whose parent is open to
// everybody, so that everybody has the permissions there and no others.
func makeDir(t *testing.T, conn *zk.Conn, chroot string, perms int32) {
	t.Helper()
	if _, err := conn.Create(chroot+"/locks", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Create(chroot+lockPath, nil, zk.FlagPersistent, zk.WorldACL(perms)); err != nil {
		t.Fatal(err)
	}
}

// storm is how many requests show that somebody tries for ever. There would be no
// end to it in virtual time, which stands still meanwhile; so the test servers give
// no answer then.
const storm = 200

// denial is a way to be denied something.
type denial struct {
	perms   int32 // of everybody in the lock's directory
	options []coordinator.LockOption
	ahead   []coordinator.LockOption // of somebody who holds the lock, if not nil
	left    int                      // own nodes that may not be removed
	most    int32                    // requests
}

// somebodyElse may do anything, and nobody else may.
func somebodyElse() coordinator.LockOption {
	return coordinator.WithACL(zk.DigestACL(zk.PermAll, "somebody", "else"))
}

func denials() map[string]denial {
	return map[string]denial{
		"create":                      {perms: zk.PermAll &^ zk.PermCreate, most: 1},
		"anything":                    {perms: zk.PermAdmin, most: 1},
		"read the queue":              {perms: zk.PermAll &^ zk.PermRead, most: 3},
		"read the own node":           {perms: zk.PermAll, options: []coordinator.LockOption{somebodyElse()}, most: 4},
		"read who stands ahead":       {perms: zk.PermAll, ahead: []coordinator.LockOption{somebodyElse()}, most: 5},
		"read or delete in the queue": {perms: zk.PermCreate, left: 1, most: 3},
	}
}

// deny has an acquisition denied, on any server, in a directory that makeDir has
// made. Before it starts, watch hears who makes it.
func (d denial) deny(t *testing.T, connect func(...coordinator.Option) *coordinator.Coordinator, watch func(*coordinator.Coordinator)) {
	t.Helper()
	if d.ahead != nil {
		coordtest.Hold(t, connect(coordinator.WithAuth("digest", []byte("somebody:else"))).Mutex(lockPath, d.ahead...))
	}
	c := connect()
	watch(c)
	a := c.Mutex(lockPath, d.options...).Acquire(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Wait(ctx); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("Err = %v", err)
	}
	a.Release()
	select {
	case <-a.Done():
	case <-ctx.Done():
		t.Error("it does not end")
	}
}

// left counts the nodes in the directory of lockPath by owner, the given one's first.
func left(srv *zktest.Server, session int64) (own, others int) {
	for _, child := range srv.Children(lockPath) {
		if srv.Owner(lockPath+"/"+child) == session {
			own++
		} else {
			others++
		}
	}
	return own, others
}

func TestDeniedIsErrNoAuthAtOnceWithoutRetriesAndWithoutANode(t *testing.T) {
	for name, d := range denials() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				var victim *coordinator.Coordinator
				var requests atomic.Int32
				start := time.Now()
				makeDir(t, coordtest.Admin(t, srv.Addr(), srv.DialContext), "", d.perms)
				d.deny(t, func(options ...coordinator.Option) *coordinator.Coordinator {
					return coordtest.Connect(t, srv, options...)
				},
					func(c *coordinator.Coordinator) {
						victim = c
						srv.Intercept(func(r zktest.Request) zktest.Action {
							if r.Session != c.SessionID() || r.Op == zktest.OpPing || requests.Add(1) <= storm {
								return zktest.Pass()
							}
							return zktest.Swallow()
						})
					})
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				time.Sleep(time.Hour)
				if n := requests.Load(); n > d.most {
					t.Errorf("%d requests, want no more than %d", n, d.most)
				}
				if own, others := left(srv, victim.SessionID()); own != d.left || (others == 1) != (d.ahead != nil) {
					t.Errorf("left: %d of ours, %d of others", own, others)
				}
				if err := victim.Close(); err != nil {
					t.Error(err)
				}
				if own, _ := left(srv, victim.SessionID()); own != 0 {
					t.Error("a node is left after Close")
				}
			})
		})
	}
}

// Where the directory is missing it is the parent that has to be writable.
func TestDeniedToMakeTheDirectory(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		conn := coordtest.Admin(t, srv.Addr(), srv.DialContext)
		if _, err := conn.Create("/locks", nil, zk.FlagPersistent, zk.WorldACL(zk.PermRead)); err != nil {
			t.Fatal(err)
		}
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		for _, path := range []string{"/locks/a", "/locks/a/b/c"} {
			a := c.Mutex(path).Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrNoAuth) {
				t.Errorf("%s: %v", path, a.Err())
			}
		}
		time.Sleep(time.Hour)
		if n := sent.Load(); n > 6 || len(srv.Children("/locks")) != 0 {
			t.Errorf("%d requests, children %v", n, srv.Children("/locks"))
		}
	})
}

// Without permission to delete there is a Grant, and Release says what is left.
func TestDeniedToRelease(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		makeDir(t, coordtest.Admin(t, srv.Addr(), srv.DialContext), "", zk.PermRead|zk.PermCreate)
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath))
		waiter := coordtest.Queue(c.Mutex(lockPath))
		sent := coordtest.Traffic(srv)
		waiter.Release()
		coordtest.End(holder)
		<-waiter.Done()
		if !errors.Is(holder.Err(), coordinator.ErrNoAuth) || holder.Valid() {
			t.Errorf("Err = %v, valid %v", holder.Err(), holder.Valid())
		}
		time.Sleep(time.Hour)
		if n := sent.Load(); n != 2 || len(srv.Children(lockPath)) != 2 {
			t.Errorf("%d requests, children %v", n, srv.Children(lockPath))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := srv.Children(lockPath); len(got) != 0 {
			t.Errorf("left after Close: %v", got)
		}
	})
}

// The directory's data is nobody's business but its owner's.
func TestNoPermissionToWriteIsNeeded(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		makeDir(t, coordtest.Admin(t, srv.Addr(), srv.DialContext), "", zk.PermAll&^zk.PermWrite&^zk.PermAdmin)
		c := coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		b := coordtest.Queue(c.Mutex(lockPath))
		a.Release()
		if _, err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		coordtest.End(b)
		if a.Err() != nil || b.Err() != nil || len(srv.Children(lockPath)) != 0 {
			t.Errorf("%v, %v, children %v", a.Err(), b.Err(), srv.Children(lockPath))
		}
	})
}

// The list is refused by the server; without a retry, for it will be refused again.
func TestAnAccessControlListThatTheServerRefuses(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		makeDir(t, coordtest.Admin(t, srv.Addr(), srv.DialContext), "", zk.PermAll)
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		for name, acl := range map[string][]zk.ACL{
			"no such scheme":       {{Perms: zk.PermAll, Scheme: "crystal", ID: "ball"}},
			"auth without an auth": zk.AuthACL(zk.PermAll),
		} {
			a := c.Mutex(lockPath, coordinator.WithACL(acl)).Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), zk.ErrInvalidACL) {
				t.Errorf("%s: %v", name, a.Err())
			}
		}
		time.Sleep(time.Hour)
		if n := sent.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// What only a real server can confirm.

// makeNodes makes persistent nodes that everybody may use.
func makeNodes(t *testing.T, conn *zk.Conn, nodes ...[2]string) {
	t.Helper()
	for _, node := range nodes {
		_, err := conn.Create(node[0], []byte(node[1]), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatalf("create %s: %v", node[0], err)
		}
	}
}

func TestBadInputOnARealServer(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Property("zookeeper.enforceQuota", "true"))
	addr := e.Addr(0)
	conn := coordtest.RawClient(t, addr)
	t.Run("denied", func(t *testing.T) { testDeniedReal(t, addr, conn) })
	t.Run("identity refused", func(t *testing.T) {
		_, err := coordinator.Connect(t.Context(), addr, coordinator.WithAuth("crystal", []byte("ball")))
		if !errors.Is(err, coordinator.ErrNoAuth) {
			t.Errorf("Connect = %v", err)
		}
	})
	t.Run("quota", func(t *testing.T) { testQuotaReal(t, addr, conn) })
	t.Run("size limit", func(t *testing.T) { testSizeLimitReal(t, addr) })
	t.Run("reaper", func(t *testing.T) { testReaperReal(t, addr) })
	t.Run("TLS to a plain port", func(t *testing.T) {
		says(t, "TLS", connectOnce(t, addr, "zk.example.com", &tls.Config{InsecureSkipVerify: true}), "tls: ")
	})
}

func testDeniedReal(t *testing.T, addr string, conn *zk.Conn) {
	n := 0
	for name, d := range denials() {
		n++
		chroot := fmt.Sprintf("/denied%d", n)
		t.Run(name, func(t *testing.T) {
			makeNodes(t, conn, [2]string{chroot})
			makeDir(t, conn, chroot, d.perms)
			var victim *coordinator.Coordinator
			d.deny(t, func(options ...coordinator.Option) *coordinator.Coordinator {
				return coordtest.ConnectReal(t, addr+chroot, options...)
			}, func(c *coordinator.Coordinator) { victim = c })
			_, stat, err := conn.Exists(chroot + lockPath)
			if err != nil {
				t.Fatal(err)
			}
			want := d.left
			if d.ahead != nil {
				want++
			}
			if int(stat.NumChildren) != want {
				t.Errorf("%d nodes, want %d", stat.NumChildren, want)
			}
			if err := victim.Close(); err != nil {
				t.Error(err)
			}
			if _, stat, err := conn.Exists(chroot + lockPath); err != nil || int(stat.NumChildren) != want-d.left {
				t.Errorf("%d nodes after Close, want %d: %v", stat.NumChildren, want-d.left, err)
			}
		})
	}
}

// testQuotaReal lets two nodes exist below the quota's path beside itself: the lock's
// directory and one contender.
func testQuotaReal(t *testing.T, addr string, conn *zk.Conn) {
	makeNodes(t, conn, [2]string{"/limited"}, [2]string{"/zookeeper/quota/limited"},
		[2]string{"/zookeeper/quota/limited/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3"},
		[2]string{"/zookeeper/quota/limited/zookeeper_stats", "count=1,bytes=0"})
	c := coordtest.ConnectReal(t, addr+"/limited")
	a, _ := coordtest.Hold(t, c.Mutex("/lock"))
	b := c.Mutex("/lock").Acquire(t.Context())
	if _, err := b.Wait(t.Context()); !errors.Is(err, coordinator.ErrQuota) {
		t.Errorf("Err = %v", err)
	}
	elsewhere := c.Mutex("/elsewhere").Acquire(t.Context()) // the directory is too much already
	if _, err := elsewhere.Wait(t.Context()); !errors.Is(err, coordinator.ErrQuota) {
		t.Errorf("Err = %v", err)
	}
	if !a.Valid() {
		t.Error("the holder lost it")
	}
	coordtest.End(a)
	coordtest.Hold(t, c.Mutex("/lock"))
}

// testSizeLimitReal: the server takes what is not refused here.
func testSizeLimitReal(t *testing.T, addr string) {
	c := coordtest.ConnectReal(t, addr)
	id := c.SessionID()
	data := make([]byte, 0xfffff-1<<10-len(lockPath)-30)
	a, _ := coordtest.Hold(t, c.Mutex(lockPath), coordinator.WithData(data))
	coordtest.End(a)
	long := c.Mutex("/" + strings.Repeat("a", len(data)))
	b, _ := coordtest.Hold(t, long)
	coordtest.End(b)
	if a.Err() != nil || b.Err() != nil || c.SessionID() != id || c.State() != coordinator.StateConnected {
		t.Errorf("%v, %v, session %x after %x, %v", a.Err(), b.Err(), c.SessionID(), id, c.State())
	}
}

// testReaperReal takes and gives back locks whose containers the server reaps five
// times a second, from several sessions.
func testReaperReal(t *testing.T, addr string) {
	const workers, dirs, length = 4, 8, 3 * time.Second
	var reborn, cycles atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for w := range workers {
		c := coordtest.ConnectReal(t, addr)
		all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				a := c.Mutex(fmt.Sprintf("/reaped/%d/%d", w, i%dirs)).Acquire(t.Context())
				grant, err := a.Wait(t.Context())
				if err != nil {
					t.Errorf("Err = %v", err)
					return
				}
				cycles.Add(1)
				if strings.HasSuffix(grant.Node, "lock-0000000000") {
					reborn.Add(1)
				}
				a.Release()
				select { // the more often, the more often it is empty when the reaper looks
				case <-a.Done():
				case <-t.Context().Done():
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d cycles, %d of them in a new directory", cycles.Load(), reborn.Load())
	if reborn.Load() <= workers*dirs {
		t.Error("nothing was reaped")
	}
}
