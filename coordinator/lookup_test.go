package coordinator_test

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// slowNames answers each lookup after its time, with the address of the in-process server.
type slowNames struct {
	takes   atomic.Int64 // a duration
	lookups atomic.Int32
	going   atomic.Int32
}

func (n *slowNames) lookup(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	n.lookups.Add(1)
	n.going.Add(1)
	defer n.going.Add(-1)
	select {
	case <-time.After(time.Duration(n.takes.Load())):
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *slowNames) option(srv *zktest.Server) coordinator.Option {
	return session.OptionFunc(func(c *session.Config) { c.Lookup, c.Dial = n.lookup, srv.DialContext })
}

// TestASlowLookupEndsInASession: Go's resolver waits 5 s for a name server that is silent before
// it asks the next one. That is longer than an attempt to connect takes, and no attempt begins
// it again.
func TestASlowLookupEndsInASession(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 4 * time.Second, 10 * time.Second, 16 * time.Second, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				const takes = 5 * time.Second
				names := &slowNames{}
				names.takes.Store(int64(takes))
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				c, err := coordinator.Connect(ctx, "zk.test:2181", names.option(srv), coordinator.WithSessionTimeout(timeout))
				eventstest.Must(t, err)
				defer func() { eventstest.Check(t, c.Close()) }()
				// An attempt may have its end, and a pause after it, just when the lookup ends.
				if took := time.Since(start); took > takes+2*time.Second {
					t.Errorf("the session is there after %v, want it soon after the lookup's %v", took, takes)
				}
				if n := names.lookups.Load(); n > 2 {
					t.Errorf("%d lookups, want one, and one more by the attempt that connects", n)
				}

				// With a session, the addresses stand in at once.
				held, _ := coordtest.Hold(t, c.Mutex(lockPath))
				before := c.SessionID()
				time.Sleep(timeout / 2) // it counts as a good connection from then on
				srv.CutAll()
				time.Sleep(timeout / 2)
				coordtest.NotLost(t, held)
				if c.State() != coordinator.StateConnected || c.SessionID() != before {
					t.Errorf("half a timeout after the cut the session is %v, %x; want the first one, connected", c.State(), c.SessionID())
				}

				// A new one waits for a lookup of its own.
				eventstest.Must(t, srv.Expire(c.SessionID()))
				expired := time.Now()
				<-held.Lost()
				eventstest.Must(t, c.Mutex(lockPath).Do(t.Context(), func(context.Context, events.Grant) error { return nil }))
				if took := time.Since(expired); took > takes+3*time.Second {
					t.Errorf("the next session grants after %v, want it soon after the lookup's %v", took, takes)
				}
			})
		})
	}
}

// TestALookupThatNeverEndsIsGivenUp: it has a bound of its own, and the error says what there is to wait for.
func TestALookupThatNeverEndsIsGivenUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		names := &slowNames{}
		names.takes.Store(int64(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		_, err := coordinator.Connect(ctx, "zk.test:2181", names.option(srv))
		if err == nil || !strings.Contains(err.Error(), "zk.test:2181: name not resolved ") {
			t.Errorf("Connect = %v, want it to say that the name is not resolved", err)
		}
		if n := names.lookups.Load(); n != 3 {
			t.Errorf("%d lookups in 65 s, want 3: each of them ends after 30 s", n)
		}
	})
}

// TestCloseEndsALookup at once, also one that is under way beside a connection.
func TestCloseEndsALookup(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		names := &slowNames{}
		connected, err := coordinator.Connect(t.Context(), "zk.test:2181", names.option(srv))
		eventstest.Must(t, err)
		names.takes.Store(int64(time.Hour))
		trying, err := coordinator.Open("zk.test:2181", names.option(srv))
		eventstest.Must(t, err)
		srv.CutAll()
		time.Sleep(2 * time.Second)
		if n := names.going.Load(); n != 2 || connected.State() != coordinator.StateConnected {
			t.Fatalf("%d lookups are under way, and the first session is %v; want 2, and connected", n, connected.State())
		}
		start := time.Now()
		eventstest.Check(t, connected.Close())
		eventstest.Check(t, trying.Close())
		synctest.Wait()
		if n := names.going.Load(); n != 0 || time.Since(start) > time.Second {
			t.Errorf("after Close, which took %v, %d lookups are under way; want none, within a second", time.Since(start), n)
		}
	})
}
