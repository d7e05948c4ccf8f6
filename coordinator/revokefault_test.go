package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
)

// mishaps are the faults that may strike any request of a session, once.
func mishaps() map[string]func(srv *zktest.Server, session int64) zktest.Action {
	return map[string]func(srv *zktest.Server, session int64) zktest.Action{
		"cut before":  func(*zktest.Server, int64) zktest.Action { return zktest.CutBefore() },
		"cut after":   func(*zktest.Server, int64) zktest.Action { return zktest.CutAfter() },
		"turned away": func(*zktest.Server, int64) zktest.Action { return zktest.Fail(zktest.Throttled) },
		"moved":       func(*zktest.Server, int64) zktest.Action { return zktest.Fail(zktest.SessionMoved) },
		"expired": func(srv *zktest.Server, session int64) zktest.Action {
			if err := srv.Expire(session); err != nil {
				panic(err)
			}
			return zktest.CutAfter()
		},
	}
}

// atRequest has the mishap strike the nth request of the session, without pings and handshakes, and counts those requests. If deaf
// is a session, each of its reads is turned away meanwhile.
func atRequest(srv *zktest.Server, session, deaf int64, n int32, mishap func(*zktest.Server, int64) zktest.Action) (seen *atomic.Int32) {
	seen = &atomic.Int32{}
	srv.Intercept(func(r zktest.Request) zktest.Action {
		switch {
		case r.Session == deaf && r.Op == zktest.OpGetData:
			return zktest.Fail(zktest.Throttled)
		case r.Session != session || r.Op == zktest.OpPing || r.Op == zktest.OpConnect || r.Op == zktest.OpSetWatches || seen.Add(1) != n:
			return zktest.Pass()
		default:
			return mishap(srv, session)
		}
	})
	return seen
}

// TestRevokeGoesOnWhateverHappensToIt: at each of its requests, to a holder that gives the lock back at the deadline, to one that
// has to be removed, and to one of another library.
func TestRevokeGoesOnWhateverHappensToIt(t *testing.T) {
	for kind, took := range map[string]time.Duration{"obeys": grace, "deaf": grace + patience, "foreign": grace + patience, "permits": grace} {
		requests := revokes(t, kind, took, 0, nil)
		if requests < 3 {
			t.Errorf("%s: Revoke makes %d requests, want 3 to break at least", kind, requests)
		}
		for name, mishap := range mishaps() {
			for n := int32(1); n <= requests; n++ {
				t.Run(fmt.Sprintf("%s, %s, request %d", name, kind, n), func(t *testing.T) {
					if seen := revokes(t, kind, took, n, mishap); seen < n {
						t.Errorf("Revoke makes %d requests, want %d at least as where nothing happens to it", seen, n)
					}
				})
			}
		}
	}
}

// revokes checks a Revoke of such a holder, which takes so long, with a mishap at its nth request. It returns how many requests
// Revoke makes.
func revokes(t *testing.T, kind string, took time.Duration, n int32, mishap func(*zktest.Server, int64) zktest.Action) (requests int32) {
	t.Helper()
	theirs := lockPath + "/lock-0000000007"
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		var holder *coordinator.Acquisition
		switch kind {
		case "foreign":
			eventstest.Must(t, stranger(t, srv)(theirs, nil))
		case "permits":
			holder = c.Semaphore(lockPath, 3, coordinator.Revocable()).Acquire(t.Context(), coordinator.WithPermits(3))
			coordtest.Soon(t, holder)
		default:
			holder, _ = coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		}
		time.Sleep(5 * time.Second)
		deaf := int64(0)
		if kind == "deaf" {
			deaf = c.SessionID()
		}
		seen := atRequest(srv, operator.SessionID(), deaf, n, mishap)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		asked := time.Now()
		err := operator.Revoke(ctx, lockPath, grace)
		requests = seen.Load()
		if err != nil || !around(time.Since(asked), took) && time.Since(asked) > took+2*time.Second {
			t.Errorf("Revoke: %v after %v, want %v", err, time.Since(asked), took)
		}
		if srv.Exists(theirs) || len(srv.Children(lockPath+"/leases")) > 0 {
			t.Error("the holder's node is there after Revoke, want it gone")
		}
		if holder == nil || t.Failed() {
			return
		}
		lost := <-holder.Lost()
		if want := map[bool]events.Reason{true: events.ReasonNodeRemoved, false: events.ReasonRevoked}[kind == "deaf"]; lost.Reason != want {
			t.Errorf("the holder hears %+v, want %v", lost, want)
		}
	})
	return requests
}

// TestAHolderHearsOfAWishWhateverHappens: at each of its requests from the wish on. The deadline may come a little later. The end
// of the session, which is another loss, may come a little sooner.
func TestAHolderHearsOfAWishWhateverHappens(t *testing.T) {
	for name, mishap := range mishaps() {
		for n := int32(1); n < 6; n++ {
			t.Run(fmt.Sprintf("%s, request %d", name, n), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
					time.Sleep(5 * time.Second)
					seen := atRequest(srv, c.SessionID(), 0, n, mishap)
					asked := time.Now()
					err := operator.Revoke(t.Context(), lockPath, grace)
					expired := name == "expired" && seen.Load() >= n // perhaps by a probe, before it was asked
					if err != nil && (!expired || !errors.Is(err, coordinator.ErrNotHeld)) || time.Since(asked) > grace+2*time.Second {
						t.Errorf("Revoke: %v after %v, want nil within %v", err, time.Since(asked), grace+2*time.Second)
					}
					lost := <-holder.Lost()
					if lost.Reason != events.ReasonRevoked && !expired {
						t.Errorf("the holder hears %+v, want that it was revoked", lost)
					}
				})
			})
		}
	}
}

// TestAHolderWithoutAConnectionLosesTheLockAtTheDeadline: it needs no other process for that.
func TestAHolderWithoutAConnectionLosesTheLockAtTheDeadline(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, grant := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		id := c.SessionID()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == id {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		srv.Cut(id)
		if lost := <-holder.Lost(); lost.Reason != events.ReasonRevoked || time.Since(asked) != grace || !srv.Exists(grant.Node) {
			t.Errorf("%v after the wish the holder hears %+v, want that it was revoked after %v", time.Since(asked), lost, grace)
		}
		srv.Intercept(nil)
		if err := <-done; err != nil || time.Since(asked) > grace+patience {
			t.Errorf("Revoke: %v after %v, want nil within %v", err, time.Since(asked), grace+patience)
		}
	})
}

// TestRevokeOfManyTakesTurns: also with many holders only a few requests are under way.
func TestRevokeOfManyTakesTurns(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const readers = 300
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for range readers {
			c.ReadWrite(lockPath, coordinator.Revocable()).Read().Acquire(t.Context())
		}
		time.Sleep(5 * time.Second)
		before := srv.Requests(zktest.OpSetData)
		asked := time.Now()
		if err := operator.Revoke(t.Context(), lockPath, grace); err != nil || !around(time.Since(asked), grace) {
			t.Errorf("Revoke: %v after %v, want nil after %v", err, time.Since(asked), grace)
		}
		if n := srv.Requests(zktest.OpSetData) - before; n != readers {
			t.Errorf("%d messages were written, want %d", n, readers)
		}
	})
}

// TestRevokeHearsOfTheEndInAnotherSession: the watches of the session in which it asked are gone with that session.
func TestRevokeHearsOfTheEndInAnotherSession(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		done := revoking(t.Context(), operator, time.Hour)
		time.Sleep(5 * time.Second)
		eventstest.Must(t, srv.Expire(operator.SessionID()))
		time.Sleep(5 * time.Second)
		holder.Release()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Revoke: %v, want nil", err)
			}
		case <-time.After(time.Second):
			t.Error("a second after the release Revoke waits, want it to end")
		}
	})
}

// TestRevokeOfWhatCannotBeRevoked ends with a typed error. No holder hears of it, nothing is written and nothing watched.
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
				eventstest.Must(t, srv.Create(node, []byte("somebody's")))
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
		"a directory of no lock":   {create(lockPath), nil, lockPath, grace, coordinator.ErrNotHeld},
		"no contender in it":       {create(lockPath + "/notes"), nil, lockPath, grace, coordinator.ErrNotHeld},
		"an idle semaphore":        {create(lockPath+"/size", lockPath+"/leases"), nil, lockPath, grace, coordinator.ErrNotHeld},
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
		"one reader that is not revocable": {func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			coordtest.Hold(t, c.ReadWrite(lockPath, coordinator.Revocable()).Read())
			coordtest.Hold(t, c.ReadWrite(lockPath).Read())
			coordtest.Hold(t, coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.Revocable()).Read())
		}, nil, lockPath, grace, coordinator.ErrNotRevocable},
		"a revocable waiter, and a holder that is not": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			coordtest.Hold(t, c.Mutex(lockPath))
			coordtest.Queue(c.Mutex(lockPath, coordinator.Revocable()))
		}, nil, lockPath, grace, coordinator.ErrNotRevocable},
		"revocable at the re-entry, and not before": {func(t *testing.T, _ *zktest.Server, c *coordinator.Coordinator) {
			t.Helper()
			a, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Reentrant()))
			coordtest.Soon(t, c.Mutex(lockPath, coordinator.Reentrant(), coordinator.Revocable()).Acquire(a.Context(t.Context())))
		}, nil, lockPath, grace, coordinator.ErrNotRevocable},
	}
	for name, lock := range kindsOfLock() {
		if name != "unfair" {
			cases["not revocable: "+name] = input{holds(lock), nil, lockPath, grace, coordinator.ErrNotRevocable}
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
					t.Errorf("before %q and %d watches, after %q and %d; want no change", before, watches, after, srv.Watches())
				}
				if told := wishes(stream); len(told) > 0 {
					t.Errorf("the holder is told %+v, want nothing", told)
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

// TestRevokeOfAClosedCoordinatorIsErrClosed, also if it is closed meanwhile.
func TestRevokeOfAClosedCoordinatorIsErrClosed(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Revocable()))
		c := coordtest.Connect(t, srv)
		done := revoking(t.Context(), c, time.Minute)
		time.Sleep(5 * time.Second)
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if err := <-done; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Revoke of a coordinator that is closed meanwhile: %v, want ErrClosed", err)
		}
		if err := c.Revoke(t.Context(), lockPath, 0); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Revoke of a closed coordinator: %v, want ErrClosed", err)
		}
		<-holder.Done() // what was asked is asked
		if !errors.Is(holder.Err(), coordinator.ErrRevoked) {
			t.Errorf("the holder ends with %v, want ErrRevoked", holder.Err())
		}
	})
}

// TestRevokeThatIsGivenUpRemovesNoHolder, and the holder obeys.
func TestRevokeThatIsGivenUpRemovesNoHolder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.Revocable()).Read())
		theirs := lockPath + "/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000007"
		eventstest.Must(t, stranger(t, srv)(theirs, nil))
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		began := time.Now()
		if err := c.Revoke(ctx, lockPath, grace); !errors.Is(err, cause) || time.Since(began) != time.Second {
			t.Errorf("Revoke: %v after %v, want the cause after a second", err, time.Since(began))
		}
		<-holder.Done()
		if !errors.Is(holder.Err(), coordinator.ErrRevoked) {
			t.Errorf("the holder ends with %v, want ErrRevoked", holder.Err())
		}
		time.Sleep(time.Minute)
		if !srv.Exists(theirs) {
			t.Error("a node of another library was removed when the caller had given up, want it there")
		}
	})
}

// TestRevokeWithoutAConnectionLeavesNothing: if it is given up without a connection, no holder was asked.
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
				t.Errorf("Revoke without a connection: %v, want the end of its context", err)
			}
			cancel()
		}
		asked := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == id && (r.Op == zktest.OpMulti || r.Op == zktest.OpGetChildren2) {
				asked++
			}
			return zktest.Pass()
		})
		time.Sleep(time.Minute)
		if after := contents(srv); !slices.Equal(before, after) || !holder.Valid() || asked != 0 {
			t.Errorf("before %q, after %q, the holder valid: %v, %d requests; want no change and no request", before, after, holder.Valid(), asked)
		}
	})
}

// TestRevokeWithoutPermissionIsErrNoAuth: without the permission to write to the node, or to read it.
func TestRevokeWithoutPermissionIsErrNoAuth(t *testing.T) {
	for name, perms := range map[string]int32{"write": zk.PermAll &^ zk.PermWrite, "read": zk.PermAll &^ zk.PermRead} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				acl := append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "the", "holder")...)
				c := coordtest.Connect(t, srv, coordinator.WithAuth("digest", []byte("the:holder")))
				holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable(), coordinator.WithACL(acl)))
				if err := coordtest.Connect(t, srv).Revoke(t.Context(), lockPath, grace); !errors.Is(err, coordinator.ErrNoAuth) {
					t.Errorf("Revoke without the permission to %s: %v, want ErrNoAuth", name, err)
				}
				time.Sleep(time.Minute)
				if !holder.Valid() {
					t.Errorf("the holder ends with %v, want it to hold", holder.Err())
				}
			})
		})
	}
}

// TestWhatCannotBeRevocableIsRefused: unfair locks, and data that would be taken for a wish.
func TestWhatCannotBeRevocableIsRefused(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		before := contents(srv)
		if err := c.Unfair(lockPath, coordinator.Revocable()).Acquire(t.Context()).Err(); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("a revocable unfair lock ends with %v, want ErrKind", err)
		}
		if after := contents(srv); !slices.Equal(before, after) {
			t.Errorf("what was refused has left %q, want %q", after, before)
		}
		for _, data := range []string{"__REVOKE__", "__REVOKE__ 5\nmine", "__REVOKE__x"} {
			for name, lock := range kindsOfLock() {
				if err := lock(c).Acquire(t.Context(), coordinator.WithData([]byte(data))).Err(); !errors.Is(err, coordinator.ErrData) {
					t.Errorf("%s with the data %q ends with %v, want ErrData", name, data, err)
				}
			}
		}
		if after := contents(srv); !slices.Equal(before, after) {
			t.Errorf("refused data have left %q, want %q", after, before)
		}
		election := c.Election(lockPath)
		leader := election.Campaign(t.Context(), coordinator.WithData([]byte("_REVOKE__")))
		coordtest.Soon(t, leader)
		before = contents(srv)
		if err := election.Proclaim(t.Context(), leader, []byte(curatorsWish)); !errors.Is(err, coordinator.ErrData) {
			t.Errorf("Proclaim of a wish: %v, want ErrData", err)
		}
		if after := contents(srv); !slices.Equal(before, after) {
			t.Errorf("a refused proclamation has written %q, want %q", after, before)
		}
	})
}

// TestAWishToAHolderThatIsNotRevocableSetsNoTime, in whatever form it comes.
func TestAWishToAHolderThatIsNotRevocableSetsNoTime(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				stream := c.Events(t.Context())
				holder := lock(c).Acquire(t.Context())
				grant := coordtest.Soon(t, holder)
				eventstest.Must(t, srv.SetData(grant.Node, []byte("__REVOKE__ 0\n")))
				time.Sleep(time.Minute)
				if got, want := wishes(stream), (events.Revoked{ID: holder.ID(), Path: lockPath}); len(got) != 1 || got[0] != want || !holder.Valid() {
					t.Errorf("told %+v, and it ends with %v; want %+v, and that it holds", got, holder.Err(), want)
				}
			})
		})
	}
}

// TestNodesHaveTheGUIDAndTheMark: all nodes of our contenders have our GUID, and those of revocable locks its mark.
func TestNodesHaveTheGUIDAndTheMark(t *testing.T) {
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
				if marks, ours := events.MarksOf(node); !ours || marks&^events.MarkPermits != want {
					t.Errorf("%s: %s has the marks %v, ours: %v; want %v, and ours", name, node, marks, ours, want)
				}
			}
			if n != 2 {
				t.Errorf("%s: %d nodes are of our session, want 2", name, n)
			}
		})
	}
}
