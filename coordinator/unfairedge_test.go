package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestUnfairAndTheOtherKinds: a path is one kind of lock, also where another session uses it, and whatever
// stands there that is no lock is left alone.
func TestUnfairAndTheOtherKinds(t *testing.T) {
	refused := func(t *testing.T, what string, l *coordinator.Lock, want error, options ...coordinator.AcquireOption) {
		t.Helper()
		a := l.Acquire(t.Context(), options...)
		synctest.Wait()
		if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), want) {
			t.Errorf("%s: %v", what, a.Err())
		}
	}
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		mutex, _ := coordtest.Hold(t, a.Mutex(lockPath))
		refused(t, "a mutex's directory", b.Unfair(lockPath), coordinator.ErrKind)
		refused(t, "a mutex's directory, tried", b.Unfair(lockPath), coordinator.ErrKind, coordinator.Try())
		refused(t, "a mutex in one process", a.Unfair(lockPath), coordinator.ErrKind)
		unfair, _ := coordtest.Hold(t, a.Unfair(taskPath))
		refused(t, "a task as a mutex", b.Mutex(taskPath), coordinator.ErrKind)
		refused(t, "a task as a mutex, tried", b.Mutex(taskPath), coordinator.ErrKind, coordinator.Try())
		refused(t, "below a task", b.Unfair(taskPath+"/1/2"), coordinator.ErrKind)
		semaphore := b.Semaphore(taskPath, 2)
		for what, options := range map[string][]coordinator.AcquireOption{"": nil, ", tried": {coordinator.Try()}} {
			a := semaphore.Acquire(t.Context(), options...)
			synctest.Wait()
			if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), coordinator.ErrKind) {
				t.Errorf("a task as a semaphore%s: %v", what, a.Err())
			}
		}
		if err := semaphore.Resize(t.Context(), 3); !errors.Is(err, coordinator.ErrKind) {
			t.Errorf("a task resized: %v", err)
		}
		if err := srv.Create("/plain", []byte("data")); err != nil {
			t.Fatal(err)
		}
		refused(t, "somebody's node", b.Unfair("/plain"), coordinator.ErrKind)
		refused(t, "the root", b.Unfair("/"), coordinator.ErrPath)
		refused(t, "the servers' own", b.Unfair("/zookeeper/quota"), coordinator.ErrPath)
		if data, _ := srv.Data("/plain"); string(data) != "data" || !mutex.Valid() || !unfair.Valid() {
			t.Error("something was changed")
		}
		refused(t, "again, with its own context", a.Unfair(taskPath), coordinator.ErrNotAcquired, coordinator.Try())
		if _, err := a.Unfair(taskPath).Acquire(unfair.Context(t.Context())).Wait(t.Context()); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("with its own context: %v", err)
		}
	})
}

// TestUnfairNodeRemovedAtOnce: the node is deleted by hand before anybody watches it, and somebody else makes the next
// one, whose name is the same. The holder hears of it within a probe interval, and takes nothing
// from the other; a contender of its own session does not wait for that.
func TestUnfairNodeRemovedAtOnce(t *testing.T) {
	for name, same := range map[string]bool{"another session": false, "the same session": true} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a := coordtest.Connect(t, srv)
				b := a
				if !same {
					b = coordtest.Connect(t, srv)
				}
				holder, grant := coordtest.Hold(t, a.Unfair(taskPath))
				if err := srv.Delete(taskPath); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				next, after := coordtest.Hold(t, b.Unfair(taskPath))
				if took := time.Since(start); took > time.Second {
					t.Errorf("the next one waited for %v", took)
				}
				lost := <-holder.Lost()
				if took := time.Since(start); lost.Reason != events.ReasonNodeRemoved || took > time.Second {
					t.Errorf("%+v after %v", lost, took)
				}
				<-holder.Done()
				time.Sleep(20 * time.Second)
				if !next.Valid() || after.Token <= grant.Token || srv.Owner(taskPath) != after.Session {
					t.Errorf("valid %v, %+v after %+v", next.Valid(), after, grant)
				}
			})
		})
	}
}

// TestUnfairNodeRemovedUnderAFunction: the first to hear of it is a probe. The function that runs on has nothing left to
// keep for it, so nobody waits for its end, in its own session either.
func TestUnfairNodeRemovedUnderAFunction(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var once sync.Once
		srv.Intercept(func(q zktest.Request) (do zktest.Action) { // the holder's look at its node, which would be the first otherwise
			if q.Op == zktest.OpGetData && q.Path == taskPath {
				once.Do(func() { do = zktest.Fail(zktest.Throttled) })
			}
			return do
		})
		end, ended := make(chan struct{}), make(chan error)
		lost := make(chan struct{})
		go func() {
			ended <- c.Unfair(taskPath).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
				if err := srv.Delete(taskPath); err != nil {
					return err
				}
				<-ctx.Done()
				close(lost)
				<-end
				return nil
			})
		}()
		<-lost
		next := c.Unfair(taskPath).Acquire(t.Context(), coordinator.WithMaxWait(2*time.Second))
		if _, err := next.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		close(end)
		if err := <-ended; !errors.Is(err, coordinator.ErrNodeRemoved) {
			t.Error(err)
		}
		time.Sleep(20 * time.Second)
		if !next.Valid() {
			t.Error("the end of the function took the next one's node")
		}
	})
}

// TestUnfairNodeReplacedBehindItsData: somebody writes to the holder's node, and deletes it before the holder has it watched again;
// what is then there to be watched is the next holder's.
func TestUnfairNodeReplacedBehindItsData(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, grant := coordtest.Hold(t, a.Unfair(taskPath))
		time.Sleep(3 * time.Second) // the node is watched
		var once sync.Once
		srv.Intercept(func(q zktest.Request) (do zktest.Action) { // it takes a moment then
			if q.Op == zktest.OpGetData && q.Path == taskPath && q.Session == grant.Session {
				once.Do(func() { do = zktest.Fail(zktest.Throttled) })
			}
			return do
		})
		if err := srv.SetData(taskPath, []byte("look at me")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := srv.Delete(taskPath); err != nil {
			t.Fatal(err)
		}
		next, after := coordtest.Hold(t, b.Unfair(taskPath))
		time.Sleep(time.Second)
		if holder.Valid() || !next.Valid() || srv.Owner(taskPath) != after.Session {
			t.Fatalf("valid: %v, and the next one: %v", holder.Valid(), next.Valid())
		}
		if lost := <-holder.Lost(); lost.Reason != events.ReasonNodeRemoved {
			t.Errorf("%+v", lost)
		}
	})
}

// TestUnfairNodeReplacedAndSeen: it is replaced before it is watched, and somebody of the holder's session who only tries finds the next
// one there. The holder hears of it at once, and not with the next probe.
func TestUnfairNodeReplacedAndSeen(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, a.Unfair(taskPath))
		if err := srv.Delete(taskPath); err != nil {
			t.Fatal(err)
		}
		next, _ := coordtest.Hold(t, b.Unfair(taskPath))
		_, err := a.Unfair(taskPath).Acquire(t.Context(), coordinator.Try()).Wait(t.Context())
		var held *coordinator.HeldError
		if !errors.As(err, &held) || held.Holder.Session != b.SessionID() {
			t.Error(err)
		}
		synctest.Wait()
		if holder.Valid() || !next.Valid() {
			t.Errorf("valid: %v, and the next one: %v", holder.Valid(), next.Valid())
		}
	})
}

// TestUnfairNodeReplacedInAnOutage: it is deleted by hand and made anew by another while the holder has no connection. What
// the holder finds when it is back bears the name of its node.
func TestUnfairNodeReplacedInAnOutage(t *testing.T) {
	for name, watched := range map[string]bool{"watched": true, "not watched yet": false} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				holder, grant := coordtest.Hold(t, a.Unfair(taskPath))
				if watched {
					time.Sleep(3 * time.Second)
				}
				srv.Mute(grant.Session, true)
				srv.Cut(grant.Session)
				if err := srv.Delete(taskPath); err != nil {
					t.Fatal(err)
				}
				next, after := coordtest.Hold(t, b.Unfair(taskPath))
				time.Sleep(4 * time.Second)
				srv.Mute(grant.Session, false)
				if lost := <-holder.Lost(); lost.Reason != events.ReasonNodeRemoved {
					t.Errorf("%+v", lost)
				}
				<-holder.Done()
				time.Sleep(20 * time.Second)
				if !next.Valid() || srv.Owner(taskPath) != after.Session {
					t.Error("the next holder has lost it")
				}
			})
		})
	}
}

// TestUnfairOurOwnDataMayBeOverwritten: somebody writes to the holder's node. It is the holder's all
// the same, and watched as before.
func TestUnfairOurOwnDataMayBeOverwritten(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, a.Unfair(taskPath))
		waiter := coordtest.Queue(b.Unfair(taskPath))
		time.Sleep(3 * time.Second)
		for range 3 {
			if err := srv.SetData(taskPath, []byte("look at me")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if !holder.Valid() || waiter.Valid() {
			t.Fatalf("valid: %v, %v", holder.Valid(), waiter.Valid())
		}
		if err := srv.Delete(taskPath); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if holder.Valid() {
			t.Error("valid without a node")
		}
		if _, err := waiter.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestUnfairWithoutWrite: where nobody may write the nodes, it costs two requests more, and holds.
func TestUnfairWithoutWrite(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		acl := coordinator.WithACL([]zk.ACL{{Perms: zk.PermRead | zk.PermCreate | zk.PermDelete, Scheme: "world", ID: "anyone"}})
		holder, grant := coordtest.Hold(t, a.Unfair(taskPath, acl))
		waiter := coordtest.Queue(b.Unfair(taskPath, acl))
		second := coordtest.Queue(a.Unfair(taskPath, acl))
		time.Sleep(5 * time.Second)
		if !holder.Valid() || waiter.Valid() || second.Valid() {
			t.Fatal("not one holder")
		}
		holder.Release()
		time.Sleep(5 * time.Second)
		if waiter.Valid() == second.Valid() {
			t.Fatal("not one holder")
		}
		if second.Valid() {
			waiter = second
		}
		if g := <-waiter.Granted(); g.Token <= grant.Token {
			t.Errorf("%+v after %+v", g, grant)
		}
	})
}

// TestUnfairTransactions: a transaction rests on the holder's own node. What was asked for
// before the end is made before the node goes, or not at all, though the next holder's bears the same name.
func TestUnfairTransactions(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		if err := srv.Create("/state", nil); err != nil {
			t.Fatal(err)
		}
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for round := range 20 {
			holder, grant := coordtest.Hold(t, a.Unfair(taskPath))
			if _, err := holder.Txn(t.Context(), &zk.SetDataRequest{Path: "/state", Data: []byte("held"), Version: -1}); err != nil {
				t.Fatal(err)
			}
			waiter := coordtest.Queue(b.Unfair(taskPath))
			var order []string
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Session == grant.Session && (r.Op == zktest.OpDelete || len(r.Parts) > 1) {
					order = append(order, r.Op.String())
				}
				return zktest.Pass()
			})
			done := make(chan error, 10)
			for range cap(done) {
				go func() {
					_, err := holder.Txn(context.Background(), &zk.SetDataRequest{Path: "/state", Data: []byte("late"), Version: -1})
					done <- err
				}()
			}
			holder.Release()
			for range cap(done) {
				if err := <-done; err != nil && !errors.Is(err, coordinator.ErrReleased) {
					t.Errorf("round %d: %v", round, err)
				}
			}
			if _, err := waiter.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-holder.Done()
			srv.Intercept(nil)
			if i := slices.Index(order, zktest.OpDelete.String()); i < 0 || i != len(order)-1 {
				t.Fatalf("executed: %v", order)
			}
			if _, err := holder.Txn(t.Context(), &zk.SetDataRequest{Path: "/state", Data: nil, Version: -1}); !errors.Is(err, coordinator.ErrReleased) {
				t.Errorf("a past holder: %v", err)
			}
			if guard := holder.Guard(); srv.Exists(guard.Path) {
				t.Errorf("a guard that the next holder's node satisfies: %s", guard.Path)
			}
			waiter.Release()
			<-waiter.Done()
		}
	})
}

// TestUnfairDeleteWaitsForTransactions: the node is not given up before a transaction that rests on it is answered.
func TestUnfairDeleteWaitsForTransactions(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a := coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, a.Unfair(taskPath))
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if len(r.Parts) > 1 {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		done := make(chan error, 1)
		go func() {
			_, err := holder.Txn(context.Background(), &zk.CreateRequest{Path: "/made", Acl: zk.WorldACL(zk.PermAll)})
			done <- err
		}()
		synctest.Wait()
		holder.Release()
		time.Sleep(time.Second / 2)
		if !srv.Exists(taskPath) || !srv.Exists("/made") {
			t.Error("deleted while a transaction is under way")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-holder.Done()
		if srv.Exists(taskPath) {
			t.Error("not deleted")
		}
	})
}

// TestUnfairDoAndClose: Do keeps the node until the function has returned, and Close gives it back.
func TestUnfairDoAndClose(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		err := a.Unfair(taskPath).Do(t.Context(), func(ctx context.Context, g events.Grant) error {
			if err := srv.Expire(g.Session); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("%v", err)
		}
		held, _ := coordtest.Hold(t, a.Unfair(taskPath))
		waiting, paused := coordtest.Queue(a.Unfair(taskPath)), coordtest.Queue(b.Unfair(taskPath))
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if !errors.Is(held.Err(), coordinator.ErrClosed) || !errors.Is(waiting.Err(), coordinator.ErrClosed) {
			t.Errorf("%v, %v", held.Err(), waiting.Err())
		}
		if err := b.Close(); err != nil { // it pauses
			t.Error(err)
		}
		if !coordtest.IsClosed(paused.Done()) || srv.Exists(taskPath) {
			t.Error("something is left")
		}
	})
}

// TestUnfairParentsComeAndGo: the parents are containers, which the server removes when they are empty.
func TestUnfairParentsComeAndGo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a := coordtest.Connect(t, srv)
		for range 3 {
			holder, _ := coordtest.Hold(t, a.Unfair("/deep/tasks/of/mine"))
			holder.Release()
			<-holder.Done()
			for srv.Reap() > 0 {
			}
			if srv.Exists("/deep") {
				t.Fatal("a parent is left")
			}
		}
	})
}
