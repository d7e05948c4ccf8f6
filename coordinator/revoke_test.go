package coordinator_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"path"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	// grace is the grace period that holders get in these tests.
	grace = 3 * time.Second
	// patience is how long after the grace period a holder is removed: five quarters of
	// the session timeout.
	patience = timeoutOfAll + timeoutOfAll/4
	// timeoutOfAll is the session timeout, unless a test sets another one.
	timeoutOfAll = 10 * time.Second
	// curatorsRequest is the data with which Curator's Revoker requests a revocation.
	curatorsRequest = "__REVOKE__"
)

func revoking(ctx context.Context, c *coordinator.Coordinator, grace time.Duration) <-chan error {
	return inBackground(func() error { return c.Revoke(ctx, lockPath, grace) })
}

// around reports whether got is want, or up to a tenth of the session timeout longer. A
// node may be unwatched for that long.
func around(got, want time.Duration) bool {
	return got >= want-10*time.Millisecond && got <= want+timeoutOfAll/10+100*time.Millisecond
}

// wantRevoked checks that Revoke returns nil this long after it was called.
func wantRevoked(t *testing.T, done <-chan error, asked time.Time, took time.Duration) {
	t.Helper()
	err, after := <-done, time.Since(asked)
	expect(t, err == nil && around(after, took), "Revoke: %v after %v, want nil after %v", err, after, took)
}

// TestAProclamationDoesNotOverruleARevocation: the leader's SetData keeps the revocation
// request, with the time that is left. The deadline stays the same.
func TestAProclamationDoesNotOverruleARevocation(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		seen := operator.Election(lockPath).Observe(t.Context())
		election := c.Election(lockPath, coordinator.Revocable())
		leader, grant := coordtest.Hold(t, election, coordinator.Data([]byte("one")))
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		eventstest.Check(t, leader.SetData(t.Context(), []byte("two")))
		time.Sleep(time.Second)
		expectData(t, srv, grant.Node, "__REVOKE__ 2000\ntwo\nzkgrant-timeout 10000ms\n") // 2 s of the grace are left
		said, told := <-seen, revocations(stream)
		expect(t, string(said.Data) == "two", "the observer hears %+v, want the word alone", said)
		expect(t, len(told) == 1, "the leader is told %+v, want one revocation", told)
		wantRevoked(t, done, asked, grace)
	})
}

// stranger returns a function that creates nodes in another client's session. They end
// with it.
func stranger(t *testing.T, srv *zktest.Server) (create func(node, data string)) {
	t.Helper()
	raw := coordtest.Admin(t, srv.Addr(), srv.DialContext)
	return func(node, data string) {
		t.Helper()
		_ = srv.Create(path.Dir(node), nil) // it may exist already
		_, err := raw.Create(node, []byte(data), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, err)
	}
}

// TestHoldersOfOtherLibrariesAreAskedInTheirWayAndThenRemoved if they do not react.
func TestHoldersOfOtherLibrariesAreAskedInTheirWayAndThenRemoved(t *testing.T) {
	forEach(t, map[string]string{
		"Curator's lock": "_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000007",
		"its lease":      "leases/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lease-0000000007",
		"its reader":     "_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000007",
		"the recipe's":   "lock-0000000007",
		"kazoo's":        "4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000007",
		"a WriteLock":    "x-72057594037927936-0000000007",
	}, func(t *testing.T, srv *zktest.Server, name string) {
		c, create, node := coordtest.Connect(t, srv), stranger(t, srv), path.Join(lockPath, name)
		for _, hears := range []bool{true, false} {
			create(node, "theirs")
			asked, took := time.Now(), grace+patience
			done := revoking(t.Context(), c, grace)
			time.Sleep(time.Second)
			expectData(t, srv, node, curatorsRequest)
			if hears {
				took = 2 * time.Second
				time.Sleep(time.Second)
				eventstest.Must(t, srv.Delete(node))
			}
			wantRevoked(t, done, asked, took)
			expect(t, !srv.Exists(node), "the holder hears: %v; after Revoke its node is there, want it gone", hears)
		}
	})
}

// TestANodeThatBearsTheNameOfAnotherIsLeftAlone: names without a GUID can recur.
func TestANodeThatBearsTheNameOfAnotherIsLeftAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const node = lockPath + "/lock-0000000000"
		c, create := coordtest.Connect(t, srv), stranger(t, srv)
		create(node, "")
		done := revoking(t.Context(), c, grace)
		time.Sleep(time.Second)
		srv.Lag(c.SessionID(), true)
		eventstest.Must(t, srv.Delete(node))
		create(node, "another")
		srv.Lag(c.SessionID(), false)
		eventstest.Check(t, <-done)
		time.Sleep(time.Minute)
		expectData(t, srv, node, "another") // untouched
	})
}

// TestAHolderThatIsCutOffLosesTheLockBeforeItIsRemoved:
//
//  1. The holder has held for less than a probe interval, so it has not looked at its
//     node when the revocation is requested.
//  2. Its session writes for another lock, which renews its lease.
//  3. It is cut off.
//
// The revoker's timeout is the same, or much shorter.
func TestAHolderThatIsCutOffLosesTheLockBeforeItIsRemoved(t *testing.T) {
	const timeout = 40 * time.Second // long compared to the tick of 2 s, which is deducted from a lease
	cuts := []time.Duration{timeout / 20, timeout * 9 / 100, timeout * 98 / 1000, timeout / 9}
	for k := range 2 * len(cuts) {
		cut, asks := cuts[k/2], [...]time.Duration{timeout, revokersTimeout}[k%2]
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout))
			operator, other := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(asks)), coordtest.Connect(t, srv)
			coordtest.Warm(t, c, other)
			holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
			next := coordtest.Queue(other.Mutex(lockPath))
			done := revoking(t.Context(), operator, 0)
			const apart = 1300 * time.Millisecond // more than half a tick: the first write counts once the second is answered
			for _, wait := range []time.Duration{cut - apart, apart} {
				time.Sleep(wait)
				if holder.Valid() {
					holdAgainAndAgain(t, c.Mutex("/another"), 1)
				}
			}
			srv.Mute(c.SessionID(), true)
			wantOneValid(t, holder, next)
			expectError(t, <-done, nil, fmt.Sprintf("cut off after %v, asked by a session of %v, Revoke", cut, asks))
		})
	}
}

// TestRealRevoke removes holders that do not react: the holder is connected to one server
// of a real ensemble, the revoker to another. The scenes have holders of every kind that
// react.
func TestRealRevoke(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	t.Run("by force", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, grace = 4 * time.Second, 500 * time.Millisecond // the holder's timeout counts, not the revoker's
		c := coordtest.ConnectReal(t, e.Addr(0)+"/force", coordinator.WithSessionTimeout(timeout))
		operator := coordtest.ConnectReal(t, e.Addr(2)+"/force", coordinator.WithSessionTimeout(timeout/2))
		began, end := make(chan events.Grant, 1), make(chan struct{})
		ended := inBackground(func() error {
			permits := c.Semaphore(lockPath, 3, coordinator.Revocable())
			return permits.Do(ctx, func(_ context.Context, g events.Grant) error {
				began <- g
				<-end
				return nil
			}, coordinator.Permits(3))
		})
		eventstest.Receive(t, began, "the Grant")
		asked := time.Now()
		err, took, least := operator.Revoke(ctx, lockPath, grace), time.Since(asked), grace+timeout+timeout/4
		expect(t, err == nil && took >= least, "Revoke: %v after %v, want nil after %v at least", err, took, least)
		queue, err := operator.Semaphore(lockPath, 3).Queue(ctx)
		expect(t, err == nil && len(queue) == 0, "after Revoke the queue is %+v, %v; want none", queue, err)
		close(end)
		expectError(t, <-ended, coordinator.ErrRevoked, "Do")
	})
	t.Run("of another library", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, path = 2 * time.Second, "/foreign"
		operator := coordtest.ConnectReal(t, e.Addr(2), coordinator.WithSessionTimeout(timeout))
		stock := zk.NewLock(coordtest.Admin(t, e.Addr(1), new(net.Dialer).DialContext), path, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, stock.Lock())
		asked := time.Now()
		err, took := operator.Revoke(ctx, path, 0), time.Since(asked)
		expect(t, err == nil && took >= timeout, "Revoke: %v after %v, want nil after %v", err, took, timeout)
		coordtest.HoldReal(t, operator.Mutex(path))
	})
}

// TestDeadlineEndsWithTheGrace once the holder was told of the revocation, although its
// lease is longer.
func TestDeadlineEndsWithTheGrace(t *testing.T) {
	forEach(t, revocableKinds(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
		a, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		held, _ := coordtest.Hold(t, lock.of(a))
		time.Sleep(2 * timeoutOfAll) // by now its node is watched
		lease := time.Until(held.Deadline())
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Millisecond)
		got := time.Until(held.Deadline())
		expect(t, got <= grace && got >= grace-10*time.Millisecond && lease > grace,
			"a millisecond after a Revoke within %v Deadline is in %v; the lease was %v", grace, got, lease)
		<-held.Lost()
		eventstest.Check(t, <-done)
	})
}

// TestASuspendOfTheMachineCountsForTheGrace: the holder's machine is suspended several
// times within the grace, each time for less than the lease, so the lease outlives the
// grace. It was suspended before, too.
func TestASuspendOfTheMachineCountsForTheGrace(t *testing.T) {
	const naps, nap, awake = 3, timeoutOfAll / 2, 3500 * time.Millisecond // probes renew the lease
	const grace = naps*(nap+awake) + time.Second
	forEach(t, revocableKinds(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
		var asleep atomic.Int64
		asleep.Store(int64(time.Hour))
		operator := coordtest.Connect(t, srv)
		handle := lock.of(coordtest.Connect(t, srv, session.OptionFunc(func(cfg *session.Config) {
			cfg.Asleep = func() time.Duration { return time.Duration(asleep.Load()) }
		})))
		held, _ := coordtest.Hold(t, handle)
		time.Sleep(2 * timeoutOfAll) // by now its node is watched
		done := revoking(t.Context(), operator, grace)
		due := (<-held.Revoked()).Deadline
		expect(t, time.Until(due) == grace, "asked to release within %v, want %v", time.Until(due), grace)
		for range naps {
			time.Sleep(awake)
			asleep.Add(int64(nap))
			due = due.Add(-nap)
		}
		left := time.Until(held.Deadline())
		expect(t, held.Valid() && left == time.Until(due) && left > 0,
			"of a grace of %v, asleep for %v of it, %v are left, want %v", grace, naps*nap, left, time.Until(due))
		asleep.Add(int64(left))
		expect(t, !held.Valid(), "asleep until the end of the grace, and valid")
		select {
		case lost := <-held.Lost():
			expectEqual(t, lost.Reason, events.ReasonRevoked, "the reason of the loss")
		case <-time.After(time.Second + time.Millisecond):
			t.Fatal("no loss is told by the next probe's time, want one")
		}
		eventstest.Check(t, <-done)
	})
}

// For a revoker with a shorter session timeout than the holder's.
const (
	holdersTimeout  = 30 * time.Second
	revokersTimeout = 4 * time.Second
	holdersPatience = holdersTimeout + holdersTimeout/4
)

// unequal returns two coordinators with these timeouts.
func unequal(t *testing.T, srv *zktest.Server) (c, operator *coordinator.Coordinator) {
	t.Helper()
	return coordtest.Connect(t, srv, coordinator.WithSessionTimeout(holdersTimeout)),
		coordtest.Connect(t, srv, coordinator.WithSessionTimeout(revokersTimeout))
}

// wantOneValid waits for the next holder, and checks that the first has lost the lock by
// then.
func wantOneValid(t *testing.T, holder, next *coordinator.Acquisition) {
	t.Helper()
	_, err := next.Wait(t.Context())
	eventstest.Must(t, err)
	expect(t, !holder.Valid(), "it holds beside the next one, for another %v", time.Until(holder.Deadline()))
}

// TestARevokerInAHurryWaitsForTheHoldersLease: it waits for five quarters of the holder's
// session timeout.
func TestARevokerInAHurryWaitsForTheHoldersLease(t *testing.T) {
	for _, held := range []time.Duration{0, time.Second, 20 * time.Second} {
		forEach(t, revocableKinds(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
			c, operator := unequal(t, srv)
			holder, _ := coordtest.Hold(t, lock.of(c), coordinator.Data([]byte("job")))
			time.Sleep(held)
			srv.Mute(c.SessionID(), true)
			next := lock.behind(operator).Acquire(t.Context())
			asked := time.Now()
			done := revoking(t.Context(), operator, 0)
			wantOneValid(t, holder, next)
			// The session may end first if the holder has been silent for long.
			err, took := <-done, time.Since(asked)
			expect(t, err == nil && took <= holdersPatience+time.Second,
				"held for %v, Revoke: %v after %v, want nil after %v at most", held, err, took, holdersPatience)
		})
	}
}

// leads makes a leader with a long session timeout hold the election for a while.
func leads(t *testing.T, srv *zktest.Server, options ...coordinator.LockOption) (
	c, operator *coordinator.Coordinator, leader *coordinator.Acquisition, proclaim func(word []byte),
) {
	t.Helper()
	c, operator = unequal(t, srv)
	election := c.Election(lockPath, append(options, coordinator.Revocable())...)
	leader = election.Acquire(t.Context(), coordinator.Data([]byte("one")))
	coordtest.Soon(t, leader)
	time.Sleep(20 * time.Second)
	return c, operator, leader, func(word []byte) {
		t.Helper()
		eventstest.Must(t, leader.SetData(t.Context(), word))
	}
}

// TestTheNextRevokerKnowsTheHoldersTimeout even if Curator's Revoker has overwritten it,
// the leader has set its data since, and earlier revokers have written requests.
func TestTheNextRevokerKnowsTheHoldersTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator, leader, proclaim := leads(t, srv)
		node := leader.Grant().Node
		eventstest.Must(t, srv.SetData(node, []byte(curatorsRequest)))
		proclaim(nil)
		expectData(t, srv, node, "zkgrant-timeout 30000ms\n")
		proclaim([]byte("two"))
		for _, grace := range []time.Duration{time.Hour, time.Minute} {
			ctx := within(t, time.Second)
			err := operator.Revoke(ctx, lockPath, grace)
			expect(t, ctx.Err() != nil, "Revoke: %v, want it to wait until its context ends", err)
			expectData(t, srv, node, fmt.Sprintf("__REVOKE__ %d\ntwo\nzkgrant-timeout 30000ms\n", grace/1e6))
		}
		srv.Mute(c.SessionID(), true)
		next := coordtest.Queue(operator.Mutex(lockPath))
		done := revoking(t.Context(), operator, 0)
		wantOneValid(t, leader, next)
		eventstest.Check(t, <-done)
	})
}

// nodesOf returns a session's nodes and their data.
func nodesOf(srv *zktest.Server, c *coordinator.Coordinator) map[string]string {
	all := map[string]string{}
	for _, node := range srv.Tree() {
		if srv.Owner(node) == c.SessionID() {
			data, _ := srv.Data(node)
			all[node] = string(data)
		}
	}
	return all
}

// TestTheTimeoutIsNotShown to users. It is in each node of a revocable lock, and in no
// other.
func TestTheTimeoutIsNotShown(t *testing.T) {
	for line, kinds := range map[string]map[string]lockKind{"": kindsOf(), "zkgrant-timeout 30000ms\n": revocableKinds()} {
		if line != "" {
			kinds["multi-lock"] = lockKind{"multi-lock", func(c *coordinator.Coordinator) handle {
				r := coordinator.Revocable()
				return c.Multi(c.Mutex(lockPath, r), c.Mutex("/locks/other", r))
			}}
		}
		forEach(t, kinds, func(t *testing.T, srv *zktest.Server, lock lockKind) {
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(holdersTimeout))
			for _, user := range []string{"", "job", "job\n"} {
				var options []coordinator.AcquireOption
				want := user + line
				if user != "" {
					options = append(options, named(user))
				}
				if line != "" && (user != "" || lock.name == "kazoo's names") {
					want = user + "\n" + line
				}
				for range 2 { // the second create is in a known directory, and combined with the first delete
					holder, _ := coordtest.Hold(t, lock.of(c), options...)
					waiter := lock.of(c).Acquire(t.Context(), options...)
					synctest.Wait()
					for node, got := range nodesOf(srv, c) {
						expect(t, got == want, "%s has %q, want %q", node, got, want)
					}
					queued, err := lock.of(c).Queue(t.Context())
					for _, contender := range queued {
						expect(t, string(contender.Data) == user, "the queue shows %q, want %q", contender.Data, user)
					}
					expect(t, err == nil && len(queued) != 0, "the queue is %+v, %v; want a holder at least", queued, err)
					waiter.Release()
					holder.Release()
				}
			}
		})
	}
}

func TestObserversAndThoseToldOfACrashSeeNoTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator, _, proclaim := leads(t, srv, coordinator.DetectCrash())
		seen := operator.Election(lockPath).Observe(t.Context())
		said := func(want string) {
			t.Helper()
			synctest.Wait()
			l := <-seen
			expect(t, string(l.Data) == want, "the observer hears %q, want %q", l.Data, want)
		}
		said("one")
		proclaim([]byte("two"))
		said("two")
		expire(t, srv, c)
		next := operator.Election(lockPath, coordinator.DetectCrash()).Acquire(t.Context())
		tellsOf(t, coordtest.Soon(t, next), true, "one")
	})
}

// asking is a connection whose handshakes request another session timeout.
type asking struct {
	net.Conn
	timeout *atomic.Int64
	done    bool
}

func (a *asking) Write(p []byte) (int, error) {
	if !a.done {
		a.done = true
		binary.BigEndian.PutUint32(p[16:], uint32(time.Duration(a.timeout.Load())/time.Millisecond))
	}
	return a.Conn.Write(p)
}

func TestANodeThatIsMadeAgainHasTheTimeoutOfItsOwnSession(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var timeout atomic.Int64
		timeout.Store(int64(holdersTimeout))
		dial := coordinator.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &asking{Conn: conn, timeout: &timeout}, nil
		})
		c := coordtest.Connect(t, srv, dial)
		inTheWay, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		waiter := coordtest.Queue(c.Mutex(lockPath, coordinator.Revocable()))
		for _, negotiated := range []time.Duration{holdersTimeout, 8 * time.Second, 20 * time.Second} {
			if next := int64(negotiated); timeout.Swap(next) != next {
				eventstest.Must(t, srv.Expire(c.SessionID()))
				time.Sleep(time.Minute)
			}
			want := fmt.Sprintf("zkgrant-timeout %dms\n", negotiated.Milliseconds())
			nodes := nodesOf(srv, c)
			for node, got := range nodes {
				expect(t, got == want, "%s has %q, want %q", node, got, want)
			}
			expect(t, len(nodes) == 1, "the session has the nodes %q, want one", nodes)
		}
		inTheWay.Release()
		coordtest.Soon(t, waiter)
	})
}

// TestTheTimeoutsOfManyMembersCount towards the size of the request: a server drops the
// connection at a request that is too large, at every retry.
func TestTheTimeoutsOfManyMembersCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var locks []*coordinator.Lock
		for i := range 8240 { // without the timeouts these just fit
			locks = append(locks, c.Mutex(fmt.Sprintf("/m/%05d", i), coordinator.Revocable()))
		}
		expectError(t, refused(c.Multi(locks...).Acquire(t.Context())), coordinator.ErrTooLarge, "at once")
	})
}
