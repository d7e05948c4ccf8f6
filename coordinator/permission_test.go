package coordinator_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

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
		holder.Release()
		<-holder.Done()
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
		b.Release()
		<-b.Done()
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

func TestAnIdentityThatTheServerRefusesEndsConnect(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		start := time.Now()
		_, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithAuth("crystal", []byte("ball")))
		if !errors.Is(err, coordinator.ErrNoAuth) || time.Since(start) > 2*time.Second {
			t.Errorf("Connect = %v after %v", err, time.Since(start))
		}
		synctest.Wait()
		if n := srv.Requests(zktest.OpAuth); n > 2 {
			t.Errorf("%d attempts", n)
		}
	})
}
