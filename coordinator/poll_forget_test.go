package coordinator

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// connected runs the test in virtual time, with a coordinator.
func connected(t *testing.T, test func(t *testing.T, c *Coordinator)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv, err := zktest.New(zktest.InMemory())
		eventstest.Must(t, err)
		defer srv.Close()
		c, err := Connect(t.Context(), srv.Addr(), srv.Option())
		eventstest.Must(t, err)
		defer c.Close()
		test(t, c)
	})
}

// TestPollYieldsAWatchedLock that it leaves out, although the watch ends during the look.
func TestPollYieldsAWatchedLock(t *testing.T) {
	connected(t, func(t *testing.T, c *Coordinator) {
		<-c.Mutex("/locks/a").Acquire(t.Context()).Granted()
		locks, asked := c.Poll("/locks"), 0
		watched := session.WithWatched(t.Context(), func(string) bool {
			asked++
			return asked == 1
		})
		for _, ctx := range []context.Context{t.Context(), watched} {
			var paths []string
			for l, err := range locks(ctx) {
				eventstest.Must(t, err)
				paths = append(paths, l.Path)
			}
			if len(paths) != 1 {
				t.Errorf("after %d questions about the watch, it yields %q, want the lock", asked, paths)
			}
		}
	})
}

// TestPollAfterALookThatStopped, because its loop was left or its context has ended: the
// next one reads everything anew.
func TestPollAfterALookThatStopped(t *testing.T) {
	for _, left := range []bool{true, false} {
		connected(t, func(t *testing.T, c *Coordinator) {
			hold := func(path string) *Acquisition {
				a := c.Mutex(path).Acquire(t.Context())
				<-a.Granted()
				return a
			}
			hold("/locks/a")
			old := hold("/locks/b")
			locks := c.Poll("/locks")
			ctx, end := context.WithCancel(t.Context())
			defer end()
			for _, err := range locks(ctx) {
				if end(); left {
					eventstest.Must(t, err)
					break
				}
			}
			old.Release()
			now := map[string]string{"/locks/b": hold("/locks/b").Grant().Node, "/locks/x": hold("/locks/x").Grant().Node}
			time.Sleep(time.Hour)
			for l, err := range locks(t.Context()) {
				eventstest.Must(t, err)
				if want, is := now[l.Path]; is && len(l.Contenders) == 1 && l.Contenders[0].Node == want {
					delete(now, l.Path)
				}
			}
			if len(now) > 0 {
				t.Errorf("the look after one that stopped (left: %v) does not yield %v", left, now)
			}
		})
	}
}

// TestPollForgetsWhatHasGone: nothing is kept of locks at ever new paths that had a
// waiter.
func TestPollForgetsWhatHasGone(t *testing.T) {
	connected(t, func(t *testing.T, c *Coordinator) {
		p := &poll{c: c, root: "/locks", small: true, known: &session.Known{}, places: map[string]*place{}}
		look := func() {
			eventstest.Must(t, p.look(context.Background(), func(events.LockInfo, error) bool { return true }))
		}
		for i := range 5 {
			path := fmt.Sprintf("/locks/%d", i)
			holder := c.Mutex(path).Acquire(t.Context())
			<-holder.Granted()
			waiter := c.Mutex(path).Acquire(t.Context())
			synctest.Wait()
			look()
			if p.known.Len() == 0 {
				t.Error("nothing is known of the waiter")
			}
			waiter.Release()
			holder.Release()
			<-waiter.Done()
			<-holder.Done()
			time.Sleep(time.Minute) // the directory is removed
			look()
		}
		if len(p.places) > 0 || p.known.Len() > 0 {
			t.Errorf("%d places and %d directories are kept, want none", len(p.places), p.known.Len())
		}
	})
}
