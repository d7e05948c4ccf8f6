package session_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

// TestReconnectsAddNoWatches: an observer of a leader that stays keeps one channel in the
// client, however often the session reconnects: the client restores the watch.
func TestReconnectsAddNoWatches(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("lock-0000000007") // the leader
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		leaders := r.Session.Observe(ctx, sessiontest.Dir)
		<-leaders
		synctest.Wait()
		before := r.Session.WatchChannels()
		for range 20 {
			r.Server.Cut(r.Only())
			synctest.Wait()
			r.Settle()
		}
		if after := r.Session.WatchChannels(); before == 0 || after > before {
			t.Errorf("after 20 reconnects the client keeps %d channels for watches, want %d, and some", after, before)
		}
		r.DeleteNode("lock-0000000007")
		if leader := <-leaders; leader.Node != "" {
			t.Errorf("after the leader's end %+v leads, want nobody", leader)
		}
	})
}
