package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// grace is the time that holders get here.
const grace = 3 * time.Second

// patience is how long after the grace a holder is removed: the session timeout, and a quarter of it.
const patience = timeoutOfAll + timeoutOfAll/4

// timeoutOfAll is the session timeout, unless a test says otherwise.
const timeoutOfAll = 10 * time.Second

// revocableKinds returns a handle for each kind of lock that can be asked for, at one path.
func revocableKinds() map[string]func(*coordinator.Coordinator) acquirer {
	r := coordinator.Revocable()
	return map[string]func(*coordinator.Coordinator) acquirer{
		"mutex":           func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath, r) },
		"reentrant mutex": func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath, r, coordinator.Reentrant()) },
		"read":            func(c *coordinator.Coordinator) acquirer { return c.ReadWrite(lockPath, r).Read() },
		"write":           func(c *coordinator.Coordinator) acquirer { return c.ReadWrite(lockPath, r).Write() },
		"semaphore":       func(c *coordinator.Coordinator) acquirer { return c.Semaphore(lockPath, 1, r) },
		"kazoo's names":   func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath, r, coordinator.AsKazoo()) },
		"election":        func(c *coordinator.Coordinator) acquirer { return campaigner{c.Election(lockPath, r)} },
	}
}

// revoking has the coordinator revoke the lock.
func revoking(ctx context.Context, c *coordinator.Coordinator, grace time.Duration) <-chan error {
	result := make(chan error, 1)
	go func() { result <- c.Revoke(ctx, lockPath, grace) }()
	return result
}

// around tells whether a time has passed, within a tenth of the session timeout. A node may not be watched for that long.
func around(got, want time.Duration) bool {
	return got >= want-10*time.Millisecond && got <= want+timeoutOfAll/10+100*time.Millisecond
}

// dataOfHolder returns the data of the holder in the queue.
func dataOfHolder(t *testing.T, c *coordinator.Coordinator, kind string) string {
	t.Helper()
	look := c.Mutex(lockPath).Queue
	switch kind {
	case "read", "write":
		look = c.ReadWrite(lockPath).Queue
	case "semaphore":
		look = c.Semaphore(lockPath, 1).Queue
	}
	queue, err := look(t.Context())
	if err != nil || len(queue) == 0 || !queue[0].Holding {
		t.Fatalf("the queue is %+v, %v; want a holder at its head", queue, err)
	}
	return string(queue[0].Data)
}

// TestAProclamationDoesNotOverruleAWish: the leader overwrites it, and hears of the time that is left, which has not changed.
func TestAProclamationDoesNotOverruleAWish(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		seen := operator.Election(lockPath).Observe(t.Context())
		election := c.Election(lockPath, coordinator.Revocable())
		leader := election.Campaign(t.Context(), coordinator.WithData([]byte("one")))
		grant := coordtest.Soon(t, leader)
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		if err := election.Proclaim(t.Context(), leader, []byte("two")); err != nil {
			t.Errorf("Proclaim while a wish stands: %v, want nil", err)
		}
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
		if err := <-done; err != nil || time.Since(asked) != grace {
			t.Errorf("Revoke: %v after %v, want nil after %v", err, time.Since(asked), grace)
		}
	})
}

// stranger returns a function that makes nodes of another client's session. They go with it.
func stranger(t *testing.T, srv *zktest.Server) (create func(node string, data []byte) error) {
	t.Helper()
	a, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex("/elsewhere"))
	return func(node string, data []byte) error {
		if dir := path.Dir(node); !srv.Exists(dir) {
			if err := srv.Create(dir, nil); err != nil {
				return err
			}
		}
		_, err := a.Txn(t.Context(), &zk.CreateRequest{Path: node, Data: data, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
		return err
	}
}

// TestHoldersOfOtherLibrariesAreAskedInTheirWayAndThenRemoved, if they do not react.
func TestHoldersOfOtherLibrariesAreAskedInTheirWayAndThenRemoved(t *testing.T) {
	for _, node := range []string{
		"_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000007", "leases/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lease-0000000007",
		"lock-0000000007", "4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000007", "x-72057594037927936-0000000007",
		"_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-__READ__0000000007",
	} {
		for _, hears := range []bool{true, false} {
			t.Run(node+map[bool]string{true: ", which hears"}[hears], func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					node := path.Join(lockPath, node)
					eventstest.Must(t, stranger(t, srv)(node, []byte("theirs")))
					asked := time.Now()
					done := revoking(t.Context(), c, grace)
					time.Sleep(time.Second)
					if data, _ := srv.Data(node); string(data) != curatorsWish {
						t.Errorf("a second after the wish the node has %q, want %q", data, curatorsWish)
					}
					took := grace + patience
					if hears {
						took = 2 * time.Second
						time.Sleep(time.Second)
						if err := srv.Delete(node); err != nil {
							t.Error(err)
						}
					}
					if err := <-done; err != nil || !around(time.Since(asked), took) || srv.Exists(node) {
						t.Errorf("Revoke: %v after %v, the node there: %v; want nil after %v, and no node",
							err, time.Since(asked), srv.Exists(node), took)
					}
				})
			})
		}
	}
}

// TestANodeThatBearsTheNameOfAnotherIsLeftAlone: names without a GUID come again.
func TestANodeThatBearsTheNameOfAnotherIsLeftAlone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		node := lockPath + "/lock-0000000000"
		create := stranger(t, srv)
		eventstest.Must(t, create(node, nil))
		done := revoking(t.Context(), c, grace)
		time.Sleep(time.Second)
		srv.Lag(c.SessionID(), true)
		for _, err := range []error{srv.Delete(node), create(node, []byte("another"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		srv.Lag(c.SessionID(), false)
		if err := <-done; err != nil {
			t.Errorf("Revoke: %v, want nil", err)
		}
		time.Sleep(time.Minute)
		if data, ok := srv.Data(node); !ok || string(data) != "another" {
			t.Errorf("the other node of the name has %q, there: %v; want it untouched", data, ok)
		}
	})
}

// TestAHolderThatIsCutOffLosesTheLockBeforeItIsRemoved:
//
//  1. The holder has held for less than a probe interval, so it has not looked at its node when it is asked.
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
			long := coordinator.WithSessionTimeout(timeout)
			c, operator, other := coordtest.Connect(t, srv, long), coordtest.Connect(t, srv, coordinator.WithSessionTimeout(asks)), coordtest.Connect(t, srv)
			coordtest.Warm(t, c, other)
			holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
			next := coordtest.Queue(other.Mutex(lockPath))
			done := make(chan error, 1)
			go func() { done <- operator.Revoke(t.Context(), lockPath, 0) }()
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
			if _, err := next.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if holder.Valid() {
				t.Errorf("cut off after %v, asked by a session of %v: the holder is valid beside the next one, for another %v; want it lost",
					cut, asks, time.Until(holder.Deadline()))
			}
			if err := <-done; err != nil {
				t.Errorf("cut off after %v, asked by a session of %v, Revoke: %v, want nil", cut, asks, err)
			}
			holder.Release()
			next.Release()
			srv.Mute(c.SessionID(), false)
		})
	}
}

// TestAMultiLockThatIsRevokedWhileItWaitsElsewhereQueuesAgain: it is the first at the path, so it counts as a holder. Without a
// Grant it is not told of the wish. At the end it loses its places, and queues behind the contender that has come meanwhile.
func TestAMultiLockThatIsRevokedWhileItWaitsElsewhereQueuesAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		inTheWay, _ := coordtest.Hold(t, other.Mutex(accountB))
		stream := c.Events(t.Context())
		all := coordtest.Queue(c.Multi(c.Mutex(accountA, coordinator.Revocable()), c.Mutex(accountB, coordinator.Revocable())))
		next := coordtest.Queue(other.Mutex(accountA))
		asked := time.Now()
		if err := operator.Revoke(t.Context(), accountA, grace); err != nil || !around(time.Since(asked), grace+patience) {
			t.Fatalf("Revoke: %v after %v, want nil after %v", err, time.Since(asked), grace+patience)
		}
		coordtest.Soon(t, next)
		if n := heard[events.Requeued](stream); n != 1 {
			t.Errorf("Requeued came %d times, want once", n)
		}
		inTheWay.Release()
		next.Release()
		coordtest.Soon(t, all)
		all.Release()
	})
}

// TestNoReentryAfterARevocation:
//
//  1. A holder is asked to give its lock back by a deadline.
//  2. The session is busy (here: with a slow logger).
//  3. The holder asks for the lock once more, and does not read the Grant.
//  4. The deadline comes, and the lock is lost. The Grant of 3 is taken back before the holder hears of that.
//
// A Grant that comes all the same is of another node. If the lock reports crashes, it tells of this one.
func TestNoReentryAfterARevocation(t *testing.T) {
	for _, do := range []bool{false, true} {
		for _, detect := range []bool{false, true} {
			t.Run(fmt.Sprintf("do %v, tells of crashes %v", do, detect), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					logger := zap.New(
						zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.WarnLevel),
						zap.Hooks(func(e zapcore.Entry) error {
							if strings.HasPrefix(e.Message, "connection lost") {
								time.Sleep(2 * time.Second)
							}
							return nil
						}))
					c, operator := coordtest.Connect(t, srv, coordinator.WithLogger(logger)), coordtest.Connect(t, srv)
					options := []coordinator.LockOption{coordinator.Reentrant(), coordinator.Revocable()}
					if detect {
						options = append(options, coordinator.DetectCrash())
					}
					lock := c.Mutex(lockPath, options...)
					body := func(ctx context.Context, a *coordinator.Acquisition, outer events.Grant) {
						time.Sleep(5 * time.Second) // it is watched by now
						revoking(t.Context(), operator, grace)
						time.Sleep(grace - time.Second)
						srv.Cut(c.SessionID())
						time.Sleep(500 * time.Millisecond)
						if !a.Valid() {
							t.Fatal("a moment before the deadline the lock is lost, want it held")
						}
						inner := lock.Acquire(context.WithoutCancel(ctx))
						<-a.Lost()
						select {
						case g := <-inner.Granted():
							if g.Node == outer.Node || detect && g.Abandoned == nil {
								t.Errorf("granted after the loss: %+v, want another node, and to be told of the crash", g)
							}
						case <-inner.Done():
						case <-time.After(5 * time.Second): // waits behind the node of the function
						}
						inner.Release()
					}
					if do {
						_ = lock.Do(t.Context(), func(ctx context.Context, g events.Grant) error {
							a, _ := coordinator.FromContext(ctx)
							body(ctx, a, g)
							return nil
						})
					} else {
						a, g := coordtest.Hold(t, lock)
						body(a.Context(t.Context()), a, g)
						a.Release()
					}
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// curatorsWish is what Curator's Revoker writes into a node.
const curatorsWish = "__REVOKE__"

// TestRealRevoke asks holders at one server of a real ensemble for their locks through another server.
func TestRealRevoke(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 3)
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := coordtest.RealContext(t)
			c, operator := coordtest.ConnectReal(t, e.Addr(0)+"/"+t.Name()), coordtest.ConnectReal(t, e.Addr(1)+"/"+t.Name())
			if err := operator.Revoke(ctx, lockPath, 0); !errors.Is(err, coordinator.ErrNotHeld) {
				t.Errorf("Revoke of a free lock: %v, want ErrNotHeld", err)
			}
			stream := c.Events(ctx)
			holder := lock(c).Acquire(ctx, coordinator.WithData([]byte("job 17")))
			coordtest.GrantOf(t, holder)
			waiter := lock(operator).Acquire(ctx)
			if name == "read" {
				waiter = operator.ReadWrite(lockPath, coordinator.Revocable()).Write().Acquire(ctx)
			}
			const grace = time.Second
			asked := time.Now()
			done := revoking(ctx, operator, grace)
			var told events.Revoked
			for told == (events.Revoked{}) {
				if r, ok := (<-stream).(events.Revoked); ok {
					told = r
				}
			}
			if told.ID != holder.ID() || told.Deadline.Before(asked.Add(grace)) {
				t.Errorf("told %+v, asked at %v; want %d, and a deadline %v later", told, asked, holder.ID(), grace)
			}
			if got := dataOfHolder(t, operator, name); got != "job 17" {
				t.Errorf("the queue shows %q, want %q", got, "job 17")
			}
			lost := <-holder.Lost()
			if lost.Reason != events.ReasonRevoked || time.Now().Before(told.Deadline) {
				t.Errorf("told of %+v by %v, want that it was revoked, and not before the deadline", lost, told.Deadline)
			}
			coordtest.GrantOf(t, waiter)
			if err := <-done; err != nil {
				t.Errorf("Revoke: %v, want nil", err)
			}
			t.Logf("told by %v, and back after %v", told.Deadline.Sub(asked), time.Since(asked))
			coordtest.End(waiter)
		})
	}
	t.Run("by force", func(t *testing.T) {
		t.Parallel()
		ctx := coordtest.RealContext(t)
		const timeout, grace = 4 * time.Second, 500 * time.Millisecond
		brief := coordinator.WithSessionTimeout(timeout)
		c, operator := coordtest.ConnectReal(t, e.Addr(0)+"/force", brief), coordtest.ConnectReal(t, e.Addr(2)+"/force", brief)
		began, end := make(chan events.Grant, 1), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- c.Semaphore(lockPath, 3, coordinator.Revocable()).Do(ctx, func(_ context.Context, g events.Grant) error {
				began <- g
				<-end
				return nil
			}, coordinator.WithPermits(3))
		}()
		<-began
		asked := time.Now()
		if err := operator.Revoke(ctx, lockPath, grace); err != nil || time.Since(asked) < timeout+grace {
			t.Errorf("Revoke: %v after %v, want nil after %v at least", err, time.Since(asked), timeout+grace)
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

// TestDeadlineEndsWithTheGrace: for every kind of lock, once the holder was told, Deadline is no later than the deadline of the
// revocation, though the lease goes on for longer.
func TestDeadlineEndsWithTheGrace(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				held := lock(a).Acquire(t.Context())
				coordtest.Soon(t, held)
				time.Sleep(2 * timeoutOfAll) // its node is watched by now
				lease := time.Until(held.Deadline())
				done := revoking(t.Context(), operator, grace)
				time.Sleep(time.Millisecond)
				if got := time.Until(held.Deadline()); got > grace || got < grace-10*time.Millisecond || lease <= grace {
					t.Errorf("a millisecond after a Revoke within %v Deadline is in %v, want the same; the lease was %v", grace, got, lease)
				}
				<-held.Lost()
				if err := <-done; err != nil {
					t.Errorf("Revoke: %v, want nil", err)
				}
			})
		})
	}
}
