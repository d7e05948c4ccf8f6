package coordinator_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestWaitIsAFuture: each goroutine gets the same Grant while the lock is held, also one whose context has ended, and when the
// channel or the stream had it first. After the end it gets what Err says, and ErrReleased where that is nil.
func TestWaitIsAFuture(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playFuture(t, onTheDouble(t, srv)) })
}

// TestRealWaitIsAFuture is the same on a real server.
func TestRealWaitIsAFuture(t *testing.T) { playFuture(t, onARealServer(t)) }

func playFuture(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	stream := c.Events(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	holder, _ := coordtest.Hold(t, s.connect().Mutex(lockPath))

	a := c.Mutex(lockPath).Acquire(t.Context())
	if g, err := a.Wait(ended); !errors.Is(err, context.Canceled) || a.Err() != nil {
		t.Errorf("a waiter's Wait with a context that has ended: %+v, %v, and Err %v; want context.Canceled and nil", g, err, a.Err())
	}
	grants := make([]events.Grant, 8)
	var all sync.WaitGroup
	for i := range grants {
		all.Go(func() { grants[i] = coordtest.GrantOf(t, a) })
	}
	holder.Release()
	all.Wait()
	if g := coordtest.GrantOf(t, a); !reflect.DeepEqual(g, a.Grant()) {
		t.Errorf("Wait behind the Grant: %+v, want %+v", g, a.Grant())
	}
	for i, g := range grants {
		if !reflect.DeepEqual(g, a.Grant()) || g.Token == 0 {
			t.Errorf("goroutine %d of %d that have waited got %+v, want %+v", i, len(grants), g, a.Grant())
		}
	}
	if g, err := a.Wait(ended); err != nil || g.Token != a.Grant().Token || len(a.Granted()) != 0 {
		t.Errorf("a holder's Wait with a context that has ended: %+v, %v, with %d Grants in the channel; want the Grant, and none", g, err, len(a.Granted()))
	}
	a.Release()
	wantWait(t, a, "released", coordinator.ErrReleased)

	withdrawn := c.Mutex(lockPath).Acquire(t.Context())
	withdrawn.Release()
	wantWait(t, withdrawn, "withdrawn", coordinator.ErrNotAcquired)

	read := c.Mutex(lockPath).Acquire(t.Context())
	fromChannel := eventstest.Receive(t, read.Granted(), "the Grant")
	if g := coordtest.GrantOf(t, read); !reflect.DeepEqual(g, fromChannel) {
		t.Errorf("Wait behind Granted: %+v, want %+v", g, fromChannel)
	}
	for seen := false; !seen; {
		g, ok := eventstest.Receive(t, stream, "the Grant on the stream").(events.Grant)
		seen = ok && g.ID == read.ID()
	}
	if err := s.raw.Delete(s.root+fromChannel.Node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	wantWait(t, read, "lost", coordinator.ErrNodeRemoved)
}

// wantWait checks what Wait says of an acquisition that has ended, or is about to.
func wantWait(t *testing.T, a *coordinator.Acquisition, how string, want error) {
	t.Helper()
	<-a.Done()
	for range 2 {
		g, err := a.Wait(coordtest.RealContext(t))
		if !errors.Is(err, want) || a.Err() != nil && !errors.Is(err, a.Err()) || !reflect.DeepEqual(g, events.Grant{}) {
			t.Errorf("%s: Wait = %+v, %v; want %v, and Err is %v", how, g, err, want, a.Err())
		}
	}
}

// TestWaitInAFunctionThatHasLostItsLock returns the loss, though the acquisition ends no sooner than the function.
func TestWaitInAFunctionThatHasLostItsLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, grant events.Grant) error {
			a, _ := coordinator.FromContext(ctx)
			if g, err := a.Wait(ctx); err != nil || g.Token != grant.Token {
				t.Errorf("Wait in a function that holds: %+v, %v; want %+v", g, err, grant)
			}
			eventstest.Must(t, srv.Expire(c.SessionID()))
			<-ctx.Done()
			_, err := a.Wait(context.WithoutCancel(ctx))
			return err
		})
		if !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("Do, whose function returns what Wait says behind the loss: %v, want ErrSessionExpired", err)
		}
	})
}
