package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
)

// TestReconnectsAddNoWatches: an observer of a leader that stays keeps one channel in the
// client, however often the session reconnects: the client restores the watch. It needs
// one request for that, or several if it watches many other paths.
func TestReconnectsAddNoWatches(t *testing.T) {
	for _, others := range []int{0, 500, 1500} { // with names of 200 bytes: 100 KiB, 300 KiB
		t.Run(fmt.Sprint(others, " others"), func(t *testing.T) { reconnectsAddNoWatches(t, others) })
	}
}

func reconnectsAddNoWatches(t *testing.T, others int) {
	t.Helper()
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		for i := range others {
			name := fmt.Sprintf("other-%0194d", i)
			r.Plant(name)
			r.SeatAt(session.Place{Dir: sessiontest.Dir}).WatchNode(name)
		}
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
		if after := r.Session.WatchChannels(); before <= others || after > before {
			t.Errorf("after 20 reconnects the client keeps %d channels for watches, want %d, and some", after, before)
		}
		r.DeleteNode("lock-0000000007")
		if leader := <-leaders; leader.Node != "" {
			t.Errorf("after the leader's end %+v leads, want nobody", leader)
		}
	})
}
