package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
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

// opened returns a coordinator that has not waited for a session. It is closed at the end of the test.
func opened(t *testing.T, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Open(servers, options...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// first is everything that a program may ask for before there is a session, and its results.
type first struct {
	held, behind, term, tried *coordinator.Acquisition

	stream  <-chan events.Event
	leaders <-chan events.Leader
	queue   chan error
	ready   chan error
}

func askFirst(ctx context.Context, c *coordinator.Coordinator, root string) *first {
	f := &first{queue: make(chan error, 1), ready: make(chan error, 1)}
	f.stream = c.Events(ctx)
	lock, election := c.Mutex(root+"/lock"), c.Election(root+"/leader")
	f.leaders = election.Observe(ctx)
	f.held = lock.Acquire(ctx)
	f.term = election.Campaign(ctx, coordinator.WithData([]byte("me")))
	f.tried = c.Mutex(root+"/tried").Acquire(ctx, coordinator.Try())
	f.behind = c.Semaphore(root+"/permits", 2).Acquire(ctx, coordinator.WithPermits(2))
	go func() {
		_, err := lock.Queue(ctx)
		f.queue <- err
	}()
	go func() { f.ready <- c.Ready(ctx) }()
	return f
}

// waits checks that there is no result yet.
func (f *first) waits(t *testing.T, c *coordinator.Coordinator) {
	t.Helper()
	if state, id := c.State(), c.SessionID(); state != coordinator.StateConnecting || id != 0 {
		t.Errorf("before there is a server the coordinator is %v with session %#x, want it connecting, with none", state, id)
	}
	for name, a := range map[string]*coordinator.Acquisition{"mutex": f.held, "candidate": f.term, "try": f.tried, "semaphore": f.behind} {
		if a.Valid() || coordtest.IsClosed(a.Done()) {
			t.Errorf("before there is a server the %s is held: %v, over: %v (%v); want it to wait", name, a.Valid(), coordtest.IsClosed(a.Done()), a.Err())
		}
	}
	if len(f.ready) > 0 || len(f.queue) > 0 || len(f.leaders) > 0 {
		t.Errorf("before there is a server Ready has returned: %d, Queue: %d, a leader was told: %d; want 0", len(f.ready), len(f.queue), len(f.leaders))
	}
}

// comes checks that every result comes when there is a server.
func (f *first) comes(t *testing.T) {
	t.Helper()
	if ev, ok := eventstest.Receive(t, f.stream, "the first event").(events.Connected); !ok {
		t.Errorf("the first event is %+v, want Connected", ev)
	}
	eventstest.Check(t, eventstest.Receive(t, f.ready, "Ready"))
	eventstest.Check(t, eventstest.Receive(t, f.queue, "Queue"))
	go func() { // the Grants are taken by the stream or the waits
		for range f.stream {
		}
	}()
	for _, a := range []*coordinator.Acquisition{f.held, f.term, f.tried, f.behind} {
		coordtest.GrantOf(t, a)
	}
	for l := range f.leaders {
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
		f := askFirst(t.Context(), c, "")
		if took := time.Since(start); took != 0 {
			t.Errorf("Open and what was asked for after it took %v, want no time", took)
		}
		time.Sleep(time.Hour)
		f.waits(t, c)
		srv.Down(false)
		f.comes(t)
	})
}

func TestRealEverythingMayBeAskedForBeforeThereIsAServer(t *testing.T) {
	eventstest.NeedsServers(t)
	proxy := ensemble.StartProxy(t, coordtest.Servers(t, 1).Addr(0))
	proxy.Refuse(true)
	c := opened(t, proxy.Addr())
	f := askFirst(coordtest.RealContext(t), c, "/real-open")
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Ready(soon); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), proxy.Addr()) {
		t.Errorf("while the server refuses, Ready = %v, want the end of its context and the server's address", err)
	}
	f.waits(t, c)
	proxy.Heal()
	f.comes(t)
}

func TestATryBeforeThereIsASessionEndsWithItsContext(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"down": func(srv *zktest.Server) { srv.Down(true) },
		"mute": func(srv *zktest.Server) { srv.MuteAll(true) },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				fault(srv)
				c := opened(t, srv.Addr(), srv.Option())
				why := errors.New("too late")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
				defer cancel()
				start := time.Now()
				a := c.Mutex(lockPath).Acquire(ctx, coordinator.Try())
				<-a.Done()
				if took := time.Since(start); !errors.Is(a.Err(), why) || took != time.Second {
					t.Errorf("the try ended after %v with %v, want its context's cause after 1s", took, a.Err())
				}
				b := c.Mutex(lockPath).Acquire(t.Context(), coordinator.Try(), coordinator.WithMaxWait(time.Second))
				<-b.Done()
				if took := time.Since(start); !errors.Is(b.Err(), coordinator.ErrTimeout) || took != 2*time.Second {
					t.Errorf("the try with a bound of 1s ended after %v with %v, want ErrTimeout after 1s", took-time.Second, b.Err())
				}
			})
		})
	}
}

func TestOpenRefusesBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		servers string
		option  coordinator.Option
		want    error
	}{
		"no servers": {"", nil, coordinator.ErrConnectString},
		"a scheme":   {"zk://zk1:2181", nil, coordinator.ErrConnectString},
		"short":      {"zk1", coordinator.WithSessionTimeout(time.Second - 1), coordinator.ErrInvalid},
		"long":       {"zk1", coordinator.WithSessionTimeout(time.Hour + 1), coordinator.ErrInvalid},
	} {
		got, err := coordinator.Open(c.servers, c.option)
		if got != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: Open = %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestRefusedIdentityIsNotForEver: Ready reports a refused identity at once. If it is accepted later, there is a session.
func TestRefusedIdentityIsNotForEver(t *testing.T) {
	const wait = 10 * time.Minute
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpAuth {
				return zktest.Fail(zktest.AuthFailed)
			}
			return zktest.Pass()
		})
		start := time.Now()
		c := opened(t, srv.Addr(), srv.Option(), coordinator.WithAuth("digest", []byte("u:p")), coordinator.WithLogger(zap.New(core)))
		waiting := c.Mutex(lockPath).Acquire(t.Context())
		for range 2 { // and again
			if err := c.Ready(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) || time.Since(start) > 2*time.Second {
				t.Errorf("Ready = %v after %v, want ErrNoAuth within 2s", err, time.Since(start))
			}
		}
		for time.Since(start) < wait {
			time.Sleep(time.Second)
			srv.CutAll() // as a server does that has refused an identity
		}
		if n := logs.FilterMessage("the identities were not accepted").Len(); n != 1 {
			t.Errorf("in %v it was logged %d times that the identity is refused, want once", wait, n)
		}
		wantNotices(t, logs, "no server can be used", wait, coordinator.ErrNoAuth.Error())
		srv.Intercept(nil)
		srv.CutAll()
		coordtest.Soon(t, waiting)
		if err := c.Ready(t.Context()); err != nil {
			t.Errorf("when the identity is accepted Ready = %v, want nil", err)
		}
	})
}

// wantNotices checks that the outage was logged after three seconds, and from then on once a minute, with the cause.
func wantNotices(t *testing.T, logs *observer.ObservedLogs, message string, outage time.Duration, cause string) {
	t.Helper()
	told := logs.FilterMessage(message).AllUntimed()
	if want := 1 + int((outage-3*time.Second)/time.Minute); len(told) != want {
		t.Errorf("%q was logged %d times in %v, want %d times", message, len(told), outage, want)
	}
	for i, line := range told {
		fields := line.ContextMap()
		since := 3*time.Second + time.Duration(i)*time.Minute
		if got := fmt.Sprint(fields["error"]); line.Level != zap.WarnLevel || !strings.Contains(got, cause) || fields["for"] != since {
			t.Errorf("line %d is %v with %v, want a warning at %v with the cause %q", i+1, line, fields, since, cause)
		}
	}
	logs.TakeAll()
}

func TestAnOutageIsLoggedSeldomWithItsCause(t *testing.T) {
	const outage = 10 * time.Minute
	for name, c := range map[string]struct {
		fault func(srv *zktest.Server, on bool)
		cause string
	}{
		"down": {func(srv *zktest.Server, on bool) { srv.Down(on) }, "refused"},
		"mute": {func(srv *zktest.Server, on bool) {
			srv.MuteAll(on)
			if on {
				srv.CutAll()
			}
		}, ""}, // in the middle of a first attempt there is none yet
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(zap.WarnLevel)
				c.fault(srv, true)
				co := opened(t, srv.Addr(), srv.Option(), coordinator.WithLogger(zap.New(core)))
				time.Sleep(outage)
				wantNotices(t, logs, "no server can be used", outage, c.cause)
				c.fault(srv, false)
				eventstest.Must(t, co.Ready(t.Context()))
				time.Sleep(outage)
				if n := logs.FilterMessage("no server can be used").Len(); n != 0 {
					t.Errorf("with a session %d warnings were logged, want none", n)
				}
				c.fault(srv, true)
				synctest.Wait()
				time.Sleep(outage)
				wantNotices(t, logs, "no server can be used", outage, c.cause)
				c.fault(srv, false)
				time.Sleep(time.Minute)
				srv.Cut(co.SessionID()) // it is over before any caller needs to hear of it
				time.Sleep(outage)
				if n := logs.FilterMessage("no server can be used").Len(); n != 0 {
					t.Errorf("after a cut %d warnings were logged, want none", n)
				}
			})
		})
	}
}

func TestReadyEndsWithClose(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Down(true)
		c := opened(t, srv.Addr(), srv.Option())
		ready := make(chan error, 1)
		go func() { ready <- c.Ready(t.Context()) }()
		synctest.Wait()
		eventstest.Check(t, c.Close())
		synctest.Wait()
		if len(ready) == 0 {
			t.Fatal("after Close Ready still waits, want ErrClosed")
		}
		if err := <-ready; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Ready = %v, want ErrClosed", err)
		}
		srv.Down(false)
		once := coordtest.Connect(t, srv)
		eventstest.Check(t, once.Close())
		if err := once.Ready(t.Context()); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("after Close of one that was ready Ready = %v, want ErrClosed", err)
		}
	})
}

// TestConnectThatFailsIsOver: no server is dialled any more, and no goroutine is left, which the bubble checks.
func TestConnectThatFailsIsOver(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		srv.MuteAll(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := coordinator.Connect(ctx, srv.Addr(), srv.Option(), coordinator.WithLogger(zap.New(core)))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 1200*time.Millisecond {
			t.Errorf("Connect = %v after %v, want the end of its context within 1.2s", err, took)
		}
		time.Sleep(time.Hour)
		if n := logs.Len(); n != 0 {
			t.Errorf("after a Connect that failed %d warnings were logged, the first %v; want none", n, logs.All()[0])
		}
	})
}

func TestATimeoutThatServersChangeIsLogged(t *testing.T) {
	const asked, granted = 10 * time.Second, 4 * time.Second
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(granted/20))
		core, logs := observer.New(zap.WarnLevel)
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(asked), coordinator.WithLogger(zap.New(core)))
		wantTimeouts(t, logs, asked, granted, 1)
		srv.Cut(c.SessionID())
		time.Sleep(time.Minute)
		wantTimeouts(t, logs, asked, granted, 1) // it is known
	})
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		coordtest.Connect(t, srv, coordinator.WithSessionTimeout(asked+time.Microsecond), coordinator.WithLogger(zap.New(core)))
		wantTimeouts(t, logs, asked, asked, 0) // servers count in milliseconds
	})
}

func TestRealATimeoutThatServersChangeIsLogged(t *testing.T) {
	eventstest.NeedsServers(t)
	core, logs := observer.New(zap.WarnLevel)
	c := coordtest.ConnectReal(t, coordtest.Servers(t, 1).Connect(), coordinator.WithSessionTimeout(time.Hour), coordinator.WithLogger(zap.New(core)))
	logged := logs.FilterMessage("the servers have changed the session timeout").AllUntimed()
	if len(logged) != 1 {
		t.Fatalf("of a timeout of an hour %d warnings were logged, want one", len(logged))
	}
	if got := logged[0].ContextMap()["granted"].(time.Duration); got >= time.Hour || got <= 0 || c.State() != coordinator.StateConnected {
		t.Errorf("the warning says that %v were granted, want less than the hour that was asked for", got)
	}
}

func wantTimeouts(t *testing.T, logs *observer.ObservedLogs, asked, granted time.Duration, n int) {
	t.Helper()
	lines := logs.FilterMessage("the servers have changed the session timeout").AllUntimed()
	if len(lines) != n {
		t.Fatalf("of a session timeout that servers have changed from %v to %v %d warnings were logged, want %d", asked, granted, len(lines), n)
	}
	for _, line := range lines {
		if f := line.ContextMap(); f["asked"] != asked || f["granted"] != granted {
			t.Errorf("the warning says %v, want %v asked for and %v granted", f, asked, granted)
		}
	}
}

// TestNilStandsForTheDefault: as if neither a logger nor a way to dial had been named.
func TestNilStandsForTheDefault(t *testing.T) {
	srv := zktest.Start(t)
	core, logs := observer.New(zap.DebugLevel)
	nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") }
	c, err := coordinator.Connect(eventstest.Patiently(t, coordtest.RealMax), srv.Addr(),
		coordinator.WithLogger(zap.New(core)), coordinator.WithLogger(nil), coordinator.WithDialer(nobody), coordinator.WithDialer(nil))
	eventstest.Must(t, err)
	coordtest.Hold(t, c.Mutex(lockPath))
	eventstest.Check(t, c.Close())
	if n := logs.Len(); n != 0 {
		t.Errorf("with WithLogger(nil) after another %d lines were logged, want none", n)
	}
}
