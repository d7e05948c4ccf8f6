package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestRevokeOfWhatCannotBeRevoked ends with a typed error; nobody hears of it, nothing is written and nothing watched.
func TestRevokeOfWhatCannotBeRevoked(t *testing.T) {
	cause := errors.New("enough")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	type input struct {
		arrange func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator)
		ctx     context.Context
		path    string
		grace   time.Duration
		want    error
	}
	nothing := func(*testing.T, *zktest.Server, *coordinator.Coordinator) {}
	create := func(nodes ...string) func(*testing.T, *zktest.Server, *coordinator.Coordinator) {
		return func(t *testing.T, srv *zktest.Server, _ *coordinator.Coordinator) {
			t.Helper()
			for _, node := range nodes {
				if err := srv.Create(node, []byte("somebody's")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	holds := func(lock func(*coordinator.Coordinator) acquirer) func(*testing.T, *zktest.Server, *coordinator.Coordinator) {
		return func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			coordtest.Soon(t, lock(c).Acquire(t.Context()))
		}
	}
	cases := map[string]input{
		"no such path":             {nothing, nil, "/nowhere/at/all", grace, coordinator.ErrNotHeld},
		"nobody's directory":       {create(lockPath), nil, lockPath, grace, coordinator.ErrNotHeld},
		"no contender in it":       {create(lockPath + "/notes"), nil, lockPath, grace, coordinator.ErrNotHeld},
		"a semaphore nobody uses":  {create(lockPath+"/size", lockPath+"/leases"), nil, lockPath, grace, coordinator.ErrNotHeld},
		"what is no lease":         {create(lockPath + "/leases/notes"), nil, lockPath, grace, coordinator.ErrNotHeld},
		"a lock called leases":     {create(lockPath + "/leases/lock-0000000001"), nil, lockPath, grace, coordinator.ErrNotHeld},
		"what is no session's":     {create(lockPath + "/block-0000000007"), nil, lockPath, grace, coordinator.ErrKind},
		"a lease of no session's":  {create(lockPath + "/leases/release-0000000007"), nil, lockPath, grace, coordinator.ErrKind},
		"no path":                  {nothing, nil, "", grace, coordinator.ErrPath},
		"a bad path":               {nothing, nil, "locks//x", grace, coordinator.ErrPath},
		"the servers' own":         {nothing, nil, "/zookeeper/quota", grace, coordinator.ErrPath},
		"a path that is too long":  {nothing, nil, "/" + strings.Repeat("x", 1<<20), grace, coordinator.ErrTooLarge},
		"a negative grace":         {create(lockPath + "/lock-0000000001"), nil, lockPath, -1, coordinator.ErrGrace},
		"a context that has ended": {create(lockPath + "/lock-0000000001"), over, lockPath, grace, cause},
		"an unfair lock":           {holds(func(c *coordinator.Coordinator) acquirer { return c.Unfair(lockPath) }), nil, lockPath, grace, coordinator.ErrKind},
		"one reader who has not agreed": {func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			coordtest.Hold(t, c.ReadWrite(lockPath, coordinator.Revocable()).Read())
			coordtest.Hold(t, c.ReadWrite(lockPath).Read())
			coordtest.Hold(t, coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.Revocable()).Read())
		}, nil, lockPath, grace, coordinator.ErrNotRevocable},
		"a waiter who has agreed, and a holder who has not": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			coordtest.Hold(t, c.Mutex(lockPath))
			coordtest.Queue(c.Mutex(lockPath, coordinator.Revocable()))
		}, nil, lockPath, grace, coordinator.ErrNotRevocable},
		"who has entered again and agreed, and not before": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			a, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Reentrant()))
			coordtest.Soon(t, c.Mutex(lockPath, coordinator.Reentrant(), coordinator.Revocable()).Acquire(a.Context(t.Context())))
		}, nil, lockPath, grace, coordinator.ErrNotRevocable},
	}
	for name, lock := range kindsOfLock() {
		if name != "unfair" {
			cases["who has not agreed: "+name] = input{holds(lock), nil, lockPath, grace, coordinator.ErrNotRevocable}
		}
	}
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				stream := c.Events(t.Context())
				in.arrange(t, srv, c)
				time.Sleep(5 * time.Minute) // what is empty has been removed by then
				before, watches, ctx := contents(srv), srv.Watches(), in.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				began := time.Now()
				if err := operator.Revoke(ctx, in.path, in.grace); !errors.Is(err, in.want) || time.Since(began) > 0 {
					t.Errorf("Revoke: %.100v after %v, want %v", err, time.Since(began), in.want)
				}
				time.Sleep(time.Minute)
				if after := contents(srv); !slices.Equal(before, after) || srv.Watches() != watches {
					t.Errorf("before %q, %d watches; after %q, %d", before, watches, after, srv.Watches())
				}
				if told := wishes(stream); len(told) > 0 {
					t.Errorf("told %+v", told)
				}
			})
		})
	}
}

// contents returns every node with its data.
func contents(srv *zktest.Server) (all []string) {
	for _, node := range srv.Tree() {
		data, _ := srv.Data(node)
		all = append(all, node+": "+string(data))
	}
	return all
}

// TestRevokeOfAClosedCoordinator, and of one that is closed meanwhile.
func TestRevokeOfAClosedCoordinator(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Revocable()))
		c := coordtest.Connect(t, srv)
		done := revoking(t.Context(), c, time.Minute)
		time.Sleep(5 * time.Second)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Revoke: %v", err)
		}
		if err := c.Revoke(t.Context(), lockPath, 0); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Revoke: %v", err)
		}
		<-holder.Done() // what was asked is asked
		if !errors.Is(holder.Err(), coordinator.ErrRevoked) {
			t.Errorf("Err: %v", holder.Err())
		}
	})
}

// TestRevokeWhoseContextEnds: the holder obeys, but nobody is removed.
func TestRevokeWhoseContextEnds(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.Revocable()).Read())
		theirs := lockPath + "/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000007"
		if err := stranger(t, srv)(theirs, nil); err != nil {
			t.Fatal(err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		began := time.Now()
		if err := c.Revoke(ctx, lockPath, grace); !errors.Is(err, cause) || time.Since(began) != time.Second {
			t.Errorf("Revoke: %v after %v", err, time.Since(began))
		}
		<-holder.Done()
		if !errors.Is(holder.Err(), coordinator.ErrRevoked) {
			t.Errorf("Err: %v", holder.Err())
		}
		time.Sleep(time.Minute)
		if !srv.Exists(theirs) {
			t.Error("somebody was removed")
		}
	})
}

// TestRevokeWithoutAConnectionLeavesNothing: whoever gives up while there is none has asked nobody.
func TestRevokeWithoutAConnectionLeavesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Revocable()))
		before := contents(srv)
		id := c.SessionID()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == id {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		srv.Cut(id)
		synctest.Wait()
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if err := c.Revoke(ctx, lockPath, grace); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Revoke: %v", err)
			}
			cancel()
		}
		srv.Intercept(nil)
		time.Sleep(time.Minute)
		if after := contents(srv); !slices.Equal(before, after) || !holder.Valid() {
			t.Errorf("before %q, after %q", before, after)
		}
	})
}

// TestRevokeWithoutPermission: whoever may not write to the node, or not read it, hears so.
func TestRevokeWithoutPermission(t *testing.T) {
	for name, perms := range map[string]int32{"write": zk.PermAll &^ zk.PermWrite, "read": zk.PermAll &^ zk.PermRead} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				acl := append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "the", "holder")...)
				c := coordtest.Connect(t, srv, coordinator.WithAuth("digest", []byte("the:holder")))
				holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable(), coordinator.WithACL(acl)))
				if err := coordtest.Connect(t, srv).Revoke(t.Context(), lockPath, grace); !errors.Is(err, coordinator.ErrNoAuth) {
					t.Errorf("Revoke: %v", err)
				}
				time.Sleep(time.Minute)
				if !holder.Valid() {
					t.Errorf("lost: %v", holder.Err())
				}
			})
		})
	}
}

// TestRevocableOptions: what the option cannot be given to, and what data a node cannot have.
func TestRevocableOptions(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		before := contents(srv)
		if err := c.Unfair(lockPath, coordinator.Revocable()).Acquire(t.Context()).Err(); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("unfair: %v", err)
		}
		if after := contents(srv); !slices.Equal(before, after) {
			t.Errorf("left: %q", after)
		}
		for _, data := range []string{"__REVOKE__", "__REVOKE__ 5\nmine", "__REVOKE__x"} {
			for name, lock := range kindsOfLock() {
				if err := lock(c).Acquire(t.Context(), coordinator.WithData([]byte(data))).Err(); !errors.Is(err, coordinator.ErrData) {
					t.Errorf("%s, %q: %v", name, data, err)
				}
			}
		}
		if after := contents(srv); !slices.Equal(before, after) {
			t.Errorf("left: %q", after)
		}
		election := c.Election(lockPath)
		leader := election.Campaign(t.Context(), coordinator.WithData([]byte("_REVOKE__")))
		coordtest.Soon(t, leader)
		before = contents(srv)
		if err := election.Proclaim(t.Context(), leader, []byte(curatorsWish)); !errors.Is(err, coordinator.ErrData) {
			t.Errorf("Proclaim: %v", err)
		}
		if after := contents(srv); !slices.Equal(before, after) {
			t.Errorf("written: %q", after)
		}
	})
}

// TestAWishToOneWhoHasNotAgreedSetsNoTime, in whatever form it comes.
func TestAWishToOneWhoHasNotAgreedSetsNoTime(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				stream := c.Events(t.Context())
				holder := lock(c).Acquire(t.Context())
				grant := coordtest.Soon(t, holder)
				if err := srv.SetData(grant.Node, []byte("__REVOKE__ 0\n")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if got, want := wishes(stream), (events.Revoked{ID: holder.ID(), Path: lockPath}); len(got) != 1 || got[0] != want || !holder.Valid() {
					t.Errorf("told %+v; %v", got, holder.Err())
				}
			})
		})
	}
}

// TestNodesSayWhoseTheyAre: all that we make for contenders bear our GUID, and those of revocable locks its mark.
func TestNodesSayWhoseTheyAre(t *testing.T) {
	all := map[string]func(*coordinator.Coordinator) acquirer{}
	for name, lock := range kindsOfLock() {
		if name != "unfair" {
			all[name] = lock
		}
	}
	for name, lock := range revocableKinds() {
		all["revocable "+name] = lock
	}
	for name, lock := range all {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			first := lock(c).Acquire(t.Context())
			coordtest.Soon(t, first)
			lock(c).Acquire(t.Context())
			synctest.Wait()
			want := events.Marks(0)
			if strings.HasPrefix(name, "revocable") {
				want = events.MarkRevocable
			}
			n := 0
			for _, node := range srv.Tree() {
				if srv.Owner(node) != c.SessionID() {
					continue
				}
				n++
				if marks, ours := events.MarksOf(node); !ours || marks != want {
					t.Errorf("%s: %s has marks %v, ours: %v", name, node, marks, ours)
				}
			}
			if n != 2 {
				t.Errorf("%s: %d nodes", name, n)
			}
		})
	}
}
