package coordinator_test

import (
	"cmp"
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

const longTickMessage = "the servers' tickTime seems longer than WithTickTime says, so a loss may be reported too late"

// connected is a hook that keeps the news of new sessions.
type connected chan events.Connected

func (c connected) OnEvent(ev events.Event) {
	if now, is := ev.(events.Connected); is {
		c <- now
	}
}

// wantLongTick checks the warning and the event. A tick of 6 s gives sessions 12 s at
// least.
func wantLongTick(t *testing.T, logs *observer.ObservedLogs, heard connected, told, want time.Duration) {
	t.Helper()
	now := <-heard
	expect(t, now.Timeout == 12*time.Second && now.LongTick == want,
		"the session has a timeout of %v and a LongTick of %v, want 12s and %v", now.Timeout, now.LongTick, want)
	lines := logs.FilterMessage(longTickMessage).AllUntimed()
	expect(t, len(lines) == 1 == (want > 0) && len(lines) < 2,
		"%d lines warn of the tick, want one if LongTick is not 0", len(lines))
	for _, line := range lines {
		f := line.ContextMap()
		expect(t, f["tickTime"] == want && f["told"] == told,
			"the warning says %v, want a tickTime of %v and %v told", f, want, told)
	}
}

// TestALongTickIsTold once, unless WithTickTime has it.
func TestALongTickIsTold(t *testing.T) {
	const tick = 6 * time.Second
	for _, test := range []struct{ timeout, told, want time.Duration }{
		{10 * time.Second, 0, tick}, {10 * time.Second, 5 * time.Second, tick}, {12 * time.Second, tick, 0},
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(tick))
			core, logs := observer.New(zap.WarnLevel)
			heard := make(connected, 8)
			c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)), coordinator.WithHooks(heard),
				coordinator.WithSessionTimeout(test.timeout), coordinator.WithTickTime(test.told))
			wantLongTick(t, logs, heard, cmp.Or(test.told, 2*time.Second), test.want)
			before := logs.FilterMessage(longTickMessage).Len()
			srv.Cut(c.SessionID())
			time.Sleep(time.Minute)
			n := logs.FilterMessage(longTickMessage).Len()
			expect(t, n == before, "after a reconnect %d lines warn of the tick, want %d as before", n, before)
		})
	}
}

// The server has a tick of 6 s, takes three connections from one address and 64 KiB in a
// request, and on 3.7 or newer wants a digest.
func TestRealTheServersAnswersAreSaid(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(6*time.Second), ensemble.Line("maxClientCnxns", "3"),
		ensemble.Property("jute.maxbuffer", "65536"), ensemble.Property("zookeeper.enforce.auth.enabled", "true"),
		ensemble.Property("zookeeper.enforce.auth.schemes", "digest"))
	version, err := e.Version(t.Context(), 0)
	eventstest.Must(t, err)
	known := coordinator.WithAuth("digest", []byte("app:secret"))
	says := func(what string, err, want error, text string) {
		t.Helper()
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s is told %v, want %v that says %q", what, err, want, text)
		}
	}

	core, logs := observer.New(zap.WarnLevel)
	heard := make(connected, 8)
	c := coordtest.ConnectReal(t, e.Connect(), known, coordinator.WithLogger(zap.New(core)), coordinator.WithHooks(heard))
	wantLongTick(t, logs, heard, 2*time.Second, 6*time.Second)

	ctx, cancel := context.WithCancel(eventstest.Patiently(t, coordtest.RealMax))
	large := c.Mutex("/large").Acquire(ctx, coordinator.Data(make([]byte, 100_000)))
	lost := logs.FilterMessage(connectionLost)
	for ; lost.Len() == 0; lost = logs.FilterMessage(connectionLost) {
		select {
		case <-large.Done():
			t.Fatalf("an acquisition that the server does not take has ended with %v, want it tried again", large.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	<-large.Done()
	cause, _ := lost.All()[0].ContextMap()["error"].(string)
	expect(t, strings.Contains(cause, "jute.maxbuffer") && strings.Contains(cause, "bytes was under way"),
		"the connection that a large request has cost was lost because of %q, want the request named", cause)

	if !strings.HasPrefix(version, "3.4") && !strings.HasPrefix(version, "3.5") && !strings.HasPrefix(version, "3.6") {
		stranger := coordtest.ConnectReal(t, e.Connect())
		_, err = stranger.Mutex("/strange").Acquire(t.Context()).Wait(t.Context())
		says("a session without an identity", err, coordinator.ErrNoAuth, "require SASL, or another identity")
		eventstest.Check(t, stranger.Close())
	}
	_, err = coordinator.Connect(coordtest.RealContext(t), e.Connect(), coordinator.WithAuth("nonsense", []byte("x")))
	says("an identity of a scheme that servers do not have", err, coordinator.ErrNoAuth, `"nonsense"`)
	acl := coordinator.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}})
	_, err = c.Mutex("/list", acl).Acquire(t.Context()).Wait(t.Context())
	says("a list of a scheme that servers do not have", err, zk.ErrInvalidACL, "one of:")

	for range 2 {
		coordtest.ConnectReal(t, e.Connect(), known)
	}
	soon, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	_, err = coordinator.Connect(soon, e.Connect())
	says("a connection too many", err, nil, "maxClientCnxns")
}
