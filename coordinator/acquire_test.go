package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestDataIsCopiedIntoTheNode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		data := []byte("host-7")
		option := coordinator.Data(data)
		data[0] = 'X'
		_, grant := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath), option)
		got, _ := srv.Data(grant.Node)
		expect(t, string(got) == "host-7", "the node has %q, want %q", got, "host-7")
	})
}

func TestContextsEndWithTheLockAndSayWhy(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a := c.Mutex(lockPath).Acquire(t.Context())
		early := a.Context(t.Context())
		coordtest.Soon(t, a)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		expectError(t, early.Err(), nil, "while the lock is held")
		expectError(t, a.Context(over).Err(), context.Canceled, "below a context that has ended")
		a.Release()
		<-early.Done()
		expectError(t, context.Cause(early), coordinator.ErrReleased, "after the release")
		_, err := a.Wait(t.Context()) // of an acquisition that ends without an error
		expectError(t, err, coordinator.ErrReleased, "Wait after the release")
		<-a.Context(t.Context()).Done()

		b, _ := coordtest.Hold(t, c.Mutex(lockPath))
		ctx := b.Context(t.Context())
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-ctx.Done()
		expectError(t, context.Cause(ctx), coordinator.ErrSessionExpired, "after the loss")
		expect(t, !b.Valid(), "when its context has ended the lock is valid, want it lost")
	})
}

// steps is how many requests a waiter takes: create, list, watch its own node, and the
// node ahead. A free lock takes one less in another library's directory, and one in ours.
const steps = 4

// TestContextCancelledAtEachStep ends the context right before the server executes a
// request, or before it answers, while the lock is free or handed over, in our directory
// and another's.
func TestContextCancelledAtEachStep(t *testing.T) {
	for i := range 8 * (steps + 4) {
		ours, queued, late, nth := i&1 != 0, i&2 != 0, i&4 != 0, 1+i/8
		name := fmt.Sprintf("our directory %v, queued %v, answered late %v, request %d", ours, queued, late, nth)
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { cancelAt(t, srv, ours, queued, late, nth) })
		})
	}
}

func cancelAt(t *testing.T, srv *zktest.Server, ours, queued, late bool, nth int) {
	t.Helper()
	c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
	before := steps - 1
	if ours {
		coordtest.Warm(t, c, other)
		before = 1
	} else {
		eventstest.Must(t, srv.Create(lockPath, nil))
	}
	var holder *coordinator.Acquisition
	if queued {
		before = steps
		holder, _ = coordtest.Hold(t, other.Mutex(lockPath))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count, victim := 0, c.SessionID()
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session != victim || r.Op == zktest.OpPing {
			return zktest.Pass()
		}
		switch count++; {
		case count == nth && late:
			time.AfterFunc(time.Second, cancel)
			return zktest.Delay(2 * time.Second)
		case count == nth:
			cancel()
		}
		return zktest.Pass()
	})
	a := c.Mutex(lockPath).Acquire(ctx)
	if queued {
		time.Sleep(5 * time.Second)
		holder.Release()
	}
	patience, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	_, err := a.Wait(patience)
	switch {
	case errors.Is(err, context.Canceled):
		expect(t, ctx.Err() != nil, "Wait says that the context was cancelled, and it was not")
	case err != nil:
		t.Errorf("Wait = %v, want a grant or context.Canceled", err)
	case late && nth <= before:
		t.Error("granted with the context cancelled for a second, want context.Canceled")
	default:
		cancel() // the wait is over
		synctest.Wait()
		expect(t, a.Valid(), "after the Grant the end of the context has ended the lock, want it held")
		a.Release()
	}
	<-a.Done()
	time.Sleep(3 * time.Second)
	if nodes, watches := srv.Children(lockPath), srv.Watches(); len(nodes) > 0 || watches > 0 {
		t.Errorf("when it is over the nodes %v and %d watches are left, want none", nodes, watches)
	}
	coordtest.Hold(t, c.Mutex(lockPath))
}

// TestPosition: how many contenders a waiter of each kind of lock has ahead.
func TestPosition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playPosition(t, onTheDouble(t, srv)) })
}

// TestRealPosition is the same on a real server.
func TestRealPosition(t *testing.T) { playPosition(t, onARealServer(t)) }

func playPosition(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	for kind, k := range map[string]struct {
		lock        handle
		first, each int // ahead of the first waiter, and more for each further one
	}{
		"mutex":      {c.Mutex("/position/mutex"), 1, 1},
		"write":      {c.ReadWrite("/position/readwrite").Write(), 1, 1},
		"election":   {c.Election("/position/election"), 1, 1},
		"semaphore":  {c.Semaphore("/position/semaphore", 1), 0, 1}, // the holder is in the queue no more
		"unfair":     {c.Unfair("/position/unfair"), 1, 0},          // there is no queue
		"multi-lock": {c.Multi(c.Mutex("/position/a"), c.Mutex("/position/b")), 2, 2},
	} {
		wants := func(when string, a *coordinator.Acquisition, ahead int) {
			t.Helper()
			said := ""
			eventstest.Eventually(t, fmt.Sprintf("%s: %s has %d ahead", kind, when, ahead), func() bool {
				got, ok := a.Position()
				said = fmt.Sprint("it is ", got, ", ", ok)
				return ok && got == ahead
			}, func() string { return said })
		}
		none := func(when string, a *coordinator.Acquisition) {
			t.Helper()
			got, ok := a.Position()
			expect(t, got == 0 && !ok, "%s: %s: Position = %d, %t; want 0, false", kind, when, got, ok)
		}
		holder := k.lock.Acquire(t.Context())
		coordtest.GrantOf(t, holder)
		none("a holder", holder)
		var waiting [3]*coordinator.Acquisition
		for i := range waiting {
			waiting[i] = k.lock.Acquire(t.Context())
			wants(fmt.Sprint("waiter ", i), waiting[i], k.first+i*k.each)
		}
		first, second, third := waiting[0], waiting[1], waiting[2]
		second.Release()
		wants("waiter 2, when waiter 1 has given up,", third, k.first+k.each)
		none("a waiter that was withdrawn", second)
		holder.Release()
		if kind != "unfair" {
			coordtest.GrantOf(t, first)
			none("waiter 0, now the holder", first)
		}
		first.Release()
		coordtest.GrantOf(t, third)
		none("the last one, now the holder", third)
		coordtest.End(third)
		none("after the end", third)
	}
}
