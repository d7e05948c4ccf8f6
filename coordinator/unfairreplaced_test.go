package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestUnfairReleasedInAnOutage: the holder releases it without a connection, and meanwhile its node is deleted by hand
// and made anew by another, which the delete that has waited must not take for its own. The same of one that lost the
// lock in the outage, and gives the node back when its function has ended.
func TestUnfairReleasedInAnOutage(t *testing.T) {
	for name, c := range map[string]struct{ lapsed, watched bool }{
		"released": {false, true}, "released before it is watched": {false, false}, "lost": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			lapsed := c.lapsed
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				inside, leave, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- a.Unfair(taskPath).Do(t.Context(), func(context.Context, events.Grant) error {
						close(inside)
						<-leave
						return nil
					})
				}()
				<-inside
				session := a.SessionID()
				if c.watched {
					time.Sleep(5 * time.Second)
				}
				srv.Mute(session, true)
				srv.Cut(session)
				time.Sleep(100 * time.Millisecond)
				if !lapsed {
					close(leave)
				}
				if err := srv.Delete(taskPath); err != nil {
					t.Fatal(err)
				}
				next, _ := coordtest.Hold(t, b.Unfair(taskPath))
				if lapsed {
					time.Sleep(9400 * time.Millisecond) // the lease is over, and the session is not
				}
				srv.Mute(session, false)
				time.Sleep(3 * time.Second)
				if lapsed {
					close(leave)
				}
				if err := <-ended; lapsed != errors.Is(err, coordinator.ErrLeaseRanOut) {
					t.Error(err)
				}
				time.Sleep(20 * time.Second)
				if a.SessionID() != session {
					t.Error("the session has ended")
				}
				if !next.Valid() || srv.Owner(taskPath) != b.SessionID() {
					t.Error("the next holder has lost it")
				}
			})
		})
	}
}
