package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// outlives strands a session right after a write and returns for how long it lives.
func outlives(t *testing.T, after time.Duration, settings ...zktest.Setting) (lived time.Duration) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, settings...)
		c := memoryClient(t, s, 10*time.Second)
		time.Sleep(after)
		c.make("/x", zk.FlagEphemeral)
		sent := time.Now()
		s.Strand(c.SessionID(), true)
		for len(s.Sessions()) > 0 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		lived = time.Since(sent)
		s.Strand(c.SessionID(), false)
	})
	return lived
}

func TestAFollowerKeepsSignsOfLifeToItself(t *testing.T) {
	// The client pings 3.33 s after the handshake, and the leader hears of it at 4 s:
	// the session ends at the first boundary beyond 14 s.
	const after = 4900 * time.Millisecond
	if lived, want := outlives(t, after), 16*time.Second-after; lived != want {
		t.Errorf("on the leader a session lives for %v after a write, want %v", lived, want)
	}
	if lived, want := outlives(t, after, zktest.Followers()), 16*time.Second-after; lived != want {
		t.Errorf("on a follower a session lives for %v after a write, want %v", lived, want)
	}
	// A little earlier it has heard of the handshake only, although there was a ping
	// and a write has been answered: the session lives for less than its timeout.
	const early = 3900 * time.Millisecond
	if lived, want := outlives(t, early, zktest.Followers()), 12*time.Second-early; lived != want {
		t.Errorf("on a follower a session lives for %v after a write, want %v", lived, want)
	}
}
