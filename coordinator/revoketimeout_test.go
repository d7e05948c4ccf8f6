package coordinator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
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

// behind returns a handle that waits for a holder of the kind.
func behind(kind string, lock func(*coordinator.Coordinator) acquirer, c *coordinator.Coordinator) acquirer {
	if kind == "read" {
		return c.ReadWrite(lockPath, coordinator.Revocable()).Write()
	}
	return lock(c)
}

// wantOneValid waits for the next holder, and checks that the first has lost the lock by then.
func wantOneValid(t *testing.T, holder, next *coordinator.Acquisition) {
	t.Helper()
	if _, err := next.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if holder.Valid() {
		t.Errorf("the holder is valid beside the next one, for another %v; want it lost", time.Until(holder.Deadline()))
	}
}

// TestARevokerInAHurryWaitsForTheHoldersLease: the holder is cut off. It is removed after five quarters of its own session timeout.
func TestARevokerInAHurryWaitsForTheHoldersLease(t *testing.T) {
	for name, lock := range revocableKinds() {
		for _, held := range []time.Duration{0, time.Second, 20 * time.Second} {
			t.Run(fmt.Sprint(name, " for ", held), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, operator := unequal(t, srv)
					holder := lock(c).Acquire(t.Context(), coordinator.WithData([]byte("job")))
					coordtest.Soon(t, holder)
					time.Sleep(held)
					srv.Mute(c.SessionID(), true)
					next := behind(name, lock, operator).Acquire(t.Context())
					asked := time.Now()
					done := revoking(t.Context(), operator, 0)
					wantOneValid(t, holder, next)
					// The session ends by itself if the holder has been silent for long.
					if err := <-done; err != nil || time.Since(asked) > holdersPatience+time.Second {
						t.Errorf("Revoke: %v after %v, want nil after %v at most", err, time.Since(asked), holdersPatience)
					}
					coordtest.End(next)
					srv.Mute(c.SessionID(), false)
					holder.Release()
				})
			})
		}
	}
}

// TestARevokerInAHurryRemovesAHolderThatIsSlow: its session lives, and its function does not return.
func TestARevokerInAHurryRemovesAHolderThatIsSlow(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := unequal(t, srv)
		end, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- c.Mutex(lockPath, coordinator.Revocable()).Do(t.Context(), func(context.Context, events.Grant) error {
				<-end
				return nil
			})
		}()
		time.Sleep(20 * time.Second)
		asked := time.Now()
		if err := operator.Revoke(t.Context(), lockPath, grace); err != nil || !around(time.Since(asked), grace+holdersPatience) {
			t.Errorf("Revoke: %v after %v, want nil after %v", err, time.Since(asked), grace+holdersPatience)
		}
		close(end)
		if err := <-ended; !errors.Is(err, coordinator.ErrRevoked) {
			t.Errorf("Do = %v, want ErrRevoked", err)
		}
	})
}

// TestAHolderThatAnswersIsNotWaitedFor longer than before, whatever its session timeout is.
func TestAHolderThatAnswersIsNotWaitedFor(t *testing.T) {
	for name, lock := range revocableKinds() {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c, operator := unequal(t, srv)
			stream := c.Events(t.Context())
			holder := lock(c).Acquire(t.Context())
			coordtest.Soon(t, holder)
			time.Sleep(20 * time.Second)
			asked := time.Now()
			done := revoking(t.Context(), operator, grace)
			if told := wishes(stream); len(told) != 1 {
				t.Errorf("%s: the holder is told %+v, want one wish", name, told)
			}
			holder.Release()
			if err := <-done; err != nil || time.Since(asked) > 10*time.Millisecond {
				t.Errorf("%s: Revoke: %v after %v, want nil at once: the holder has released", name, err, time.Since(asked))
			}
			holder = lock(c).Acquire(t.Context())
			coordtest.Soon(t, holder)
			time.Sleep(20 * time.Second)
			asked = time.Now()
			if err := operator.Revoke(t.Context(), lockPath, grace); err != nil || !around(time.Since(asked), grace) {
				t.Errorf("%s: Revoke: %v after %v, want nil after %v: the holder gives it back in time", name, err, time.Since(asked), grace)
			}
		})
	}
}

// TestTheNextRevokerKnowsTheHoldersTimeout, too, though the revokers before have written a wish, and the leader has proclaimed.
func TestTheNextRevokerKnowsTheHoldersTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := unequal(t, srv)
		election := c.Election(lockPath, coordinator.Revocable())
		leader := election.Campaign(t.Context(), coordinator.WithData([]byte("one")))
		grant := coordtest.Soon(t, leader)
		time.Sleep(20 * time.Second)
		eventstest.Must(t, election.Proclaim(t.Context(), leader, []byte("two")))
		for _, grace := range []time.Duration{time.Hour, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := operator.Revoke(ctx, lockPath, grace); ctx.Err() == nil {
				t.Errorf("Revoke: %v, want it to wait until its context ends", err)
			}
			cancel()
			want := fmt.Sprintf("__REVOKE__ %d\ntwo\nzkgrant-timeout 30000ms\n", grace.Milliseconds())
			if data, _ := srv.Data(grant.Node); string(data) != want {
				t.Errorf("the node has %q, want %q", data, want)
			}
		}
		srv.Mute(c.SessionID(), true)
		next := coordtest.Queue(operator.Mutex(lockPath))
		done := revoking(t.Context(), operator, 0)
		wantOneValid(t, leader, next)
		if err := <-done; err != nil {
			t.Errorf("Revoke: %v, want nil", err)
		}
		srv.Mute(c.SessionID(), false)
	})
}

// TestWithoutAHoldersTimeoutTheRevokersCounts: Curator's Revoker has overwritten it, until the leader proclaims again.
func TestWithoutAHoldersTimeoutTheRevokersCounts(t *testing.T) {
	for _, proclaims := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c, operator := unequal(t, srv)
			election := c.Election(lockPath, coordinator.Revocable())
			leader := election.Campaign(t.Context(), coordinator.WithData([]byte("one")))
			grant := coordtest.Soon(t, leader)
			time.Sleep(20 * time.Second)
			eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsWish)))
			want := revokersTimeout + revokersTimeout/4
			if proclaims {
				eventstest.Must(t, election.Proclaim(t.Context(), leader, nil))
				if data, _ := srv.Data(grant.Node); string(data) != "zkgrant-timeout 30000ms\n" {
					t.Errorf("after Proclaim the node has %q, want its timeout alone", data)
				}
				want = holdersTimeout - time.Second
			}
			srv.Mute(c.SessionID(), true)
			asked := time.Now()
			err := operator.Revoke(t.Context(), lockPath, 0)
			if took := time.Since(asked); err != nil || proclaims && took < want || !proclaims && !around(took, want) {
				t.Errorf("the leader proclaims something: %v; Revoke: %v after %v, want nil after %v", proclaims, err, took, want)
			}
			srv.Mute(c.SessionID(), false)
		})
	}
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

// TestTheTimeoutIsNotShown to users. It is in each node of a revocable lock, and in no other node.
func TestTheTimeoutIsNotShown(t *testing.T) {
	all := map[string]func(*coordinator.Coordinator) acquirer{}
	for name, lock := range kindsOfLock() {
		all[name] = lock
	}
	for name, lock := range revocableKinds() {
		all["revocable "+name] = lock
	}
	all["revocable multi-lock"] = func(c *coordinator.Coordinator) acquirer {
		r := coordinator.Revocable()
		return c.Multi(c.Mutex(lockPath, r), c.Mutex(accountB, r))
	}
	for name, lock := range all {
		for _, user := range [][]byte{nil, []byte("job"), []byte("job\n")} {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(holdersTimeout))
				for range 2 { // the second one is made in a directory that is known, and together with the delete of the first
					holder := lock(c).Acquire(t.Context(), coordinator.WithData(user))
					coordtest.Soon(t, holder)
					waiter := lock(c).Acquire(t.Context(), coordinator.WithData(user))
					synctest.Wait()
					want := string(user)
					if strings.HasPrefix(name, "revocable") {
						want += "\nzkgrant-timeout 30000ms\n"
						if user == nil && name != "revocable kazoo's names" {
							want = want[1:]
						}
					}
					for node, got := range nodesOf(srv, c) {
						if got != want {
							t.Errorf("%s: %s has %q, want %q", name, node, got, want)
						}
					}
					queued, err := lock(c).(interface {
						Queue(context.Context) ([]events.Contender, error)
					}).Queue(t.Context())
					for _, contender := range queued {
						if string(contender.Data) != string(user) {
							t.Errorf("%s: the queue shows %q, want %q", name, contender.Data, user)
						}
					}
					if err != nil || len(queued) == 0 {
						t.Errorf("%s: the queue is %+v, %v; want a holder at least", name, queued, err)
					}
					waiter.Release()
					holder.Release()
				}
			})
		}
	}
}

// TestObserversAndThoseToldOfACrashSeeNoTimeout.
func TestObserversAndThoseToldOfACrashSeeNoTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := unequal(t, srv)
		seen := operator.Election(lockPath).Observe(t.Context())
		election := c.Election(lockPath, coordinator.Revocable(), coordinator.DetectCrash())
		leader := election.Campaign(t.Context(), coordinator.WithData([]byte("one")))
		coordtest.Soon(t, leader)
		said := func(want string) {
			t.Helper()
			synctest.Wait()
			if l := <-seen; string(l.Data) != want {
				t.Errorf("the observer hears %q, want %q", l.Data, want)
			}
		}
		said("one")
		eventstest.Must(t, election.Proclaim(t.Context(), leader, []byte("two")))
		said("two")
		eventstest.Must(t, srv.Expire(c.SessionID()))
		next := operator.Election(lockPath, coordinator.DetectCrash()).Campaign(t.Context())
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

// TestAReaderInTheWritersPlaceNamesItsTimeout: its node is made in another way.
func TestAReaderInTheWritersPlaceNamesItsTimeout(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(holdersTimeout))
		rw := c.ReadWrite(lockPath, coordinator.Revocable())
		writer, _ := coordtest.Hold(t, rw.Write())
		reader := rw.Read().Acquire(writer.Context(t.Context()))
		grant := coordtest.Soon(t, reader)
		if data, _ := srv.Data(grant.Node); string(data) != "zkgrant-timeout 30000ms\n" {
			t.Errorf("the reader's node has %q, want its timeout", data)
		}
		writer.Release()
		reader.Release()
	})
}

// TestRealRevokerInAHurry asks a real server for the lock of a holder with a function that does not return.
func TestRealRevokerInAHurry(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	ctx := coordtest.RealContext(t)
	const short, long = 2 * time.Second, 4 * time.Second
	root := e.Addr(0) + "/" + t.Name()
	c := coordtest.ConnectReal(t, root, coordinator.WithSessionTimeout(long))
	operator := coordtest.ConnectReal(t, root, coordinator.WithSessionTimeout(short))
	lock := c.Election(lockPath, coordinator.Revocable())
	term, end := make(chan *coordinator.Acquisition), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for a, err := range lock.Terms(ctx, coordinator.WithData([]byte("job 17"))) {
			if err != nil {
				t.Errorf("Terms: %v", err)
				return
			}
			term <- a
			<-end
			return
		}
	}()
	leader := <-term
	raw := coordtest.RawClient(t, e.Addr(0))
	node := "/" + t.Name() + leader.Grant().Node
	want := func(want string) {
		t.Helper()
		data, _, err := raw.Get(node)
		if err != nil || string(data) != want+"\nzkgrant-timeout 4000ms\n" {
			t.Errorf("the node has %q, %v; want %q and the timeout", data, err, want)
		}
		queue, err := operator.Election(lockPath).Queue(ctx)
		if err != nil || len(queue) != 1 || string(queue[0].Data) != want {
			t.Errorf("the queue is %+v, %v; want one with %q", queue, err, want)
		}
	}
	want("job 17")
	eventstest.Must(t, lock.Proclaim(ctx, leader, []byte("job 18")))
	want("job 18")
	asked := time.Now()
	if err := operator.Revoke(ctx, lockPath, 0); err != nil || time.Since(asked) < long+long/4 {
		t.Errorf("Revoke: %v after %v, want nil after %v at least", err, time.Since(asked), long+long/4)
	}
	close(end)
	<-ended
}

// TestTheTimeoutsOfManyMembersCount as a part of the request: a server drops the connection at a request that is too large, each
// time it is retried.
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
