package zktest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// expired waits until a session is gone and returns how long that took in virtual
// time.
func expired(t *testing.T, s *zktest.Server, id int64) time.Duration {
	t.Helper()
	start := time.Now()
	for slices.Contains(s.Sessions(), id) {
		if time.Since(start) > 10*time.Minute {
			t.Fatalf("session %#x never expires", id)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait() // what is due at this moment has happened
	}
	return time.Since(start)
}

// wantExpiry checks how long a session lives on.
func wantExpiry(t *testing.T, s *zktest.Server, id int64, want time.Duration) {
	t.Helper()
	if d := expired(t, s, id); d != want {
		t.Errorf("the session expires after %v, want %v", d, want)
	}
}

// took checks how long something has taken.
func took(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	if d := time.Since(start); d != want {
		t.Errorf("%s comes after %v, want %v", what, d, want)
	}
}

func TestAnHourOfPings(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		id, p := c.SessionID(), c.make("/e", zk.FlagEphemeral)
		time.Sleep(time.Hour)
		if c.SessionID() != id || !s.Exists(p) || s.Owner(p) != id {
			t.Errorf("after an hour of pings session %#x is %#x, its node owned by %#x; want both kept", id, c.SessionID(), s.Owner(p))
		}
		if n := s.Requests(zktest.OpPing); n < 1000 || n > 1100 {
			t.Errorf("%d pings in an hour, want about 1080", n)
		}
	})
}

func TestExpiryAfterSilence(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		other := memoryClient(t, s, 10*time.Second)
		c := memoryClient(t, s, 9*time.Second)
		id, p := c.SessionID(), c.make("/e", zk.FlagEphemeral)
		other.watch(p)
		time.Sleep(500 * time.Millisecond)
		s.Mute(id, true)
		// The last frame came 0.5 s ago at 0 s: 9 s later lies in the tick that ends at 10 s.
		wantExpiry(t, s, id, 9500*time.Millisecond)
		other.await(0, "deletion", func(e zk.Event) bool { return e.Type == zk.EventNodeDeleted && e.Path == p })
		from := c.mark()
		s.Mute(id, false)
		c.stateFrom(c.stateFrom(from, zk.StateExpired), zk.StateHasSession)
		c.leaves(id)
	})
}

func TestExpiryRoundsUp(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t)
		c := memoryClient(t, s, 8*time.Second)
		// 8 s after the last frame is a tick boundary, and the next one counts.
		s.Mute(c.SessionID(), true)
		wantExpiry(t, s, c.SessionID(), 10*time.Second)
		s.Mute(c.SessionID(), false)
	})
}

func TestTheTickDecidesAboutTimeoutAndExpiry(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := zktest.Start(t, zktest.Tick(100*time.Millisecond))
		c := memoryClient(t, s, time.Hour) // held down to 2 s
		id := c.SessionID()
		s.Mute(id, true)
		wantExpiry(t, s, id, 2100*time.Millisecond)
		s.Mute(id, false)
	})
	if _, err := zktest.New(zktest.Tick(0)); err == nil {
		t.Error("New with a tick of zero = nil, want an error")
	}
}
