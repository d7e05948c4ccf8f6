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

// TestPollForgetsWhatHasGone: nothing is kept of locks at ever new paths that had a
// waiter.
func TestPollForgetsWhatHasGone(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, err := Connect(t.Context(), srv.Addr(), srv.Option())
		eventstest.Must(t, err)
		defer c.Close()
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
			eventstest.Expect(t, p.known.Len() > 0, "nothing is known of the waiter")
			waiter.Release()
			holder.Release()
			<-waiter.Done()
			<-holder.Done()
			time.Sleep(time.Minute) // the directory is removed
			look()
		}
		eventstest.Expect(t, len(p.places)+p.known.Len() == 0,
			"%d places and %d directories are kept, want none", len(p.places), p.known.Len())
	})
}
