package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestUnfairNodeReplacedBehindAChange: somebody writes to the holder's node and then deletes it, and a waiter makes the
// next one, before the holder has the node watched again. What it has watched then bears the name of its node.
func TestUnfairNodeReplacedBehindAChange(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, grant := hold(t, connect(t, srv).Unfair(taskPath))
		waiter := queue(connect(t, srv).Unfair(taskPath))
		time.Sleep(5 * time.Second)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == grant.Session && r.Path == taskPath {
				srv.Intercept(nil)
				if err := srv.Delete(taskPath); err != nil {
					t.Error(err)
				}
				for srv.Owner(taskPath) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			return zktest.Pass()
		})
		if err := srv.SetData(taskPath, []byte("look at me")); err != nil {
			t.Fatal(err)
		}
		select {
		case lost := <-holder.Lost():
			if lost.Reason != events.ReasonNodeRemoved {
				t.Errorf("%+v", lost)
			}
		case <-time.After(time.Second):
			t.Error("the holder is not told")
			holder.Release()
		}
		<-holder.Done()
		time.Sleep(20 * time.Second)
		if !waiter.Valid() {
			t.Error("the next holder has lost it")
		}
	})
}

// TestUnfairReleasedInAnOutage: the holder releases it without a connection, and meanwhile its node is deleted by hand
// and made anew by another, which the delete that has waited must not take for its own. The same of one that lost the
// lock in the outage, and gives the node back when its function has ended.
func TestUnfairReleasedInAnOutage(t *testing.T) {
	for name, lapsed := range map[string]bool{"released": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := connect(t, srv), connect(t, srv)
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
				time.Sleep(5 * time.Second)
				srv.Mute(session, true)
				srv.Cut(session)
				time.Sleep(100 * time.Millisecond)
				if !lapsed {
					close(leave)
				}
				if err := srv.Delete(taskPath); err != nil {
					t.Fatal(err)
				}
				next, _ := hold(t, b.Unfair(taskPath))
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
