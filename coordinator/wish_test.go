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
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

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

// TestAWishIsNoRelease: a holder that finds Curator's message in its node is told so once, after its Grant, and keeps the lock. The
// waiter behind it goes on waiting, and is granted the lock after the release.
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
					eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsWish)))
					time.Sleep(time.Second)
					told = append(told, wishes(stream)...)
				}
				if !holder.Valid() || waiter.Valid() {
					t.Fatalf("after three wishes the holder is valid: %v, the waiter: %v; want the holder alone",
						holder.Valid(), waiter.Valid())
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

// TestAWishBeforeTheGrantIsTold: a wish to a waiter, and a wish that comes before the node is watched.
func TestAWishBeforeTheGrantIsTold(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := b.Events(t.Context())
		holder, grant := coordtest.Hold(t, a.Mutex(lockPath))
		waiter := coordtest.Queue(b.Mutex(lockPath))
		for _, name := range srv.Children(lockPath) {
			if node := path.Join(lockPath, name); node != grant.Node {
				eventstest.Must(t, srv.SetData(node, []byte(curatorsWish)))
			}
		}
		synctest.Wait()
		if got := wishes(stream); len(got) != 0 {
			t.Errorf("told %v before it holds, want nothing", got)
		}
		holder.Release()
		coordtest.Soon(t, waiter)
		synctest.Wait()
		if got := wishes(stream); len(got) != 1 || got[0].ID != waiter.ID() {
			t.Errorf("after its grant the waiter is told %v, want one wish to %d", got, waiter.ID())
		}
		coordtest.End(waiter)

		quick, grant := coordtest.Hold(t, b.Mutex(lockPath)) // granted in one round trip, and not watched yet
		eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsWish)))
		time.Sleep(5 * time.Second)
		if got := wishes(stream); len(got) != 1 || got[0].ID != quick.ID() || !quick.Valid() {
			t.Errorf("told %v of a wish to a node that is not watched yet, want one to %d, which holds", got, quick.ID())
		}
	})
}

// wishes reads the stream until it is empty.
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

// TestAWishThatAWaiterReadsFirst: a waiter of the same session watches the holder's node before the holder has it watched.
func TestAWishThatAWaiterReadsFirst(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				holdAgainAndAgain(t, lock(c), 1) // and its directories are made
				stream := c.Events(t.Context())
				holder := lock(c).Acquire(t.Context())
				grant := coordtest.Soon(t, holder) // in one round trip, and not watched yet
				eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsWish)))
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
					t.Errorf("the next one is told %v, want nothing", got)
				}
			})
		})
	}
}

// TestAWishBeforeTheNodeIsFound: the reply to the create is lost, and the wish is in the node before the session has found it.
func TestAWishBeforeTheNodeIsFound(t *testing.T) {
	for name, lock := range kindsOfLock() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				holdAgainAndAgain(t, lock(c), 1) // and its directories are made
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
					t.Errorf("told %v of %d wishes, and holds: %v; want one of one, and that it holds", got, asked, holder.Valid())
				}
			})
		})
	}
}

// TestAWishIsToldToEachReentry: to the holder, and to an acquisition that enters again later, also when other data have taken the wish's
// place by then: all that hold the lock have heard the same.
func TestAWishIsToldToEachReentry(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		stream := c.Events(t.Context())
		outer, grant := coordtest.Hold(t, lock)
		time.Sleep(5 * time.Second)
		eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsWish)))
		if got := wishes(stream); len(got) != 1 || got[0].ID != outer.ID() {
			t.Errorf("told %v, want one wish to %d, which holds", got, outer.ID())
		}
		inner := lock.Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, inner)
		if got := wishes(stream); len(got) != 1 || got[0].ID != inner.ID() {
			t.Errorf("told %v, want one wish to %d, which entered", got, inner.ID())
		}
		eventstest.Must(t, srv.SetData(grant.Node, []byte("somebody else's")))
		time.Sleep(time.Second)
		third := lock.Acquire(inner.Context(t.Context()))
		coordtest.Soon(t, third)
		if got := wishes(stream); len(got) != 1 || got[0].ID != third.ID() {
			t.Errorf("told %v when other data stand in the node, want one wish to %d", got, third.ID())
		}
	})
}

// makes tells whether the request makes the node that a holder of the kind of lock has.
func makes(r zktest.Request, kind string) bool {
	for _, part := range append(r.Parts, zktest.Part{Op: r.Op, Path: r.Path}) {
		if part.Op == zktest.OpCreate && marker(part.Path) == kind {
			return true
		}
	}
	return false
}

// marker returns the kind of lock of a holder's node, by its path.
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

// TestTheHolderReadsTheNewestWish: Revoked has room for one wish. A sooner wish replaces an unread one, and Deadline is no later
// than it. After a release an unread wish is gone.
func TestTheHolderReadsTheNewestWish(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playWishes(t, onTheDouble(t, srv), lock) })
		})
	}
}

// TestRealTheHolderReadsTheNewestWish is the same on a real server.
func TestRealTheHolderReadsTheNewestWish(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) { playWishes(t, onARealServer(t), lock) })
	}
}

func playWishes(t *testing.T, s *site, lock func(*coordinator.Coordinator) acquirer) {
	t.Helper()
	ctx := coordtest.RealContext(t)
	operator, c := s.connect(), s.connect()
	stream := c.Events(ctx)
	a := lock(c).Acquire(ctx)
	coordtest.GrantOf(t, a)
	var revokes []<-chan error
	revoke := func(grace time.Duration) (told events.Revoked) {
		t.Helper()
		revokes = append(revokes, revoking(ctx, operator, grace))
		for ok := false; !ok; {
			told, ok = eventstest.Receive(t, stream, "the wish on the stream").(events.Revoked)
		}
		if deadline := a.Deadline(); deadline.After(told.Deadline) { // and it is in the channel by now
			t.Errorf("asked to give the lock back within %v Deadline is %v, want none after %v", grace, deadline, told.Deadline)
		}
		return told
	}
	wantRead := func(when string, want events.Revoked) {
		t.Helper()
		select {
		case got := <-a.Revoked():
			if got != want {
				t.Errorf("%s Revoked has %+v, want %+v", when, got, want)
			}
		default:
			t.Errorf("%s nothing can be read from Revoked, want %+v", when, want)
		}
		if n := len(a.Revoked()); n != 0 {
			t.Errorf("%s %d wishes can be read after it, want none", when, n)
		}
	}
	wantRead("after a first wish", revoke(2*time.Hour))
	revoke(time.Hour)
	wantRead("after two unread wishes", revoke(timeoutOfAll/2))
	revoke(timeoutOfAll / 4)
	a.Release()
	if n := len(a.Revoked()); n != 0 {
		t.Errorf("%d wishes can be read after Release, want none", n)
	}
	for i, done := range revokes {
		if err := eventstest.Receive(t, done, "the end of Revoke"); err != nil {
			t.Errorf("Revoke %d of a lock that was released in time: %v, want nil", i, err)
		}
	}
}
