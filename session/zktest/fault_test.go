package zktest_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestAServerThatIsDownKeepsSessions(t *testing.T) {
	withClient(t, func(t *testing.T, s *zktest.Server, c *client) {
		id := c.SessionID()
		from := c.mark()
		s.Down(true)
		from = c.stateFrom(from, zk.StateDisconnected)
		if _, err := s.DialContext(t.Context(), "tcp", s.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to a server that is down: %v, want it refused", err)
		}
		time.Sleep(5 * time.Second)
		s.Down(false)
		from = c.stateFrom(from, zk.StateHasSession)
		c.keeps(id)
		s.Down(false) // this changes nothing
		synctest.Wait()
		if n := s.Connections(); n != 1 {
			t.Errorf("%d connections are left after Down(false), want 1", n)
		}
		s.Down(true)
		if d := expired(t, s, id); d <= 10*time.Second || d > 12*time.Second {
			t.Errorf("without a server the session of 10 s expires after %v, want 10 to 12 s", d)
		}
		s.Down(false)
		c.stateFrom(from, zk.StateExpired)
	})
}

func TestAServerThatIsDownSaysNothingOverTCP(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := zktest.Start(t)
	c := connect(t, s.Addr(), 10*time.Second, overTCP)
	id, from := c.SessionID(), c.mark()
	s.Down(true)
	from = c.stateFrom(from, zk.StateDisconnected)
	nc, err := net.Dial("tcp", s.Addr())
	eventstest.Must(t, err)
	defer func() { _ = nc.Close() }()
	if b, _ := io.ReadAll(nc); len(b) != 0 {
		t.Errorf("a server that is down says %q, want nothing", b)
	}
	s.Down(false)
	c.stateFrom(from, zk.StateHasSession)
	c.keeps(id)
}

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
		c := memoryClient(t, s, time.Hour) // bounded to 2 s
		id := c.SessionID()
		s.Mute(id, true)
		wantExpiry(t, s, id, 2100*time.Millisecond)
		s.Mute(id, false)
	})
	if _, err := zktest.New(zktest.Tick(0)); err == nil {
		t.Error("New with a tick of zero = nil, want an error")
	}
}
