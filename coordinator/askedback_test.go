package coordinator_test

import (
	"context"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// curatorsWish is what Curator's Revoker writes into a node.
const curatorsWish = "__REVOKE__"

// acquirer is a handle of any kind.
type acquirer interface {
	Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition
}

// kindsOfLock returns a handle for each kind of lock, at one path.
func kindsOfLock() map[string]func(*coordinator.Coordinator) acquirer {
	return map[string]func(*coordinator.Coordinator) acquirer{
		"mutex":     func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath) },
		"read":      func(c *coordinator.Coordinator) acquirer { return c.ReadWrite(lockPath).Read() },
		"write":     func(c *coordinator.Coordinator) acquirer { return c.ReadWrite(lockPath).Write() },
		"semaphore": func(c *coordinator.Coordinator) acquirer { return c.Semaphore(lockPath, 1) },
		"unfair":    func(c *coordinator.Coordinator) acquirer { return c.Unfair(lockPath) },
	}
}

// TestAWishIsNoRelease: who finds Curator's message in its node is told so once, behind its Grant, and keeps the lock; who
// waits behind it keeps waiting, and is let in when it is released.
func TestAWishIsNoRelease(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				stream := a.Events(t.Context())
				holder := lock(a).Acquire(t.Context())
				grant := coordtest.Soon(t, holder)
				behind := acquirer(b.ReadWrite(lockPath).Write())
				if name != "read" && name != "write" {
					behind = lock(b)
				}
				waiter := behind.Acquire(t.Context())
				time.Sleep(5 * time.Second) // its node is watched by now
				var told []events.Revoked
				for range 3 {
					if err := srv.SetData(grant.Node, []byte(curatorsWish)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					told = append(told, wishes(stream)...)
				}
				if !holder.Valid() || waiter.Valid() {
					t.Fatalf("holder: %v, waiter: %v", holder.Valid(), waiter.Valid())
				}
				if got, want := told, (events.Revoked{ID: holder.ID(), Path: lockPath}); len(got) != 1 || got[0] != want {
					t.Errorf("told %v, want %v once", got, want)
				}
				holder.Release()
				coordtest.Soon(t, waiter)
			})
		})
	}
}

// TestAWishBeforeTheGrantIsTold: to one that waits, and one that comes before anybody watches the node.
func TestAWishBeforeTheGrantIsTold(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := b.Events(t.Context())
		holder, grant := coordtest.Hold(t, a.Mutex(lockPath))
		waiter := coordtest.Queue(b.Mutex(lockPath))
		for _, name := range srv.Children(lockPath) {
			if node := path.Join(lockPath, name); node != grant.Node {
				if err := srv.SetData(node, []byte(curatorsWish)); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		if got := wishes(stream); len(got) != 0 {
			t.Errorf("told before it holds: %v", got)
		}
		holder.Release()
		coordtest.Soon(t, waiter)
		synctest.Wait()
		if got := wishes(stream); len(got) != 1 || got[0].ID != waiter.ID() {
			t.Errorf("told %v", got)
		}
		waiter.Release()
		<-waiter.Done()

		quick, grant := coordtest.Hold(t, b.Mutex(lockPath)) // granted in one round trip, and not watched yet
		if err := srv.SetData(grant.Node, []byte(curatorsWish)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := wishes(stream); len(got) != 1 || got[0].ID != quick.ID() || !quick.Valid() {
			t.Errorf("told %v", got)
		}
	})
}

// wishes reads the stream as far as it goes.
func wishes(stream <-chan events.Event) (all []events.Revoked) {
	for {
		synctest.Wait()
		select {
		case ev := <-stream:
			if r, ok := ev.(events.Revoked); ok {
				all = append(all, r)
			}
		default:
			return all
		}
	}
}

// TestAWishThatSomebodyElseReadFirst: of one session, the holder's node is watched by whoever waits for it, before
// the holder has it watched.
func TestAWishThatSomebodyElseReadFirst(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				usedOnce(t, lock(c))
				stream := c.Events(t.Context())
				holder := lock(c).Acquire(t.Context())
				grant := coordtest.Soon(t, holder) // in one round trip, and not watched yet
				if err := srv.SetData(grant.Node, []byte(curatorsWish)); err != nil {
					t.Fatal(err)
				}
				behind := lock(c)
				if name == "read" {
					behind = c.ReadWrite(lockPath).Write()
				}
				waiter := behind.Acquire(t.Context())
				time.Sleep(5 * time.Second)
				if got := wishes(stream); len(got) != 1 || got[0].ID != holder.ID() {
					t.Errorf("told %v, want one for %d", got, holder.ID())
				}
				holder.Release()
				coordtest.Soon(t, waiter)
				time.Sleep(5 * time.Second)
				if got := wishes(stream); len(got) != 0 {
					t.Errorf("the next one is told %v", got)
				}
			})
		})
	}
}

// TestAWishBeforeTheNodeIsFound: the reply to the create is lost, and the wish stands in the node before anybody has
// found it.
func TestAWishBeforeTheNodeIsFound(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				usedOnce(t, lock(c))
				stream := c.Events(t.Context())
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if !makes(r, name) {
						return zktest.Pass()
					}
					srv.Intercept(nil)
					return zktest.CutAfter()
				})
				holder := lock(c).Acquire(t.Context())
				synctest.Wait()
				asked := 0
				for _, node := range srv.Tree() {
					if marker(node) == name {
						asked++
						if err := srv.SetData(node, []byte(curatorsWish)); err != nil {
							t.Error(err)
						}
					}
				}
				coordtest.Soon(t, holder)
				time.Sleep(5 * time.Second)
				if got := wishes(stream); len(got) != 1 || got[0].ID != holder.ID() || asked != 1 || !holder.Valid() {
					t.Errorf("told %v of %d wishes, and holds: %v", got, asked, holder.Valid())
				}
			})
		})
	}
}

// TestAWishIsToldToThoseWhoEnterAgain: the one that holds, and the one that joins it while the wish stands.
func TestAWishIsToldToThoseWhoEnterAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		stream := c.Events(t.Context())
		outer, grant := coordtest.Hold(t, lock)
		time.Sleep(5 * time.Second)
		if err := srv.SetData(grant.Node, []byte(curatorsWish)); err != nil {
			t.Fatal(err)
		}
		if got := wishes(stream); len(got) != 1 || got[0].ID != outer.ID() {
			t.Errorf("told %v", got)
		}
		inner := lock.Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, inner)
		if got := wishes(stream); len(got) != 1 || got[0].ID != inner.ID() {
			t.Errorf("told %v", got)
		}
		if err := srv.SetData(grant.Node, []byte("somebody else's")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		coordtest.Soon(t, lock.Acquire(inner.Context(t.Context())))
		if got := wishes(stream); len(got) != 0 {
			t.Errorf("told %v, when the wish is gone", got)
		}
	})
}

// usedOnce makes the directories of a lock, so that the next one who is alone has it in one round trip.
func usedOnce(t *testing.T, lock acquirer) {
	t.Helper()
	a := lock.Acquire(t.Context())
	coordtest.Soon(t, a)
	a.Release()
	<-a.Done()
}

// makes tells whether the request makes the node that is held of a kind of lock.
func makes(r zktest.Request, kind string) bool {
	for _, part := range append(r.Parts, zktest.Part{Op: r.Op, Path: r.Path}) {
		if part.Op == zktest.OpCreate && marker(part.Path) == kind {
			return true
		}
	}
	return false
}

// marker tells of which kind of lock the node is that is held, by its path.
func marker(node string) string {
	for part, kind := range map[string]string{
		lockPath + "/_c_": "mutex", "__READ__": "read", "__WRIT__": "write", "-lease-": "semaphore",
	} {
		if strings.Contains(node, part) && (kind != "mutex" || strings.Contains(node, "-lock-")) {
			return kind
		}
	}
	if node == lockPath {
		return "unfair"
	}
	return ""
}
