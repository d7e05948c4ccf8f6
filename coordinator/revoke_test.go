package coordinator_test

import (
	"context"
	"errors"
	"net"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	// grace is the time that holders get here.
	grace = 3 * time.Second
	// patience is how long after the grace a holder is removed: the session timeout, and
	// a quarter of it.
	patience = timeoutOfAll + timeoutOfAll/4
	// timeoutOfAll is the session timeout, unless a test says otherwise.
	timeoutOfAll = 10 * time.Second
	// curatorsWish is what Curator's Revoker writes into a node.
	curatorsWish = "__REVOKE__"
)

// revoking has the coordinator revoke the lock.
func revoking(ctx context.Context, c *coordinator.Coordinator, grace time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() { result <- c.Revoke(ctx, lockPath, grace) }()
	return result
}

// around reports whether a time has passed, within a tenth of the session timeout. A node
// may not be watched for that long.
func around(got, want time.Duration) bool {
	return got >= want-10*time.Millisecond && got <= want+timeoutOfAll/10+100*time.Millisecond
}

// wantRevoked checks that Revoke returns nil, so long after it was called.
func wantRevoked(t *testing.T, done <-chan error, asked time.Time, took time.Duration) {
	t.Helper()
	if err := <-done; err != nil || !around(time.Since(asked), took) {
		t.Errorf("Revoke: %v after %v, want nil after %v", err, time.Since(asked), took)
	}
}

// TestAProclamationDoesNotOverruleAWish: the leader overwrites it, and hears of the time
// that is left, which has not changed.
func TestAProclamationDoesNotOverruleAWish(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		seen := operator.Election(lockPath).Observe(t.Context())
		election := c.Election(lockPath, coordinator.Revocable())
		leader := election.Acquire(t.Context(), coordinator.Data([]byte("one")))
		grant := coordtest.Soon(t, leader)
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		eventstest.Check(t, leader.SetData(t.Context(), []byte("two")))
		time.Sleep(time.Second)
		if data, _ := srv.Data(grant.Node); string(data) != "__REVOKE__ 2000\ntwo\nzkgrant-timeout 10000ms\n" {
			t.Errorf("the proclaimed node has %q, want the wish with 2000 ms left, the word, and the timeout", data)
		}
		if said := <-seen; string(said.Data) != "two" {
			t.Errorf("the observer hears %+v, want the word alone", said)
		}
		if told := wishes(stream); len(told) != 1 {
			t.Errorf("the leader is told %+v, want one wish", told)
		}
		wantRevoked(t, done, asked, grace)
	})
}

// stranger returns a function that makes nodes of another client's session. They go with
// it.
func stranger(t *testing.T, srv *zktest.Server) (create func(node string, data []byte) error) {
	t.Helper()
	raw := coordtest.Admin(t, srv.Addr(), srv.DialContext)
	return func(node string, data []byte) error {
		if dir := path.Dir(node); !srv.Exists(dir) {
			if err := srv.Create(dir, nil); err != nil {
				return err
			}
		}
		_, err := raw.Create(node, data, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}
}

// TestHoldersOfOtherLibrariesAreAskedInTheirWayAndThenRemoved, if they do not react.
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
			eventstest.Must(t, create(node, []byte("theirs")))
			asked, took := time.Now(), grace+patience
			done := revoking(t.Context(), c, grace)
			time.Sleep(time.Second)
			if data, _ := srv.Data(node); string(data) != curatorsWish {
				t.Errorf("a second after the wish the node has %q, want %q", data, curatorsWish)
			}
			if hears {
				took = 2 * time.Second
				time.Sleep(time.Second)
				eventstest.Must(t, srv.Delete(node))
			}
			if wantRevoked(t, done, asked, took); srv.Exists(node) {
				t.Errorf("the holder hears: %v; after Revoke its node is there, want it gone", hears)
			}
		}
	})
}

// TestANodeThatBearsTheNameOfAnotherIsLeftAlone: names without a GUID come again.
func TestANodeThatBearsTheNameOfAnotherIsLeftAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const node = lockPath + "/lock-0000000000"
		c, create := coordtest.Connect(t, srv), stranger(t, srv)
		eventstest.Must(t, create(node, nil))
		done := revoking(t.Context(), c, grace)
		time.Sleep(time.Second)
		srv.Lag(c.SessionID(), true)
		eventstest.Must(t, srv.Delete(node))
		eventstest.Must(t, create(node, []byte("another")))
		srv.Lag(c.SessionID(), false)
		eventstest.Check(t, <-done)
		time.Sleep(time.Minute)
		if data, ok := srv.Data(node); !ok || string(data) != "another" {
			t.Errorf("the other node of the name has %q, there: %v; want it untouched", data, ok)
		}
	})
}

// TestAHolderThatIsCutOffLosesTheLockBeforeItIsRemoved:
//
//  1. The holder has held for less than a probe interval, so it has not looked at its
//     node when it is asked.
//  2. Its session writes for another lock, so its lease goes on.
//  3. It is cut off.
//
// The revoker's timeout is the same, or much shorter.
func TestAHolderThatIsCutOffLosesTheLockBeforeItIsRemoved(t *testing.T) {
	const timeout = 40 * time.Second // with the ticks of 2 s, of which a lease pays for, that is a long one
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
			const apart = 1300 * time.Millisecond // more than half a tick: the first write counts when the second is answered
			time.Sleep(cut - apart)
			for i := range 2 {
				if i > 0 {
					time.Sleep(apart)
				}
				if holder.Valid() {
					another, _ := coordtest.Hold(t, c.Mutex("/another"))
					coordtest.End(another)
				}
			}
			srv.Mute(c.SessionID(), true)
			wantOneValid(t, holder, next)
			if err := <-done; err != nil {
				t.Errorf("cut off after %v, asked by a session of %v, Revoke: %v, want nil", cut, asks, err)
			}
			holder.Release()
			next.Release()
			srv.Mute(c.SessionID(), false)
		})
	}
}

// TestRealRevoke removes holders that do not react, at one server of a real ensemble, through another server. The
// scenes have those that do, of every kind.
func TestRealRevoke(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	t.Run("by force", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, grace = 4 * time.Second, 500 * time.Millisecond // the holder's timeout counts, and not the revoker's
		c := coordtest.ConnectReal(t, e.Addr(0)+"/force", coordinator.WithSessionTimeout(timeout))
		operator := coordtest.ConnectReal(t, e.Addr(2)+"/force", coordinator.WithSessionTimeout(timeout/2))
		began, end := make(chan events.Grant, 1), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- c.Semaphore(lockPath, 3, coordinator.Revocable()).Do(ctx, func(_ context.Context, g events.Grant) error {
				began <- g
				<-end
				return nil
			}, coordinator.Permits(3))
		}()
		<-began
		asked := time.Now()
		if err := operator.Revoke(ctx, lockPath, grace); err != nil || time.Since(asked) < grace+timeout+timeout/4 {
			t.Errorf("Revoke: %v after %v, want nil after %v at least",
				err, time.Since(asked), grace+timeout+timeout/4)
		}
		if queue, err := operator.Semaphore(lockPath, 3).Queue(ctx); err != nil || len(queue) > 0 {
			t.Errorf("after Revoke the queue is %+v, %v; want none", queue, err)
		}
		close(end)
		if err := <-ended; !errors.Is(err, coordinator.ErrRevoked) {
			t.Errorf("Do = %v, want ErrRevoked", err)
		}
	})
	t.Run("of another library", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, path = 2 * time.Second, "/foreign"
		operator := coordtest.ConnectReal(t, e.Addr(2), coordinator.WithSessionTimeout(timeout))
		stock := zk.NewLock(coordtest.Admin(t, e.Addr(1), new(net.Dialer).DialContext), path, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, stock.Lock())
		asked := time.Now()
		if err := operator.Revoke(ctx, path, 0); err != nil || time.Since(asked) < timeout {
			t.Errorf("Revoke: %v after %v, want nil after %v at least", err, time.Since(asked), timeout)
		}
		coordtest.Hold(t, operator.Mutex(path))
	})
}

// TestDeadlineEndsWithTheGrace: for every kind of lock, once the holder was told,
// Deadline is no later than the deadline of the revocation, though the lease goes on for
// longer.
func TestDeadlineEndsWithTheGrace(t *testing.T) {
	forEach(t, revocableKinds(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
		a, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		held := lock.of(a).Acquire(t.Context())
		coordtest.Soon(t, held)
		time.Sleep(2 * timeoutOfAll) // its node is watched by now
		lease := time.Until(held.Deadline())
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Millisecond)
		if got := time.Until(held.Deadline()); got > grace || got < grace-10*time.Millisecond || lease <= grace {
			t.Errorf("a millisecond after a Revoke within %v Deadline is in %v, want the same; the lease was %v",
				grace, got, lease)
		}
		<-held.Lost()
		eventstest.Check(t, <-done)
	})
}
