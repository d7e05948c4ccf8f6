package faults

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A server in read-only mode, without a quorum, gets no session of ours: a new session is
// refused with an error that names the mode, and a holder's session is not resumed there,
// so its loss comes in time.
func TestNoSessionIsReadOnly(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	const timeout = 2 * time.Second
	e := ensemble.Start(t, 3, ensemble.Tick(silentTick), ensemble.Property("readonlymode.enabled", "true"))
	k := &kind{name: "read-only", timeouts: [2]time.Duration{timeout, timeout}, must: true}
	tr := k.trial("/locks/read-only", connect(t, e.Connect(), 8*time.Second, silentTick))
	tr.away = connect(t, e.Addr(0), timeout, silentTick)
	news := tr.away.Events(t.Context())
	tr.hold(t, nil)
	kill(t, e, 1, 2)
	happens(t, "the server left is in read-only mode", func() bool { return readsOnly(t, e.Addr(0)) })
	happens(t, "the lock is lost", func() bool { return !tr.held.Valid() })

	ctx, cancel := context.WithCancel(patiently(t))
	defer cancel()
	var dials atomic.Int32
	c, err := coordinator.Connect(ctx, e.Addr(0), coordinator.WithSessionTimeout(timeout),
		coordinator.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) > 2 {
				cancel() // the earlier connections have ended
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}))
	if err == nil {
		t.Error("Connect to a server in read-only mode = nil, want an error", c.Close())
	} else if !strings.Contains(err.Error(), "read-only mode") {
		t.Errorf("Connect to a server in read-only mode = %v, want an error that names the mode", err)
	}
	eventstest.Expect(t, readsOnly(t, e.Addr(0)),
		"the server has left read-only mode, want it in that mode until it has refused a session")
	for quiet := false; !quiet; {
		select {
		case ev := <-news:
			switch ev.(type) {
			case events.Connected, events.Resumed:
				t.Errorf("the holder's session is told %+v, want none without a quorum", ev)
			default:
			}
		default:
			quiet = true
		}
	}
	eventstest.Expect(t, tr.away.State() != coordinator.StateConnected,
		"the holder's session has a connection, want none without a quorum")
	restart(t, e, 1, 2)
	up(t, e)
	settle(t, []*trial{tr})
}

// readsOnly reports whether the server says that it is in read-only mode.
func readsOnly(t *testing.T, addr string) bool {
	t.Helper()
	answer, err := ensemble.Ask(t.Context(), addr, "isro")
	return err == nil && answer == "ro"
}
