package coordinator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// This file is about a revoker with a shorter session timeout than the holder's.
const (
	holdersTimeout  = 30 * time.Second
	revokersTimeout = 4 * time.Second
	holdersPatience = holdersTimeout + holdersTimeout/4
)

// unequal returns coordinators with the two timeouts.
func unequal(t *testing.T, srv *zktest.Server) (c, operator *coordinator.Coordinator) {
	t.Helper()
	return coordtest.Connect(t, srv, coordinator.WithSessionTimeout(holdersTimeout)),
		coordtest.Connect(t, srv, coordinator.WithSessionTimeout(revokersTimeout))
}

// wantOneValid waits for the next holder, and checks that the first has lost the lock by
// then.
func wantOneValid(t *testing.T, holder, next *coordinator.Acquisition) {
	t.Helper()
	if _, err := next.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if holder.Valid() {
		t.Errorf("the holder is valid beside the next one, for another %v; want it lost", time.Until(holder.Deadline()))
	}
}

// TestARevokerInAHurryWaitsForTheHoldersLease: the holder is cut off. It is removed after
// five quarters of its own session timeout.
func TestARevokerInAHurryWaitsForTheHoldersLease(t *testing.T) {
	for _, held := range []time.Duration{0, time.Second, 20 * time.Second} {
		forEach(t, revocableKinds(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
			c, operator := unequal(t, srv)
			holder := lock.of(c).Acquire(t.Context(), coordinator.Data([]byte("job")))
			coordtest.Soon(t, holder)
			time.Sleep(held)
			srv.Mute(c.SessionID(), true)
			next := lock.behind(operator).Acquire(t.Context())
			asked := time.Now()
			done := revoking(t.Context(), operator, 0)
			wantOneValid(t, holder, next)
			// The session ends by itself if the holder has been silent for long.
			if err := <-done; err != nil || time.Since(asked) > holdersPatience+time.Second {
				t.Errorf("held for %v, Revoke: %v after %v, want nil after %v at most",
					held, err, time.Since(asked), holdersPatience)
			}
			coordtest.End(next)
			srv.Mute(c.SessionID(), false)
			holder.Release()
		})
	}
}

// leads has a leader hold the election for a while, with a long session timeout.
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

// TestTheNextRevokerKnowsTheHoldersTimeout, too, though Curator's Revoker has overwritten
// it, the leader has proclaimed since, and the revokers before have written a wish.
func TestTheNextRevokerKnowsTheHoldersTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator, leader, proclaim := leads(t, srv)
		node := leader.Grant().Node
		wantData := func(want string) {
			t.Helper()
			if data, _ := srv.Data(node); string(data) != want {
				t.Errorf("the node has %q, want %q", data, want)
			}
		}
		eventstest.Must(t, srv.SetData(node, []byte(curatorsWish)))
		proclaim(nil)
		wantData("zkgrant-timeout 30000ms\n")
		proclaim([]byte("two"))
		for _, grace := range []time.Duration{time.Hour, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := operator.Revoke(ctx, lockPath, grace); ctx.Err() == nil {
				t.Errorf("Revoke: %v, want it to wait until its context ends", err)
			}
			cancel()
			wantData(fmt.Sprintf("__REVOKE__ %d\ntwo\nzkgrant-timeout 30000ms\n", grace.Milliseconds()))
		}
		srv.Mute(c.SessionID(), true)
		next := coordtest.Queue(operator.Mutex(lockPath))
		done := revoking(t.Context(), operator, 0)
		wantOneValid(t, leader, next)
		eventstest.Check(t, <-done)
		srv.Mute(c.SessionID(), false)
	})
}

// nodesOf returns the data of a session's nodes.
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
// other node.
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
					options = append(options, coordinator.Data([]byte(user)))
				}
				if line != "" && (user != "" || lock.name == "kazoo's names") {
					want = user + "\n" + line
				}
				for range 2 { // the second one is made in a directory that is known, and together with the delete of the first
					holder := lock.of(c).Acquire(t.Context(), options...)
					coordtest.Soon(t, holder)
					waiter := lock.of(c).Acquire(t.Context(), options...)
					synctest.Wait()
					for node, got := range nodesOf(srv, c) {
						if got != want {
							t.Errorf("%s has %q, want %q", node, got, want)
						}
					}
					queued, err := lock.of(c).Queue(t.Context())
					for _, contender := range queued {
						if string(contender.Data) != user {
							t.Errorf("the queue shows %q, want %q", contender.Data, user)
						}
					}
					if err != nil || len(queued) == 0 {
						t.Errorf("the queue is %+v, %v; want a holder at least", queued, err)
					}
					waiter.Release()
					holder.Release()
				}
			}
		})
	}
}

// TestObserversAndThoseToldOfACrashSeeNoTimeout.
func TestObserversAndThoseToldOfACrashSeeNoTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator, leader, proclaim := leads(t, srv, coordinator.DetectCrash())
		seen := operator.Election(lockPath).Observe(t.Context())
		said := func(want string) {
			t.Helper()
			synctest.Wait()
			if l := <-seen; string(l.Data) != want {
				t.Errorf("the observer hears %q, want %q", l.Data, want)
			}
		}
		said("one")
		proclaim([]byte("two"))
		said("two")
		expire(t, srv, c)
		next := operator.Election(lockPath, coordinator.DetectCrash()).Acquire(t.Context())
		if g := coordtest.Soon(t, next); g.Abandoned == nil || string(g.Abandoned.Data) != "one" {
			t.Errorf("the next leader is told of %+v, want a crash with the data %q", g.Abandoned, "one")
		}
		leader.Release()
	})
}

// asking has the handshakes on a connection ask for another session timeout.
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

// TestANodeThatIsMadeAgainHasTheTimeoutOfItsOwnSession, as that was negotiated.
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
				if got != want {
					t.Errorf("%s has %q, want %q", node, got, want)
				}
			}
			if len(nodes) != 1 {
				t.Errorf("the session has the nodes %q, want one", nodes)
			}
		}
		inTheWay.Release()
		coordtest.Soon(t, waiter)
		waiter.Release()
	})
}

// TestTheTimeoutsOfManyMembersCount as a part of the request: a server drops the
// connection at a request that is too large, each time it is retried.
func TestTheTimeoutsOfManyMembersCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var locks []*coordinator.Lock
		for i := range 8240 { // without the timeouts they just fit
			locks = append(locks, c.Mutex(fmt.Sprintf("/m/%05d", i), coordinator.Revocable()))
		}
		a := c.Multi(locks...).Acquire(t.Context())
		defer a.Release()
		synctest.Wait()
		if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrTooLarge) {
			t.Errorf("over: %v, %v; want ErrTooLarge at once", coordtest.IsClosed(a.Done()), a.Err())
		}
	})
}
