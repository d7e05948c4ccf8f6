package faults

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestNoSessionMovesAfterARollingRestart to the server that came up last: only those that had found no other server by then are there. All of
// them live on, and so do their locks.
func TestNoSessionMovesAfterARollingRestart(t *testing.T) {
	if os.Getenv("ZKGRANT_FULL") != "1" {
		t.Skip("takes a minute: run it with ZKGRANT_FULL=1")
	}
	eventstest.NeedsServers(t)
	const sessions = 60
	e := ensemble.Start(t, 3)
	ctx := eventstest.Patiently(t, 5*time.Minute)
	held := make([]*coordinator.Acquisition, sessions)
	ids := map[int64]bool{}
	var all []*coordinator.Coordinator
	for i := range sessions {
		c := coordtest.ConnectReal(t, e.Connect())
		held[i] = c.Mutex(fmt.Sprintf("/rolling/%d", i)).Acquire(ctx)
		_, err := held[i].Wait(ctx)
		eventstest.Must(t, err)
		all, ids[c.SessionID()] = append(all, c), true
	}
	t.Logf("before: %v", sessionsOfEach(ctx, t, e))
	leader, err := e.Leader(ctx)
	eventstest.Must(t, err)
	followers, err := e.Followers(ctx)
	eventstest.Must(t, err)
	for _, i := range append(followers, leader) {
		eventstest.Must(t, e.Kill(i))
		eventstest.Must(t, e.Restart(i))
		eventstest.Must(t, e.Wait(ctx))
		for _, c := range all {
			for c.State() != coordinator.StateConnected && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
		t.Logf("server %d is back: %v", i, sessionsOfEach(ctx, t, e))
	}
	then, late := time.Now(), sessionsOfEach(ctx, t, e)[leader]
	for time.Since(then) < 20*time.Second {
		if n := sessionsOfEach(ctx, t, e)[leader]; n > late {
			t.Fatalf("%d sessions have moved to the server that came up last, and none was to", n-late)
		}
		time.Sleep(time.Second)
	}
	for i, c := range all {
		if !ids[c.SessionID()] || !held[i].Valid() {
			t.Errorf("session %d, 0x%x, holds its lock: %v; want the session and the lock of before", i, c.SessionID(), held[i].Valid())
		}
	}
}

// sessionsOfEach returns how many sessions each server has.
func sessionsOfEach(ctx context.Context, t *testing.T, e *ensemble.Ensemble) (all []int) {
	t.Helper()
	for i := range e.Size() {
		counted, err := e.Counters(ctx, i)
		for err != nil && ctx.Err() == nil { // a server that has just come up may hang up
			time.Sleep(100 * time.Millisecond)
			counted, err = e.Counters(ctx, i)
		}
		eventstest.Must(t, err)
		all = append(all, int(counted["zk_num_alive_connections"])-1) // without the one that asks
	}
	return all
}
