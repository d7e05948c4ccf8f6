package coordinator_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// victim is a session whose connection or request a server ends, with its log.
type victim struct {
	*coordinator.Coordinator

	logs *observer.ObservedLogs
}

func newVictim(t *testing.T, servers string, more ...coordinator.Option) victim {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	options := append([]coordinator.Option{coordinator.WithSessionTimeout(4 * time.Second), coordinator.WithLogger(zap.New(core))}, more...)
	return victim{coordtest.ConnectReal(t, servers, options...), logs}
}

// reads waits for a line of the log whose error contains the words.
func (v victim) reads(t *testing.T, message string, words ...string) {
	t.Helper()
	eventstest.Eventually(t, message+": "+strings.Join(words, ", "), func() bool {
		return slices.ContainsFunc(v.logs.FilterMessage(message).All(), func(line observer.LoggedEntry) bool {
			text, _ := line.ContextMap()["error"].(string)
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
		})
	}, func() string { return fmt.Sprintf("%+v", v.logs.AllUntimed()) })
}

// isRefused checks that Connect fails with an error that contains the words.
func isRefused(t *testing.T, servers string, words []string, more ...coordinator.Option) {
	t.Helper()
	more = append(more, coordinator.WithSessionTimeout(4*time.Second))
	c, err := coordinator.Connect(within(t, 3*time.Second), servers, more...)
	if err == nil {
		t.Error("a session is made, want it refused", c.Close())
		return
	}
	for _, word := range words {
		says(t, "no session", err, word)
	}
}

const (
	connectionLost = "connection lost; the session may still be alive"
	netty          = "org.apache.zookeeper.server.NettyServerCnxnFactory"
)

// TestRealEndings provokes the ways in which a server ends a connection or a request
// early, except those of TestRealTheServersAnswersAreSaid.
func TestRealEndings(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("TestTheEndOfAConnectionIsExplained and TestRequestsThatAreTurnedAwayAreSaid have the words; ZKGRANT_FULL=1 runs this one")
	}
	refusesTheSecond := func(word string) func(*testing.T, *ensemble.Ensemble) {
		return func(t *testing.T, e *ensemble.Ensemble) {
			newVictim(t, e.Addr(0))
			isRefused(t, e.Addr(0), []string{"one of:", word})
		}
	}
	for _, c := range []struct {
		name  string
		since string // the first version of the servers that does it
		n     int
		how   []ensemble.Setting
		play  func(*testing.T, *ensemble.Ensemble)
	}{
		{"the server has lost its data", "3.4", 1, nil, func(t *testing.T, e *ensemble.Ensemble) {
			v := newVictim(t, e.Addr(0))
			coordtest.HoldReal(t, v.Mutex(lockPath))
			eventstest.Must(t, e.Kill(0))
			eventstest.Must(t, os.RemoveAll(filepath.Join(e.DataDir(0), "version-2")))
			eventstest.Must(t, e.Restart(0))
			v.reads(t, "no server resumes the session; giving it up", "its data are older than what this client has seen")
			coordtest.HoldReal(t, v.Mutex(lockPath))
		}},
		{"the server is shut down", "3.4", 1, nil, func(t *testing.T, e *ensemble.Ensemble) {
			v := newVictim(t, e.Addr(0))
			process, err := os.FindProcess(e.Pid(0))
			eventstest.Must(t, err)
			eventstest.Must(t, process.Signal(syscall.SIGTERM))
			v.reads(t, connectionLost, "closed the connection")
			v.reads(t, "no server can be used", "connection refused")
			eventstest.Must(t, e.Kill(0))
			eventstest.Must(t, e.Restart(0))
			eventstest.Must(t, v.Ready(coordtest.RealContext(t)))
		}},
		{"large requests", "3.6", 1, []ensemble.Setting{
			ensemble.Property("zookeeper.largeRequestThreshold", "20000"), ensemble.Property("zookeeper.largeRequestMaxBytes", "50000"),
		}, func(t *testing.T, e *ensemble.Ensemble) {
			v := newVictim(t, e.Addr(0))
			large := v.Mutex(lockPath).Acquire(within(t, 2*time.Second), coordinator.Data(make([]byte, 60_000)))
			v.reads(t, connectionLost, "bytes was under way", "largeRequestMaxBytes")
			<-large.Done()
		}},
		{"tokens for connections", "3.6", 1, []ensemble.Setting{
			ensemble.Property("zookeeper.connection_throttle_tokens", "1"), ensemble.Property("zookeeper.connection_throttle_fill_time", "1000000"),
		}, refusesTheSecond("connection throttling")},
		{"too many connections in all", "3.6", 1, []ensemble.Setting{
			ensemble.Line("maxCnxns", "1"),
		}, refusesTheSecond("maxCnxns")},
		{"too many connections, over Netty", "3.6", 1, []ensemble.Setting{
			ensemble.Line("maxClientCnxns", "1"), ensemble.Property("zookeeper.serverCnxnFactory", netty),
		}, refusesTheSecond("maxClientCnxns")},
		{"another ensemble", "3.6", 1, []ensemble.Setting{
			ensemble.Property("zookeeper.ensembleAuthName", "here"),
			ensemble.Property("zookeeper.authProvider.ensemble", "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"),
		}, func(t *testing.T, e *ensemble.Ensemble) {
			newVictim(t, e.Addr(0), coordinator.WithAuth("ensemble", []byte("here")))
			isRefused(t, e.Addr(0), []string{`identity of scheme "ensemble"`, "of another ensemble"}, coordinator.WithAuth("ensemble", []byte("there")))
		}},
		{"local sessions", "3.5", 3, []ensemble.Setting{ensemble.Line("localSessionsEnabled", "true")}, func(t *testing.T, e *ensemble.Ensemble) {
			a := newVictim(t, e.Connect()).Mutex(lockPath).Acquire(t.Context())
			says(t, "a lock of a local session", coordtest.EndOf(t, a), "the server makes local sessions")
		}},
		{"a quota that makes no sense", "3.7", 1, []ensemble.Setting{ensemble.Property("zookeeper.enforceQuota", "true")}, func(t *testing.T, e *ensemble.Ensemble) {
			makeNodes(t, coordtest.RawClient(t, e.Addr(0)), [2]string{"/limited"}, [2]string{"/zookeeper/quota/limited"},
				[2]string{"/zookeeper/quota/limited/zookeeper_limits", "nonsense"}, [2]string{"/zookeeper/quota/limited/zookeeper_stats", "nonsense"})
			v := newVictim(t, e.Addr(0))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a := v.Mutex("/limited/lock").Acquire(ctx)
			v.reads(t, turnedAwayMessage, "the server failed at the request; its log has the reason")
			cancel()
			<-a.Done()
		}},
		{"throttled requests", "3.7", 1, []ensemble.Setting{
			ensemble.Property("zookeeper.request_throttle_max_requests", "1"), ensemble.Property("zookeeper.throttled_op_wait_time", "1"),
		}, throttledReally},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := ensemble.Start(t, c.n, c.how...)
			version, err := e.Version(t.Context(), 0)
			eventstest.Must(t, err)
			if !ensemble.Since(version, c.since) {
				t.Skipf("ZooKeeper %s lacks this ending; %s has it", version, c.since)
			}
			c.play(t, e)
		})
	}
}

// throttledReally makes a server refuse requests because of other clients. A session
// keeps its locks, and sends few requests beyond its probes.
func throttledReally(t *testing.T, e *ensemble.Ensemble) {
	var made, away atomic.Int64
	v := newVictim(t, e.Addr(0), coordinator.WithSessionTimeout(10*time.Second), session.OptionFunc(func(c *session.Config) {
		c.OnRequest = func(r session.Request) {
			if r.Op != "ping" {
				made.Add(1)
			}
			if r.Err != nil && strings.Contains(r.Err.Error(), "throttled") {
				away.Add(1)
			}
		}
	}))
	other := coordtest.ConnectReal(t, e.Addr(0))
	var held []*coordinator.Acquisition
	for i := range 20 {
		a, _ := coordtest.HoldReal(t, v.Mutex(lockNumber(i)))
		held = append(held, a)
		coordtest.HoldReal(t, other.Mutex(lockNumber(100+i)))
		v.Mutex(lockNumber(100 + i)).Acquire(t.Context())
		released, _ := coordtest.HoldReal(t, v.Mutex(lockNumber(200+i)))
		coordtest.End(released)
	}
	crowd := coordtest.RawClient(t, e.Addr(0))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = crowd.Exists("/") // most of them are turned away
			}
		})
	}
	eventstest.Eventually(t, "a request is turned away", func() bool { return away.Load() > 0 })
	const length, most = 30 * time.Second, 5 // requests a second
	before, beforeAway := made.Load(), away.Load()
	time.Sleep(length) // not a wait for a condition: requests are counted over this time
	n := made.Load() - before
	expect(t, n <= most*int64(length/time.Second),
		"%d requests in %v, %d of them turned away; want %d a second", n, length, away.Load()-beforeAway, most)
	v.reads(t, turnedAwayMessage, "throttled by the server")
	cancel()
	all.Wait()
	for _, a := range held {
		coordtest.NotLost(t, a)
	}
}

const longTickMessage = "the servers' tickTime seems longer than WithTickTime says, so a loss may be reported too late"

type connected chan events.Connected

func (c connected) OnEvent(ev events.Event) {
	if now, is := ev.(events.Connected); is {
		c <- now
	}
}

// wantLongTick checks the warning and the event. With a tick of 6 s, sessions time out
// after 12 s.
func wantLongTick(t *testing.T, logs *observer.ObservedLogs, heard connected, told, want time.Duration) {
	t.Helper()
	now := <-heard
	expect(t, now.Timeout == 12*time.Second && now.LongTick == want, "%+v, want 12s, LongTick %v", now, want)
	lines := logs.FilterMessage(longTickMessage).AllUntimed()
	expect(t, len(lines) == 1 == (want > 0) && len(lines) < 2, "%d warnings, want 1 or 0", len(lines))
	for _, line := range lines {
		f := line.ContextMap()
		expect(t, f["tickTime"] == want && f["assumed"] == told, "warned: %v, want %v, assumed %v", f, want, told)
	}
}

// TestALongTickIsTold once, unless WithTickTime allows for it.
func TestALongTickIsTold(t *testing.T) {
	const tick = 6 * time.Second
	for _, test := range []struct{ timeout, told, want time.Duration }{
		{10 * time.Second, 0, tick}, {10 * time.Second, 5 * time.Second, tick}, {12 * time.Second, tick, 0},
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(tick))
			heard := make(connected, 8)
			c, logs := logged(t, srv, zap.WarnLevel, coordinator.WithHooks(heard),
				coordinator.WithSessionTimeout(test.timeout), coordinator.WithTickTime(test.told))
			wantLongTick(t, logs, heard, cmp.Or(test.told, 2*time.Second), test.want)
			before := logs.FilterMessage(longTickMessage).Len()
			srv.Cut(c.SessionID())
			time.Sleep(time.Minute)
			expectEqual(t, logs.FilterMessage(longTickMessage).Len(), before, "warnings of the tick after a reconnect")
		})
	}
}

// The server has a tick of 6 s, accepts three connections from one address and requests
// of up to 64 KiB, and since 3.7 requires a digest.
func TestRealTheServersAnswersAreSaid(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(6*time.Second), ensemble.Line("maxClientCnxns", "3"),
		ensemble.Property("jute.maxbuffer", "65536"), ensemble.Property("zookeeper.enforce.auth.enabled", "true"),
		ensemble.Property("zookeeper.enforce.auth.schemes", "digest"))
	version, err := e.Version(t.Context(), 0)
	eventstest.Must(t, err)
	known, heard := coordinator.WithAuth("digest", []byte("app:secret")), make(connected, 8)
	timeout := coordinator.WithSessionTimeout(10 * time.Second)
	c := newVictim(t, e.Connect(), timeout, known, coordinator.WithHooks(heard))
	wantLongTick(t, c.logs, heard, 2*time.Second, 6*time.Second)

	ctx, cancel := context.WithCancel(t.Context())
	large := c.Mutex("/large").Acquire(ctx, coordinator.Data(make([]byte, 100_000)))
	c.reads(t, connectionLost, "jute.maxbuffer", "bytes was under way")
	expect(t, !coordtest.IsClosed(large.Done()), "too large a request: %v, want it retried", large.Err())
	cancel()
	<-large.Done()

	if ensemble.Since(version, "3.7") {
		stranger := coordtest.ConnectReal(t, e.Connect())
		_, err = stranger.Mutex("/strange").Acquire(t.Context()).Wait(t.Context())
		expectError(t, err, coordinator.ErrNoAuth, "a session without an identity")
		says(t, "a session without an identity", err, "require SASL, or another identity")
		eventstest.Check(t, stranger.Close())
	}
	_, err = coordinator.Connect(coordtest.RealContext(t), e.Connect(), coordinator.WithAuth("nonsense", []byte("x")))
	expectError(t, err, coordinator.ErrNoAuth, "an identity of a scheme that servers do not have")
	says(t, "an identity of a scheme that servers do not have", err, `"nonsense"`)
	acl := coordinator.ACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}})
	_, err = c.Mutex("/list", acl).Acquire(t.Context()).Wait(t.Context())
	expectError(t, err, zk.ErrInvalidACL, "a list of a scheme that servers do not have")
	says(t, "a list of a scheme that servers do not have", err, "one of:")

	restoresManyWatches(t, c, e.Connect(), timeout, known)

	for range 2 {
		coordtest.ConnectReal(t, e.Connect(), known)
	}
	_, err = coordinator.Connect(within(t, 2*time.Second), e.Connect())
	says(t, "a connection too many", err, "maxClientCnxns")
}

// restoresManyWatches checks that a session with more watched bytes than one request may
// have resumes after a reconnect. c holds the locks for which the session waits.
func restoresManyWatches(t *testing.T, c victim, server string, options ...coordinator.Option) {
	t.Helper()
	const locks = 600
	path := func(i int) string { return fmt.Sprintf("/%0150d", i) }
	proxy := ensemble.StartProxy(t, server)
	waiter := newVictim(t, proxy.Addr(), options...)
	var held, waiting []*coordinator.Acquisition
	for i := range locks {
		held = append(held, c.Mutex(path(i)).Acquire(t.Context()))
	}
	for i := range locks {
		coordtest.GrantOf(t, held[i])
		waiting = append(waiting, waiter.Mutex(path(i)).Acquire(t.Context()))
	}
	eventstest.Eventually(t, "all wait", func() bool {
		return !slices.ContainsFunc(waiting, func(a *coordinator.Acquisition) bool {
			ahead, placed := a.Position()
			return !placed || ahead != 1
		})
	})
	proxy.Cut()
	eventstest.Eventually(t, "the session is resumed", func() bool {
		return waiter.logs.FilterMessage("session resumed").Len() > 0
	}, func() string { return fmt.Sprintf("%+v", waiter.logs.AllUntimed()) })
	for i, a := range held {
		a.Release()
		coordtest.GrantOf(t, waiting[i])
		waiting[i].Release()
	}
	eventstest.Check(t, waiter.Close())
}
