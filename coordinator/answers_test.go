package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

const longTickMessage = "the servers' tickTime seems longer than WithTickTime says, so a loss may be told too late"

// connected is a hook that keeps the news of new sessions.
type connected chan events.Connected

func (c connected) OnEvent(ev events.Event) {
	if now, is := ev.(events.Connected); is {
		c <- now
	}
}

// wantLongTick checks the warning and the event for servers with a tick of 6 s and a requested timeout of 10 s.
func wantLongTick(t *testing.T, logs *observer.ObservedLogs, heard connected, told, want time.Duration) {
	t.Helper()
	if now := <-heard; now.Timeout != 12*time.Second || now.LongTick != want {
		t.Errorf("the session has a timeout of %v and a LongTick of %v, want 12s and %v", now.Timeout, now.LongTick, want)
	}
	lines := logs.FilterMessage(longTickMessage).AllUntimed()
	if (len(lines) == 1) != (want > 0) || len(lines) > 1 {
		t.Errorf("%d lines warn of the tick, want one if LongTick is not 0", len(lines))
	}
	for _, line := range lines {
		if f := line.ContextMap(); f["tickTime"] != want || f["told"] != told {
			t.Errorf("the warning says %v, want a tickTime of %v and %v told", f, want, told)
		}
	}
}

func TestALongTickIsTold(t *testing.T) {
	for told, want := range map[time.Duration]time.Duration{2 * time.Second: 6 * time.Second, 5 * time.Second: 6 * time.Second} {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(6*time.Second))
			core, logs := observer.New(zap.WarnLevel)
			heard := make(connected, 8)
			options := []coordinator.Option{coordinator.WithLogger(zap.New(core)), coordinator.WithHooks(heard)}
			if told != 2*time.Second {
				options = append(options, coordinator.WithTickTime(told))
			}
			c := coordtest.Connect(t, srv, options...)
			wantLongTick(t, logs, heard, told, want)
			srv.Cut(c.SessionID())
			time.Sleep(time.Minute)
			if n := logs.FilterMessage(longTickMessage).Len(); n != 1 {
				t.Errorf("after a reconnect %d lines warn of the tick, want the first one only", n)
			}
		})
	}
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(6*time.Second))
		core, logs := observer.New(zap.WarnLevel)
		heard := make(connected, 8)
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(12*time.Second), coordinator.WithTickTime(6*time.Second),
			coordinator.WithLogger(zap.New(core)), coordinator.WithHooks(heard))
		wantLongTick(t, logs, heard, 6*time.Second, 0)
		eventstest.Check(t, c.Close())
	})
}

// The server has a tick of 6 s, takes three connections from one address and 64 KiB in a request, and on 3.7 or newer wants a digest.
func TestRealTheServersAnswersAreSaid(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(6*time.Second), ensemble.Line("maxClientCnxns", "3"), ensemble.Property("jute.maxbuffer", "65536"),
		ensemble.Property("zookeeper.enforce.auth.enabled", "true"), ensemble.Property("zookeeper.enforce.auth.schemes", "digest"))
	version, err := e.Version(t.Context(), 0)
	eventstest.Must(t, err)
	known := coordinator.WithAuth("digest", []byte("app:secret"))

	core, logs := observer.New(zap.WarnLevel)
	heard := make(connected, 8)
	c := coordtest.ConnectReal(t, e.Connect(), known, coordinator.WithSessionTimeout(10*time.Second), coordinator.WithLogger(zap.New(core)), coordinator.WithHooks(heard))
	wantLongTick(t, logs, heard, 2*time.Second, 6*time.Second)

	ctx, cancel := context.WithCancel(eventstest.Patiently(t, coordtest.RealMax))
	large := c.Mutex("/large").Acquire(ctx, coordinator.WithData(make([]byte, 100_000)))
	for logs.FilterMessage("connection lost; the session may live on").Len() == 0 {
		select {
		case <-large.Done():
			t.Fatalf("an acquisition that the server does not take has ended with %v, want it tried again", large.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	<-large.Done()
	for _, line := range logs.FilterMessage("connection lost; the session may live on").All()[:1] {
		if cause, _ := line.ContextMap()["error"].(string); !strings.Contains(cause, "jute.maxbuffer") || !strings.Contains(cause, "bytes was under way") {
			t.Errorf("the connection that a large request has cost was lost because of %q, want the request named", cause)
		}
	}

	if !strings.HasPrefix(version, "3.4") && !strings.HasPrefix(version, "3.5") && !strings.HasPrefix(version, "3.6") {
		stranger := coordtest.ConnectReal(t, e.Connect())
		_, err = stranger.Mutex("/strange").Acquire(t.Context()).Wait(t.Context())
		if !errors.Is(err, coordinator.ErrNoAuth) || !strings.Contains(err.Error(), "require SASL, or another identity") {
			t.Errorf("a session without an identity is told %v, want that the servers require one", err)
		}
		eventstest.Check(t, stranger.Close())
	}
	_, err = coordinator.Connect(eventstest.Patiently(t, coordtest.RealMax), e.Connect(), coordinator.WithAuth("nonsense", []byte("x")))
	if !errors.Is(err, coordinator.ErrNoAuth) || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("an identity of a scheme that servers do not have: %v, want ErrNoAuth that names the scheme", err)
	}
	_, err = c.Mutex("/list", coordinator.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}})).Acquire(t.Context()).Wait(t.Context())
	if !errors.Is(err, zk.ErrInvalidACL) || !strings.Contains(err.Error(), "one of:") {
		t.Errorf("a list of a scheme that servers do not have: %v, want each reason that there may be", err)
	}

	for range 2 {
		coordtest.ConnectReal(t, e.Connect(), known)
	}
	soon, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if _, err = coordinator.Connect(soon, e.Connect()); err == nil || !strings.Contains(err.Error(), "maxClientCnxns") {
		t.Errorf("a connection too many: %v, want the limits among the reasons", err)
	}
}
