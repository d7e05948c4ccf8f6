package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// opened returns a coordinator without waiting for its session. It is closed at the end
// of the test.
func opened(t *testing.T, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Open(servers, options...)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	return c
}

// playFirst makes every call that a program may make before there is a session. No result
// arrives before heal is called, and every result does afterwards.
func playFirst(ctx context.Context, t *testing.T, c *coordinator.Coordinator, at string, waits, heal func()) {
	t.Helper()
	lock, election := c.Mutex(at+"/lock"), c.Election(at+"/leader")
	stream, leaders, results := c.Events(ctx), election.Observe(ctx), make(chan error, 2)
	locks := map[string]*coordinator.Acquisition{
		"mutex": lock.Acquire(ctx), "candidate": election.Acquire(ctx, named("me")),
		"semaphore": c.Semaphore(at+"/permits", 2).Acquire(ctx, coordinator.Permits(2)),
	}
	go func() {
		_, err := lock.Queue(ctx)
		results <- err
	}()
	go func() { results <- c.Ready(ctx) }()
	waits()
	expectEqual(t, c.State(), coordinator.StateConnecting, "the state before there is a server")
	expectEqual(t, c.SessionID(), 0, "the session before there is a server")
	for name, a := range locks {
		expect(t, !a.Valid() && !coordtest.IsClosed(a.Done()),
			"before there is a server the %s is held: %v, or over: %v", name, a.Valid(), a.Err())
	}
	expectEqual(t, len(results)+len(leaders), 0, "results of Ready, Queue and Observe before there is a server")
	heal()
	_, connected := eventstest.Receive(t, stream, "an event").(events.Connected)
	expect(t, connected, "the first event is another than Connected")
	for range 2 {
		eventstest.Check(t, eventstest.Receive(t, results, "Ready and Queue"))
	}
	for _, a := range locks {
		coordtest.GrantOf(t, a)
	}
	for l := range leaders {
		if string(l.Data) == "me" {
			return
		}
	}
	t.Error("the observer's channel is closed, want it to tell the leader")
}

func TestEverythingMayBeAskedForBeforeThereIsAServer(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Down(true)
		start := time.Now()
		c := opened(t, srv.Addr(), srv.Option())
		playFirst(t.Context(), t, c, "", func() {
			expectEqual(t, time.Since(start), 0, "Open and what was asked for took")
			time.Sleep(time.Hour)
		}, func() { srv.Down(false) })
	})
}

func TestRealEverythingMayBeAskedForBeforeThereIsAServer(t *testing.T) {
	eventstest.NeedsServers(t)
	proxy := ensemble.StartProxy(t, coordtest.Servers(t, 1).Addr(0))
	proxy.Refuse(true)
	c := opened(t, proxy.Addr())
	playFirst(coordtest.RealContext(t), t, c, "/real-open", func() {
		err := c.Ready(within(t, time.Second))
		expect(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), proxy.Addr()),
			"while the server refuses, Ready = %v, want the end of its context and the server's address", err)
	}, proxy.Heal)
}

// TestATryIsBounded: a Try of any kind ends when no server has answered for T or 10 s,
// whichever is shorter, or by its own bounds. The error does not claim that another
// contender has the lock.
func TestATryIsBounded(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for _, mute := range []bool{false, true} { // false: there never is a session
			coordtest.Case(t, fmt.Sprint("mute ", mute, ", T ", timeout), func(t *testing.T, srv *zktest.Server) {
				srv.Down(!mute)
				c := opened(t, srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout))
				writer := c.ReadWrite("/downgrade").Write().Acquire(t.Context())
				if mute {
					coordtest.Soon(t, writer)
					srv.MuteAll(true)
				}
				why := errors.New("too late")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
				defer cancel()
				start, bound := time.Now(), min(timeout, 10*time.Second)
				var all sync.WaitGroup
				ends := func(a *coordinator.Acquisition, by time.Duration, wants ...error) {
					all.Go(func() {
						<-a.Done()
						took, err := time.Since(start), a.Err()
						for _, want := range wants {
							expectError(t, err, want, "the end")
						}
						expect(t, took <= by+time.Second/10 && !errors.Is(err, coordinator.ErrNotAcquired),
							"it ended after %v with %v, want within %v, and not ErrNotAcquired", took, err, by)
					})
				}
				l, try, late := c.Mutex("/bounded"), coordinator.Try(), coordinator.MaxWait(bound+time.Second)
				kinds := handlesOf(c)
				kinds["kazoo"] = c.Mutex("/kazoo", coordinator.AsKazoo())
				kinds["crash"] = c.Mutex("/crash", coordinator.DetectCrash())
				for _, kind := range kinds {
					ends(kind.Acquire(t.Context(), try), bound, coordinator.ErrNoSession)
				}
				if mute { // a reader in the place of a writer, which need not wait for others
					inside := context.WithoutCancel(writer.Context(t.Context()))
					ends(c.ReadWrite("/downgrade").Read().Acquire(inside, try), bound, coordinator.ErrNoSession)
				}
				ends(l.Acquire(ctx, try), time.Second, why)
				ends(l.Acquire(t.Context(), try, late), bound+time.Second,
					coordinator.ErrTimeout, coordinator.ErrNoSession, context.DeadlineExceeded)
				// Without Try, it also waits until its connection is given up.
				ends(l.Acquire(t.Context(), late), max(bound+time.Second, timeout*2/3),
					coordinator.ErrTimeout, coordinator.ErrNoSession)
				all.Wait()
				srv.MuteAll(false)
			})
		}
	}
}

// TestATryOutlivesABriefOutage, and its limit does not end it once a server is back.
func TestATryOutlivesABriefOutage(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Down(true)
		a := opened(t, srv.Addr(), srv.Option()).Mutex(lockPath).Acquire(t.Context(), coordinator.Try())
		time.Sleep(time.Second)
		srv.Down(false)
		coordtest.Soon(t, a)
		time.Sleep(time.Minute)
		expect(t, a.Valid(), "a lock that a Try has got is lost: %v", a.Err())
	})
}

// TestRefusedIdentityIsNotForEver: Ready reports a refused identity at once. If the
// identity is accepted later, there is a session.
func TestRefusedIdentityIsNotForEver(t *testing.T) {
	const wait = 10 * time.Minute
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		strike(srv, zktest.Fail(zktest.AuthFailed), isA(zktest.OpAuth))
		start := time.Now()
		c := opened(t, srv.Addr(), srv.Option(), coordinator.WithAuth("digest", []byte("u:p")), coordinator.WithLogger(zap.New(core)))
		waiting := c.Mutex(lockPath).Acquire(t.Context())
		for range 2 { // the second call reports it again
			expectError(t, c.Ready(t.Context()), coordinator.ErrNoAuth, "Ready")
			expect(t, time.Since(start) <= 2*time.Second, "Ready takes %v, want 2 s at most", time.Since(start))
		}
		for time.Since(start) < wait {
			time.Sleep(time.Second)
			srv.CutAll() // as a server does after it refused an identity
		}
		expectEqual(t, logs.FilterMessage("the identities were not accepted").Len(), 1, "lines about the refusal")
		wantNotices(t, logs, wait, coordinator.ErrNoAuth.Error())
		srv.Intercept(nil)
		srv.CutAll()
		coordtest.Soon(t, waiting)
		eventstest.Check(t, c.Ready(t.Context()))
	})
}

const unusable = "no server can be used"

// wantNotices checks that the outage was logged after three seconds and then once a
// minute, with its cause.
func wantNotices(t *testing.T, logs *observer.ObservedLogs, outage time.Duration, cause string) {
	t.Helper()
	told := logs.FilterMessage(unusable).AllUntimed()
	expectEqual(t, len(told), 1+int((outage-3*time.Second)/time.Minute), "lines about an outage of %v", outage)
	for i, line := range told {
		fields, since := line.ContextMap(), 3*time.Second+time.Duration(i)*time.Minute
		says := strings.Contains(fmt.Sprint(fields["error"]), cause)
		expect(t, line.Level == zap.WarnLevel && says && fields["for"] == since,
			"line %d is %v with %v, want a warning at %v with the cause %q", i+1, line, fields, since, cause)
	}
	logs.TakeAll()
}

// outages cut every session off from the servers.
var outages = map[string]func(srv *zktest.Server, on bool){
	"down": (*zktest.Server).Down,
	"mute": func(srv *zktest.Server, on bool) {
		srv.MuteAll(on)
		if on {
			srv.CutAll()
		}
	},
}

func TestAnOutageIsLoggedSeldomWithItsCause(t *testing.T) {
	const outage = 10 * time.Minute
	for name, fault := range outages {
		cause := map[string]string{"down": "refused"}[name] // during the first attempt there is none yet
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			core, logs := observer.New(zap.WarnLevel)
			none := func(when string) {
				t.Helper()
				time.Sleep(outage)
				expectEqual(t, logs.FilterMessage(unusable).Len(), 0, "warnings %s", when)
			}
			fault(srv, true)
			co := opened(t, srv.Addr(), srv.Option(), coordinator.WithLogger(zap.New(core)))
			time.Sleep(outage)
			wantNotices(t, logs, outage, cause)
			fault(srv, false)
			eventstest.Must(t, co.Ready(t.Context()))
			none("with a session")
			fault(srv, true)
			synctest.Wait()
			time.Sleep(outage)
			wantNotices(t, logs, outage, cause)
			fault(srv, false)
			time.Sleep(time.Minute)
			srv.Cut(co.SessionID()) // a short outage is not worth a warning
			none("after a cut")
		})
	}
}

func TestReadyEndsWithClose(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Down(true)
		c := opened(t, srv.Addr(), srv.Option())
		ready := inBackground(func() error { return c.Ready(t.Context()) })
		synctest.Wait()
		eventstest.Check(t, c.Close())
		synctest.Wait()
		expectEqual(t, len(ready), 1, "Ready has returned after Close")
		expectError(t, eventstest.Receive(t, ready, "the end of Ready"), coordinator.ErrClosed, "Ready")
		srv.Down(false)
		once := coordtest.Connect(t, srv)
		eventstest.Check(t, once.Close())
		expectError(t, once.Ready(t.Context()), coordinator.ErrClosed, "Ready after Close of one that was ready")
	})
}

// TestConnectThatFailsIsOver: no server is dialled any more, and no goroutine is left,
// which the bubble checks.
func TestConnectThatFailsIsOver(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		srv.MuteAll(true)
		ctx, start := within(t, time.Second), time.Now()
		_, err := coordinator.Connect(ctx, srv.Addr(), srv.Option(), coordinator.WithLogger(zap.New(core)))
		took := time.Since(start)
		expect(t, errors.Is(err, context.DeadlineExceeded) && took <= 1200*time.Millisecond,
			"Connect = %v after %v, want the end of its context within 1.2s", err, took)
		time.Sleep(time.Hour)
		expect(t, logs.Len() == 0, "after a Connect that failed there are the warnings %v, want none", logs.All())
	})
}

func TestATimeoutThatServersChangeIsLogged(t *testing.T) {
	const asked = 10 * time.Second
	for granted, asks := range map[time.Duration]time.Duration{
		4 * time.Second: asked, asked: asked + time.Microsecond, // servers count in milliseconds
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(granted/20))
			c, logs := logged(t, srv, zap.WarnLevel, coordinator.WithSessionTimeout(asks))
			for range 2 {
				var got []string
				for _, line := range logs.FilterMessage("the servers have changed the session timeout").AllUntimed() {
					got = append(got, fmt.Sprint(line.ContextMap()["asked"], " ", line.ContextMap()["granted"]))
				}
				want := ""
				if granted < asked {
					want = fmt.Sprint(asks, " ", granted)
				}
				expectEqual(t, strings.Join(got, ", "), want, "warned is of the timeouts asked for and granted")
				srv.Cut(c.SessionID())
				time.Sleep(time.Minute) // no second warning follows
			}
		})
	}
}

// TestNilStandsForTheDefault: a nil logger or dialer resets the option.
func TestNilStandsForTheDefault(t *testing.T) {
	srv := zktest.Start(t)
	core, logs := observer.New(zap.DebugLevel)
	nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") }
	c, err := coordinator.Connect(eventstest.Patiently(t, coordtest.RealMax), srv.Addr(),
		coordinator.WithLogger(zap.New(core)), coordinator.WithLogger(nil), coordinator.WithDialer(nobody), coordinator.WithDialer(nil))
	eventstest.Must(t, err)
	coordtest.HoldReal(t, c.Mutex(lockPath))
	eventstest.Check(t, c.Close())
	expectEqual(t, logs.Len(), 0, "lines of a logger that WithLogger(nil) follows")
}

// TestMaxWaitOfATryWhoseGrantIsNotTaken: MaxWait ends it, in a group, too.
func TestMaxWaitOfATryWhoseGrantIsNotTaken(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, g := coordtest.Connect(t, srv), newGroup(t)
		options := []coordinator.AcquireOption{coordinator.Try(), coordinator.MaxWait(time.Second)}
		all := map[string]*coordinator.Acquisition{}
		for kind, h := range handlesOf(c) {
			all[kind] = h.Acquire(t.Context(), options...)
			all["a group's "+kind] = g.Acquire(t.Context(), c.Mutex("/g/"+kind), options...)
		}
		time.Sleep(time.Second / 2)
		for kind, a := range all {
			expect(t, a.Valid(), "%s is not held: %v", kind, a.Err())
		}
		time.Sleep(time.Second)
		for kind, a := range all {
			expect(t, !a.Valid(), "nobody took the Grant of %s within MaxWait, and it is valid", kind)
			expectError(t, a.Err(), coordinator.ErrTimeout, kind)
		}
	})
}
