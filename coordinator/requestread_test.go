package coordinator_test

import (
	"slices"
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

// handle is a handle of any kind.
type handle = coordinator.Handle

// lockKind is a kind of lock at lockPath.
type lockKind struct {
	name string
	of   func(c *coordinator.Coordinator) handle
}

// behind returns a handle that waits for a holder of this kind.
func (k lockKind) behind(c *coordinator.Coordinator) handle {
	if k.name == "read" {
		return c.ReadWrite(lockPath, coordinator.Revocable()).Write()
	}
	return k.of(c)
}

// kindsOf returns each kind of lock that can have these options.
func kindsOf(options ...coordinator.LockOption) map[string]lockKind {
	reentrant := append(slices.Clone(options), coordinator.Reentrant())
	asKazoo := append(slices.Clone(options), coordinator.AsKazoo())
	all := map[string]lockKind{}
	for name, of := range map[string]func(c *coordinator.Coordinator) handle{
		"mutex":           func(c *coordinator.Coordinator) handle { return c.Mutex(lockPath, options...) },
		"reentrant mutex": func(c *coordinator.Coordinator) handle { return c.Mutex(lockPath, reentrant...) },
		"kazoo's names":   func(c *coordinator.Coordinator) handle { return c.Mutex(lockPath, asKazoo...) },
		"read":            func(c *coordinator.Coordinator) handle { return c.ReadWrite(lockPath, options...).Read() },
		"write":           func(c *coordinator.Coordinator) handle { return c.ReadWrite(lockPath, options...).Write() },
		"semaphore":       func(c *coordinator.Coordinator) handle { return c.Semaphore(lockPath, 1, options...) },
		"election":        func(c *coordinator.Coordinator) handle { return c.Election(lockPath, options...) },
		"unfair":          func(c *coordinator.Coordinator) handle { return c.Unfair(lockPath) },
	} {
		if name != "unfair" || len(options) == 0 {
			all[name] = lockKind{name, of}
		}
	}
	return all
}

// revocableKinds returns each kind of lock that can be revoked.
func revocableKinds() map[string]lockKind { return kindsOf(coordinator.Revocable()) }

// revocations reads the stream until it is empty, and returns its revocation requests.
func revocations(stream <-chan events.Event) (all []events.Revoked) {
	for _, ev := range told(stream) {
		if r, ok := ev.(events.Revoked); ok {
			all = append(all, r)
		}
	}
	return all
}

// wantTold checks for which acquisitions the stream has reported a revocation request
// without a deadline since it was last read.
func wantTold(t *testing.T, stream <-chan events.Event, when string, asked ...*coordinator.Acquisition) {
	t.Helper()
	var want []events.Revoked
	for _, a := range asked {
		want = append(want, events.Revoked{ID: a.ID(), Path: lockPath})
	}
	got := revocations(stream)
	expect(t, slices.Equal(got, want), "%s the stream tells of the revocations %+v, want %+v", when, got, want)
}

// TestARevocationIsNoRelease: a holder that finds Curator's message in its node is
// notified once, after its Grant, and keeps the lock. These locks are not revocable, so
// no message sets a deadline.
func TestARevocationIsNoRelease(t *testing.T) {
	forEach(t, kindsOf(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := a.Events(t.Context())
		holder, grant := coordtest.Hold(t, lock.of(a))
		waiter := lock.behind(b).Acquire(t.Context())
		time.Sleep(5 * time.Second) // by now its node is watched
		told := []*coordinator.Acquisition{holder}
		for _, revocation := range []string{"__REVOKE__ 0\n", curatorsRequest, curatorsRequest} {
			eventstest.Must(t, srv.SetData(grant.Node, []byte(revocation)))
			time.Sleep(time.Minute)
			wantTold(t, stream, "a minute after a revocation", told...)
			told = nil // only the first request is reported
		}
		expect(t, holder.Valid() && !waiter.Valid(), "after three revocations the holder is valid: %v, the waiter: %v; "+
			"want the holder alone", holder.Valid(), waiter.Valid())
		holder.Release()
		coordtest.Soon(t, waiter)
	})
}

// TestARevocationBeforeTheGrantIsTold tests a revocation request for a waiter, and one
// that arrives before the node is watched.
func TestARevocationBeforeTheGrantIsTold(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := b.Events(t.Context())
		holder, _ := coordtest.Hold(t, a.Mutex(lockPath))
		waiter := coordtest.Queue(b.Mutex(lockPath))
		for node := range nodesOf(srv, b) {
			eventstest.Must(t, srv.SetData(node, []byte(curatorsRequest)))
		}
		wantTold(t, stream, "before its grant")
		holder.Release()
		coordtest.Soon(t, waiter)
		wantTold(t, stream, "after its grant", waiter)
		coordtest.End(waiter)

		quick, grant := coordtest.Hold(t, b.Mutex(lockPath)) // granted in one round trip, and not watched yet
		eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsRequest)))
		time.Sleep(5 * time.Second)
		wantTold(t, stream, "when the node is watched", quick)
		coordtest.NotLost(t, quick)
	})
}

// TestARevocationThatAWaiterReadsFirst: a waiter of the same session watches the holder's
// node before the holder's own watch is set.
func TestARevocationThatAWaiterReadsFirst(t *testing.T) {
	forEach(t, kindsOf(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
		c := coordtest.Connect(t, srv)
		holdAgainAndAgain(t, lock.of(c), 1) // creates its directories
		stream := c.Events(t.Context())
		holder := lock.of(c).Acquire(t.Context())
		grant := coordtest.Soon(t, holder) // in one round trip, so not watched yet
		eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsRequest)))
		waiter := lock.behind(c).Acquire(t.Context())
		time.Sleep(5 * time.Second)
		wantTold(t, stream, "while one waits", holder)
		holder.Release()
		coordtest.Soon(t, waiter)
		time.Sleep(5 * time.Second)
		wantTold(t, stream, "after the next grant")
	})
}

// TestARevocationBeforeTheNodeIsFound: the reply to the create is lost, and the request
// is written before the session has found the node.
func TestARevocationBeforeTheNodeIsFound(t *testing.T) {
	forEach(t, kindsOf(), func(t *testing.T, srv *zktest.Server, lock lockKind) {
		c := coordtest.Connect(t, srv)
		holdAgainAndAgain(t, lock.of(c), 1) // creates its directories
		stream := c.Events(t.Context())
		holders := func(node string) bool { return lock.name != "semaphore" || strings.Contains(node, "-lease-") }
		once(srv, zktest.CutAfter(), func(r zktest.Request) bool {
			return slices.ContainsFunc(append(r.Parts, zktest.Part{Op: r.Op, Path: r.Path}), func(p zktest.Part) bool {
				return p.Op == zktest.OpCreate && holders(p.Path)
			})
		})
		holder := lock.of(c).Acquire(t.Context())
		synctest.Wait()
		asked := 0
		for node := range nodesOf(srv, c) {
			if holders(node) {
				asked++
				eventstest.Must(t, srv.SetData(node, []byte(curatorsRequest)))
			}
		}
		coordtest.Soon(t, holder)
		time.Sleep(5 * time.Second)
		wantTold(t, stream, "when its node is found", holder)
		coordtest.NotLost(t, holder)
		expect(t, asked == 1, "%d nodes are the holder's, want one", asked)
	})
}

// TestARevocationIsToldToEachReentry: the holder is notified, and so is an acquisition
// that reenters later, even if other data have replaced the request by then. All
// acquisitions that hold the lock receive the same.
func TestARevocationIsToldToEachReentry(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		stream := c.Events(t.Context())
		outer, grant := coordtest.Hold(t, lock)
		time.Sleep(5 * time.Second)
		eventstest.Must(t, srv.SetData(grant.Node, []byte(curatorsRequest)))
		wantTold(t, stream, "after the revocation", outer)
		inner := lock.Acquire(outer.Context(t.Context()))
		coordtest.Soon(t, inner)
		wantTold(t, stream, "after a re-entry", inner)
		eventstest.Must(t, srv.SetData(grant.Node, []byte("somebody else's")))
		time.Sleep(time.Second)
		third := lock.Acquire(inner.Context(t.Context()))
		coordtest.Soon(t, third)
		wantTold(t, stream, "when other data are in the node", third)
	})
}

// TestTheHolderReadsTheNewestRevocation: an earlier deadline replaces an unread request,
// and Deadline is no later. After a release, an unread request is gone.
func TestTheHolderReadsTheNewestRevocation(t *testing.T) {
	forEach(t, revocableKinds(), func(t *testing.T, srv *zktest.Server, lock lockKind) { playRevocations(t, onTheDouble(t, srv), lock) })
}

// TestRealTheHolderReadsTheNewestRevocation does the same on a real server.
func TestRealTheHolderReadsTheNewestRevocation(t *testing.T) {
	for name, lock := range revocableKinds() {
		t.Run(name, func(t *testing.T) { playRevocations(t, onARealServer(t), lock) })
	}
}

func playRevocations(t *testing.T, s *site, lock lockKind) {
	t.Helper()
	ctx := coordtest.RealContext(t)
	operator, c := s.connect(), s.connect()
	stream := c.Events(ctx)
	a, _ := coordtest.HoldReal(t, lock.of(c))
	var revokes []<-chan error
	revoke := func(grace time.Duration) (told events.Revoked) {
		t.Helper()
		revokes = append(revokes, revoking(ctx, operator, grace))
		for ok := false; !ok; {
			told, ok = eventstest.Receive(t, stream, "the revocation on the stream").(events.Revoked)
		}
		// By now it is also in the channel.
		expect(t, !a.Deadline().After(told.Deadline), "Deadline %v, want before %v", a.Deadline(), told.Deadline)
		return told
	}
	wantRead := func(when string, want events.Revoked) {
		if n := len(a.Revoked()); n != 1 {
			t.Fatalf("%s %d revocations can be read from Revoked, want one", when, n)
		}
		expectEqual(t, <-a.Revoked(), want, "%s Revoked has", when)
	}
	wantRead("after a first revocation", revoke(2*time.Hour))
	revoke(time.Hour)
	wantRead("after two unread revocations", revoke(timeoutOfAll/2))
	revoke(timeoutOfAll / 4)
	a.Release()
	expect(t, len(a.Revoked()) == 0, "%d revocations can be read after Release, want none", len(a.Revoked()))
	for _, done := range revokes {
		eventstest.Check(t, eventstest.Receive(t, done, "the end of Revoke of a lock that was released in time"))
	}
}
