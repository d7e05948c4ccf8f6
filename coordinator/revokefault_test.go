package coordinator_test

import (
	"cmp"
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

// mishaps returns faults that may strike any request of a session, once.
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

// atRequest applies the mishap to the session's nth request, not counting pings and
// handshakes, and counts these requests. If deaf is a session, all its reads are refused
// meanwhile.
func atRequest(srv *zktest.Server, session, deaf int64, n int32, mishap func(*zktest.Server, int64) zktest.Action) (seen *atomic.Int32) {
	seen = &atomic.Int32{}
	srv.Intercept(func(r zktest.Request) zktest.Action {
		switch {
		case r.Session == deaf && r.Op == zktest.OpGetData:
			return zktest.Fail(zktest.Throttled)
		case r.Session != session || isA(zktest.OpPing, zktest.OpConnect, zktest.OpSetWatches)(r) || seen.Add(1) != n:
			return zktest.Pass()
		default:
			return mishap(srv, session)
		}
	})
	return seen
}

// unreachable cuts the session off from every server, until the interception ends.
func unreachable(srv *zktest.Server, session int64) {
	strike(srv, zktest.CutBefore(), of(session))
	srv.Cut(session)
}

// TestRevokeGoesOnWhateverHappensToIt at any of its requests, for a holder that releases
// at the deadline, for one that has to be removed, and for one of another library.
func TestRevokeGoesOnWhateverHappensToIt(t *testing.T) {
	for kind, took := range map[string]time.Duration{"obeys": grace, "deaf": grace + patience, "foreign": grace + patience, "permits": grace} {
		requests := revokes(t, kind, took, 0, nil)
		expect(t, requests >= 3, "%s: Revoke makes %d requests, want 3 to break at least", kind, requests)
		for name, mishap := range mishaps() {
			for n := int32(1); n <= requests; n++ {
				t.Run(fmt.Sprintf("%s, %s, request %d", name, kind, n), func(t *testing.T) {
					seen := revokes(t, kind, took, n, mishap)
					expect(t, seen >= n, "Revoke makes %d requests, want %d at least as where nothing happens", seen, n)
				})
			}
		}
	}
}

// revokes checks a Revoke of a holder of this kind, which takes this long, with a mishap
// at its nth request. It returns how many requests Revoke sends.
func revokes(t *testing.T, kind string, took time.Duration, n int32, mishap func(*zktest.Server, int64) zktest.Action) (requests int32) {
	t.Helper()
	theirs := lockPath + "/lock-0000000007"
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		var holder *coordinator.Acquisition
		switch kind {
		case "foreign":
			stranger(t, srv)(theirs, "")
		case "permits":
			holder = c.Semaphore(lockPath, 3, coordinator.Revocable()).Acquire(t.Context(), coordinator.Permits(3))
			coordtest.Soon(t, holder)
		default:
			holder, _ = coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		}
		time.Sleep(5 * time.Second)
		deaf, reason := int64(0), events.ReasonRevoked
		if kind == "deaf" {
			deaf, reason = c.SessionID(), events.ReasonNodeRemoved
		}
		seen := atRequest(srv, operator.SessionID(), deaf, n, mishap)
		asked := time.Now()
		err := operator.Revoke(within(t, time.Hour), lockPath, grace)
		requests = seen.Load()
		expect(t, err == nil && (around(time.Since(asked), took) || time.Since(asked) <= took+2*time.Second),
			"Revoke: %v after %v, want %v", err, time.Since(asked), took)
		expect(t, !srv.Exists(theirs) && len(srv.Children(lockPath+"/leases")) == 0,
			"the holder's node is there after Revoke, want it gone")
		if holder == nil || t.Failed() {
			return
		}
		expectEqual(t, (<-holder.Lost()).Reason, reason, "the reason of the loss")
	})
	return requests
}

// TestAHolderHearsOfARevocationWhateverHappens at any of its requests from the revocation
// request on. The deadline may come a little later. The end of the session, which is
// another kind of loss, may come a little sooner.
func TestAHolderHearsOfARevocationWhateverHappens(t *testing.T) {
	for name, mishap := range mishaps() {
		for n := int32(1); n < 6; n++ {
			coordtest.Case(t, fmt.Sprintf("%s, request %d", name, n), func(t *testing.T, srv *zktest.Server) {
				c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
				time.Sleep(5 * time.Second)
				seen := atRequest(srv, c.SessionID(), 0, n, mishap)
				asked := time.Now()
				err := operator.Revoke(t.Context(), lockPath, grace)
				expired := name == "expired" && seen.Load() >= n // perhaps at a probe, before the revocation
				if took := time.Since(asked); err != nil && (!expired || !errors.Is(err, coordinator.ErrNotHeld)) ||
					took > grace+2*time.Second {
					t.Errorf("Revoke: %v after %v, want nil within %v", err, took, grace+2*time.Second)
				}
				lost := <-holder.Lost()
				expect(t, lost.Reason == events.ReasonRevoked || expired, "the holder hears %+v, want Revoked", lost)
			})
		}
	}
}

// TestRevokeHearsOfTheEndInAnotherSession, although the watches ended with the first
// session.
func TestRevokeHearsOfTheEndInAnotherSession(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		done := revoking(t.Context(), operator, time.Hour)
		time.Sleep(5 * time.Second)
		expire(t, srv, operator)
		time.Sleep(5 * time.Second)
		holder.Release()
		wantRevoked(t, done, time.Now(), 0)
	})
}

// TestRevokeOfWhatCannotBeRevoked ends with a typed error. Nothing is written or watched.
func TestRevokeOfWhatCannotBeRevoked(t *testing.T) {
	cause := errors.New("enough")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	type input struct {
		nodes  []string // existing nodes
		held   func(t *testing.T, c, other *coordinator.Coordinator)
		want   error
		path   string        // empty: lockPath
		grace  time.Duration // 0: grace
		isOver bool
	}
	const first = lockPath + "/lock-0000000001"
	r := coordinator.Revocable()
	cases := map[string]input{
		"no such path":             {path: "/nowhere/at/all", want: coordinator.ErrNotHeld},
		"a directory of no lock":   {nodes: []string{lockPath}, want: coordinator.ErrNotHeld},
		"no contender in it":       {nodes: []string{lockPath + "/notes"}, want: coordinator.ErrNotHeld},
		"an idle semaphore":        {nodes: []string{lockPath + "/size", lockPath + "/leases"}, want: coordinator.ErrNotHeld},
		"what is no lease":         {nodes: []string{lockPath + "/leases/notes"}, want: coordinator.ErrNotHeld},
		"a lock called leases":     {nodes: []string{lockPath + "/leases/lock-0000000001"}, want: coordinator.ErrNotHeld},
		"what is no session's":     {nodes: []string{lockPath + "/a-lock-0000000007"}, want: coordinator.ErrKind},
		"a lease of no session's":  {nodes: []string{lockPath + "/leases/release-0000000007"}, want: coordinator.ErrKind},
		"no path":                  {path: "none", want: coordinator.ErrPath},
		"a bad path":               {path: "locks//x", want: coordinator.ErrPath},
		"the servers' own":         {path: "/zookeeper/quota", want: coordinator.ErrPath},
		"a path that is too long":  {path: "/" + strings.Repeat("x", 1<<20), want: coordinator.ErrTooLarge},
		"a negative grace":         {nodes: []string{first}, grace: -1, want: coordinator.ErrGrace},
		"a context that has ended": {nodes: []string{first}, isOver: true, want: cause},
		"one reader that is not revocable": {held: func(t *testing.T, c, other *coordinator.Coordinator) {
			coordtest.Hold(t, c.ReadWrite(lockPath, r).Read())
			coordtest.Hold(t, c.ReadWrite(lockPath).Read())
			coordtest.Hold(t, other.ReadWrite(lockPath, r).Read())
		}, want: coordinator.ErrNotRevocable},
		"a revocable waiter, and a holder that is not": {held: func(t *testing.T, c, _ *coordinator.Coordinator) {
			coordtest.Hold(t, c.Mutex(lockPath))
			coordtest.Queue(c.Mutex(lockPath, r))
		}, want: coordinator.ErrNotRevocable},
		"revocable at the re-entry, and not before": {held: func(t *testing.T, c, _ *coordinator.Coordinator) {
			a, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Reentrant()))
			coordtest.Soon(t, c.Mutex(lockPath, coordinator.Reentrant(), r).Acquire(a.Context(t.Context())))
		}, want: coordinator.ErrNotRevocable},
	}
	for right, lacks := range map[string]int32{"write": zk.PermWrite, "read": zk.PermRead} {
		acl := append(zk.WorldACL(zk.PermAll&^lacks), zk.DigestACL(zk.PermAll, "the", "holder")...)
		cases["no permission to "+right] = input{held: func(t *testing.T, c, _ *coordinator.Coordinator) {
			coordtest.Hold(t, c.Mutex(lockPath, r, coordinator.ACL(acl)))
		}, want: coordinator.ErrNoAuth}
	}
	for name, lock := range kindsOf() {
		want := coordinator.ErrNotRevocable
		if name == "unfair" {
			want = coordinator.ErrKind
		}
		cases["not revocable: "+name] = input{held: func(t *testing.T, c, _ *coordinator.Coordinator) {
			coordtest.Soon(t, lock.of(c).Acquire(t.Context()))
		}, want: want}
	}
	forEach(t, cases, func(t *testing.T, srv *zktest.Server, in input) {
		c := coordtest.Connect(t, srv, coordinator.WithAuth("digest", []byte("the:holder")))
		operator, ctx := coordtest.Connect(t, srv), t.Context()
		stream := c.Events(ctx)
		for _, node := range in.nodes {
			eventstest.Must(t, srv.Create(node, []byte("somebody's")))
		}
		if in.held != nil {
			in.held(t, c, coordtest.Connect(t, srv))
		}
		if in.isOver {
			ctx = over
		}
		time.Sleep(5 * time.Minute) // by then empty directories are removed
		before, watches := contents(srv), srv.Watches()
		began := time.Now()
		err := operator.Revoke(ctx, cmp.Or(in.path, lockPath), cmp.Or(in.grace, grace))
		expect(t, errors.Is(err, in.want) && time.Since(began) == 0,
			"Revoke: %.100v after %v, want %v", err, time.Since(began), in.want)
		time.Sleep(time.Minute)
		denied := errors.Is(in.want, coordinator.ErrNoAuth) // the revoker has read the node
		expect(t, slices.Equal(before, contents(srv)) && (srv.Watches() == watches || denied),
			"before %q and %d watches, after %q and %d; want no change", before, watches, contents(srv), srv.Watches())
		expectNone(t, revocations(stream), "revocations that the holder is told")
	})
}

// contents returns each node with its data.
func contents(srv *zktest.Server) (all []string) {
	for _, node := range srv.Tree() {
		data, _ := srv.Data(node)
		all = append(all, node+": "+string(data))
	}
	return all
}

// TestRevokeThatEndsWithoutItsHolder: the request remains, so a holder of ours obeys. A
// holder of another library is not removed.
func TestRevokeThatEndsWithoutItsHolder(t *testing.T) {
	cause := errors.New("enough")
	forEach(t, map[string]error{"closed": coordinator.ErrClosed, "given up": cause}, func(t *testing.T, srv *zktest.Server, want error) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).ReadWrite(lockPath, coordinator.Revocable()).Read())
		theirs := lockPath + "/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000007"
		stranger(t, srv)(theirs, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		done := revoking(ctx, c, grace)
		time.Sleep(time.Second)
		if errors.Is(want, cause) {
			cancel(cause)
		} else {
			eventstest.Check(t, c.Close())
		}
		began := time.Now()
		expectError(t, <-done, want, "Revoke")
		expect(t, time.Since(began) == 0, "Revoke ends after %v, want at once", time.Since(began))
		expectError(t, c.Revoke(ctx, lockPath, 0), want, "another Revoke")
		expectError(t, coordtest.EndOf(t, holder), coordinator.ErrRevoked, "the holder")
		time.Sleep(time.Minute)
		expect(t, srv.Exists(theirs), "a node of another library was removed when the caller had given up")
	})
}

// TestRevokeEvictsNobodyOnceItHasReturned: the answer to its last read may come later, or
// the one to the transaction that deletes all permits, which fails because one is gone.
func TestRevokeEvictsNobodyOnceItHasReturned(t *testing.T) {
	const permit = lockPath + "/leases/_c_4f1c0a52-7c39-810e-9a3c-d2b1c5a7e9f0-lease-000000000"
	forEach(t, map[string][]string{
		"one node": {lockPath + "/lock-0000000007"},
		"permits":  {permit + "1", permit + "2", permit + "3"},
	}, func(t *testing.T, srv *zktest.Server, nodes []string) {
		for _, node := range nodes {
			stranger(t, srv)(node, "")
		}
		operator := coordtest.Connect(t, srv)
		ctx := within(t, grace+patience+time.Second)
		done := revoking(ctx, operator, grace)
		synctest.Wait()
		op := zktest.OpGetData
		if last := len(nodes) - 1; last > 0 {
			op = zktest.OpMulti
			eventstest.Must(t, srv.Delete(nodes[last]))
			nodes = nodes[:last]
		}
		late := striking(srv, zktest.Delay(2*time.Second), of(operator.SessionID(), op))
		expectError(t, <-done, context.DeadlineExceeded, "Revoke")
		time.Sleep(time.Minute)
		expect(t, late.Load() > 0, "no answer came late")
		for _, node := range nodes {
			expect(t, srv.Exists(node), "%s is gone, want it to stay", node)
		}
	})
}

func TestRevokeWithoutAConnectionLeavesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Revocable()))
		before, id := contents(srv), c.SessionID()
		unreachable(srv, id)
		synctest.Wait()
		for range 10 {
			err := c.Revoke(within(t, 100*time.Millisecond), lockPath, grace)
			expectError(t, err, context.DeadlineExceeded, "Revoke without a connection")
		}
		asked := counting(srv, of(id, zktest.OpMulti, zktest.OpGetChildren2))
		time.Sleep(time.Minute)
		expect(t, slices.Equal(before, contents(srv)) && holder.Valid() && asked.Load() == 0,
			"before %q, after %q, the holder valid: %v, %d requests; want no change and no request",
			before, contents(srv), holder.Valid(), asked.Load())
	})
}

// TestDataThatWouldBeARevocationAreRefused by Acquire and SetData, and nothing is
// written.
func TestDataThatWouldBeARevocationAreRefused(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		leader, _ := coordtest.Hold(t, c.Election("/election"), named("_REVOKE__"))
		before := contents(srv)
		for _, data := range []string{"__REVOKE__", "__REVOKE__ 5\nmine", "__REVOKE__x"} {
			for name, lock := range kindsOf() {
				expectError(t, lock.of(c).Acquire(t.Context(), named(data)).Err(), coordinator.ErrData, name+", "+data)
			}
			expectError(t, leader.SetData(t.Context(), []byte(data)), coordinator.ErrData, "SetData of "+data)
		}
		expect(t, slices.Equal(before, contents(srv)), "refused data have left %q, want %q", contents(srv), before)
	})
}

// TestAHolderThatHasOverwrittenTheRequestIsNotEvictedYet:
//
//  1. The holder has held for less than a probe interval, so it does not watch its node.
//  2. The revocation request is written, and the revoker is cut off.
//  3. The holder overwrites its data, with the request that it has not read.
//  4. When its time is up, the revoker is back, and the holder is cut off.
//
// The reply to the second request is lost, too.
func TestAHolderThatHasOverwrittenTheRequestIsNotEvictedYet(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Warm(t, c, other)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		next := coordtest.Queue(other.Mutex(lockPath))
		done := revoking(t.Context(), operator, 0)
		synctest.Wait()
		gone := operator.SessionID()
		strike(srv, zktest.CutBefore(), func(r zktest.Request) bool {
			return r.Session == gone || r.Op == zktest.OpConnect
		})
		srv.Cut(gone)
		eventstest.Check(t, holder.SetData(t.Context(), []byte("new")))
		time.Sleep(patience + time.Second)
		expect(t, holder.Valid(), "the holder does not hold any more, want it to know nothing of the request")
		srv.Mute(c.SessionID(), true)
		written := once(srv, zktest.CutAfter(), isA(zktest.OpSetData))
		wantOneValid(t, holder, next)
		expectError(t, <-done, nil, "Revoke")
		expect(t, written.Load(), "the request was not written again, want its reply lost")
		coordtest.End(next)
		srv.Mute(c.SessionID(), false)
	})
}
