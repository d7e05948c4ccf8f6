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

// opened returns a coordinator that has not waited for a session. It is closed at the end
// of the test.
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

// first is everything that a program may ask for before there is a session, and its
// results.
type first struct {
	locks   map[string]*coordinator.Acquisition
	stream  <-chan events.Event
	leaders <-chan events.Leader
	results chan error // of Queue and Ready
}

func askFirst(ctx context.Context, c *coordinator.Coordinator, root string) *first {
	lock, election := c.Mutex(root+"/lock"), c.Election(root+"/leader")
	f := &first{stream: c.Events(ctx), leaders: election.Observe(ctx), results: make(chan error, 2)}
	f.locks = map[string]*coordinator.Acquisition{
		"mutex": lock.Acquire(ctx), "candidate": election.Acquire(ctx, named("me")),
		"semaphore": c.Semaphore(root+"/permits", 2).Acquire(ctx, coordinator.Permits(2)),
	}
	go func() {
		_, err := lock.Queue(ctx)
		f.results <- err
	}()
	go func() { f.results <- c.Ready(ctx) }()
	return f
}

// waits checks that there is no result yet.
func (f *first) waits(t *testing.T, c *coordinator.Coordinator) {
	t.Helper()
	if state, id := c.State(), c.SessionID(); state != coordinator.StateConnecting || id != 0 {
		t.Errorf("before there is a server the coordinator is %v with session %#x, want it connecting, with none", state, id)
	}
	for name, a := range f.locks {
		if a.Valid() || coordtest.IsClosed(a.Done()) {
			t.Errorf("before there is a server the %s is held: %v, over: %v (%v); want it to wait", name, a.Valid(), coordtest.IsClosed(a.Done()), a.Err())
		}
	}
	if len(f.results) > 0 || len(f.leaders) > 0 {
		t.Errorf("before there is a server Ready or Queue has returned: %d, a leader was told: %d; want 0",
			len(f.results), len(f.leaders))
	}
}

// comes checks that every result comes when there is a server.
func (f *first) comes(t *testing.T) {
	t.Helper()
	if ev, ok := eventstest.Receive(t, f.stream, "the first event").(events.Connected); !ok {
		t.Errorf("the first event is %+v, want Connected", ev)
	}
	eventstest.Check(t, eventstest.Receive(t, f.results, "Ready or Queue"))
	eventstest.Check(t, eventstest.Receive(t, f.results, "Ready and Queue"))
	for _, a := range f.locks {
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

// TestATryIsBounded: a try of each kind ends when no server has answered for T, or 10 s
// if that is less, or by its own bounds. It does not say that another contender has the
// lock.
func TestATryIsBounded(t *testing.T) {
	never := func(t *testing.T, srv *zktest.Server, o coordinator.Option) *coordinator.Coordinator {
		srv.Down(true)
		return opened(t, srv.Addr(), srv.Option(), o)
	}
	mute := func(t *testing.T, srv *zktest.Server, o coordinator.Option) *coordinator.Coordinator {
		c := coordtest.Connect(t, srv, o)
		srv.MuteAll(true)
		return c
	}
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for name, begin := range map[string]func(*testing.T, *zktest.Server, coordinator.Option) *coordinator.Coordinator{
			"never a session": never, "a mute server": mute,
		} {
			t.Run(fmt.Sprint(name, ", T ", timeout), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, why := begin(t, srv, coordinator.WithSessionTimeout(timeout)), errors.New("too late")
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
					defer cancel()
					bound := min(timeout, 10*time.Second)
					type end struct {
						a     *coordinator.Acquisition
						wants []error
						by    time.Duration
					}
					var all []end
					start := time.Now()
					l := c.Mutex("/bounded")
					for _, kind := range []coordinator.Handle{
						l, c.ReadWrite("/rw").Read(), c.ReadWrite("/rw").Write(), c.Semaphore("/permits", 3), c.Election("/lead"),
						c.Unfair("/task"), c.Multi(c.Mutex("/a"), c.Mutex("/b")), c.Mutex("/cached", coordinator.Cached()),
						c.Mutex("/kazoo", coordinator.AsKazoo()), c.Mutex("/crash", coordinator.DetectCrash()),
					} {
						all = append(all, end{kind.Acquire(t.Context(), coordinator.Try()), []error{coordinator.ErrNoSession}, bound})
					}
					all = append(all,
						end{l.Acquire(ctx, coordinator.Try()), []error{why}, time.Second},
						end{
							l.Acquire(t.Context(), coordinator.Try(), coordinator.MaxWait(bound+time.Second)),
							[]error{coordinator.ErrTimeout, coordinator.ErrNoSession, context.DeadlineExceeded}, bound + time.Second,
						},
						end{ // no try: it also waits until its connection is given up
							l.Acquire(t.Context(), coordinator.MaxWait(bound+time.Second)),
							[]error{coordinator.ErrTimeout, coordinator.ErrNoSession}, max(bound+time.Second, timeout*2/3),
						})
					var ends sync.WaitGroup
					for _, e := range all {
						ends.Go(func() {
							<-e.a.Done()
							took, err := time.Since(start), e.a.Err()
							for _, want := range e.wants {
								if !errors.Is(err, want) {
									t.Errorf("it ended with %v, want %v", err, want)
								}
							}
							if took > e.by+time.Second/10 || errors.Is(err, coordinator.ErrNotAcquired) {
								t.Errorf("it ended after %v with %v, want within %v, and not ErrNotAcquired", took, err, e.by)
							}
						})
					}
					ends.Wait()
					srv.MuteAll(false)
				})
			})
		}
	}
}

// TestATryOutlivesABriefOutage, and is not ended by its limit when a server is there
// again.
func TestATryOutlivesABriefOutage(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.Down(true)
		c := opened(t, srv.Addr(), srv.Option())
		a := c.Mutex(lockPath).Acquire(t.Context(), coordinator.Try())
		time.Sleep(time.Second)
		srv.Down(false)
		coordtest.Soon(t, a)
		time.Sleep(time.Minute)
		expect(t, a.Valid(), "a lock that a Try has got is lost: %v", a.Err())
	})
}

// TestRefusedIdentityIsNotForEver: Ready reports a refused identity at once. If it is
// accepted later, there is a session.
func TestRefusedIdentityIsNotForEver(t *testing.T) {
	const wait = 10 * time.Minute
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.WarnLevel)
		strike(srv, zktest.Fail(zktest.AuthFailed), isA(zktest.OpAuth))
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
		wantNotices(t, logs, wait, coordinator.ErrNoAuth.Error())
		srv.Intercept(nil)
		srv.CutAll()
		coordtest.Soon(t, waiting)
		eventstest.Check(t, c.Ready(t.Context()))
	})
}

const unusable = "no server can be used"

// wantNotices checks that the outage was logged after three seconds, and from then on
// once a minute, with the cause.
func wantNotices(t *testing.T, logs *observer.ObservedLogs, outage time.Duration, cause string) {
	t.Helper()
	told := logs.FilterMessage(unusable).AllUntimed()
	if want := 1 + int((outage-3*time.Second)/time.Minute); len(told) != want {
		t.Errorf("%q was logged %d times in %v, want %d times", unusable, len(told), outage, want)
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

// outages keep every session from the servers.
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
		t.Run(name, func(t *testing.T) {
			cause := map[string]string{"down": "refused"}[name] // in the middle of a first attempt there is none yet
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(zap.WarnLevel)
				none := func(when string) {
					t.Helper()
					time.Sleep(outage)
					if n := logs.FilterMessage(unusable).Len(); n != 0 {
						t.Errorf("%s %d warnings were logged, want none", when, n)
					}
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
				srv.Cut(co.SessionID()) // it is over before any caller needs to hear of it
				none("after a cut")
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

// TestConnectThatFailsIsOver: no server is dialled any more, and no goroutine is left,
// which the bubble checks.
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
	const asked = 10 * time.Second
	for granted, asks := range map[time.Duration]time.Duration{
		4 * time.Second: asked, asked: asked + time.Microsecond, // servers count in milliseconds
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(granted/20))
			core, logs := observer.New(zap.WarnLevel)
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(asks), coordinator.WithLogger(zap.New(core)))
			for range 2 {
				lines := logs.FilterMessage("the servers have changed the session timeout").AllUntimed()
				if told := granted < asked; len(lines) > 1 || told != (len(lines) == 1) {
					t.Fatalf("of a timeout that servers have changed from %v to %v %d warnings were logged, want one: %v",
						asks, granted, len(lines), told)
				}
				for _, line := range lines {
					if f := line.ContextMap(); f["asked"] != asks || f["granted"] != granted {
						t.Errorf("the warning says %v, want %v asked for and %v granted", f, asks, granted)
					}
				}
				srv.Cut(c.SessionID())
				time.Sleep(time.Minute) // it is known
			}
		})
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

// TestMaxWaitOfATryWhoseGrantIsNotTaken ends it, in a group, too.
func TestMaxWaitOfATryWhoseGrantIsNotTaken(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, g := coordtest.Connect(t, srv), newGroup(t)
		options := []coordinator.AcquireOption{coordinator.Try(), coordinator.MaxWait(time.Second)}
		var all []*coordinator.Acquisition
		for i, h := range []coordinator.Handle{c.Mutex("/a"), c.Semaphore("/b", 2), c.Unfair("/c"), c.Mutex("/d", coordinator.Cached())} {
			all = append(all, h.Acquire(t.Context(), options...))
			all = append(all, g.Acquire(t.Context(), c.Mutex(fmt.Sprint("/g/", i)), options...))
		}
		time.Sleep(time.Second / 2)
		for i, a := range all {
			expect(t, a.Valid(), "acquisition %d is not held: %v", i, a.Err())
		}
		time.Sleep(time.Second)
		for i, a := range all {
			expect(t, !a.Valid(), "nobody took the Grant of acquisition %d within MaxWait, and it is valid", i)
			expectError(t, a.Err(), coordinator.ErrTimeout, fmt.Sprint("acquisition ", i))
		}
	})
}
