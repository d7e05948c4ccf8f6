package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// onlyBob is an access list for one user of SASL.
func onlyBob() []zk.ACL { return []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}} }

// saslServer is a server that knows bob and ann.
type saslServer struct {
	connect func(t *testing.T, options ...coordinator.Option) (*coordinator.Coordinator, error)
	cut     func() // the connections
}

// asBob takes a lock that only bob may take, before and after a lost connection, and has others try.
func asBob(t *testing.T, srv saslServer) {
	open := func(user, password string) *coordinator.Coordinator {
		t.Helper()
		c, err := srv.connect(t, coordinator.WithSASL(sasl.DigestMD5(user, password)), coordinator.WithACL(onlyBob()))
		if err != nil {
			t.Fatalf("Connect as %s: %v", user, err)
		}
		t.Cleanup(func() { eventstest.Must(t, c.Close()) })
		return c
	}
	bob := open("bob", `b"ob, "`)
	held, _ := coordtest.Hold(t, bob.Mutex(lockPath))
	if err := coordtest.EndOf(t, open("ann", "Ännchen").Mutex(lockPath).Acquire(t.Context())); !errors.Is(err, coordinator.ErrNoAuth) {
		t.Errorf("ann's acquisition of bob's lock ends with %v, want ErrNoAuth", err)
	}
	srv.cut()
	next := open("bob", `b"ob, "`).Mutex(lockPath).Acquire(t.Context())
	coordtest.End(held) // on the next connection, with what only bob may do
	coordtest.GrantOf(t, next)
	coordtest.End(next)
}

// wrongSASL are credentials that a server which knows bob and ann refuses.
func wrongSASL() map[string]sasl.Mechanism {
	return map[string]sasl.Mechanism{
		"wrong password": sasl.DigestMD5("bob", "guess"), "unknown user": sasl.DigestMD5("eve", "guess"), "no user": sasl.DigestMD5("", ""),
	}
}

func TestSASL(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.AddUser("bob", `b"ob, "`)
		srv.AddUser("ann", "Ännchen")
		asBob(t, saslServer{
			connect: func(t *testing.T, options ...coordinator.Option) (*coordinator.Coordinator, error) {
				t.Helper()
				return coordinator.Connect(t.Context(), srv.Addr(), append(options, srv.Option())...)
			},
			cut: srv.CutAll,
		})
	})
}

// TestSASLThatIsRefusedEndsConnect at once, with the cause, and is not retried again and again.
func TestSASLThatIsRefusedEndsConnect(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.AddUser("bob", `b"ob, "`)
		for name, mechanism := range wrongSASL() {
			start, before := time.Now(), srv.Requests(zktest.OpSASL)
			_, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSASL(mechanism))
			if !errors.Is(err, coordinator.ErrNoAuth) || !strings.Contains(err.Error(), "SASL DIGEST-MD5") || time.Since(start) > 2*time.Second {
				t.Errorf("%s: Connect = %v after %v, want ErrNoAuth with the mechanism within 2 s", name, err, time.Since(start))
			}
			synctest.Wait()
			if n := srv.Requests(zktest.OpSASL) - before; n > 4 {
				t.Errorf("%s: %d tokens were sent, want 4 at most: two exchanges", name, n)
			}
		}
	})
}

// TestSASLThatIsRefusedLater: a session that is refused from now on loses its locks when its lease ends. Its attempts are no storm.
// When the password is right again it goes on.
func TestSASLThatIsRefusedLater(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const wait = time.Minute
		srv.AddUser("bob", "old")
		c := coordtest.Connect(t, srv, coordinator.WithSASL(sasl.DigestMD5("bob", "old")))
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		srv.AddUser("bob", "new")
		before := srv.Requests(zktest.OpSASL)
		srv.CutAll()
		start := time.Now()
		coordtest.LossOf(t, held)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the loss was told after %v, want it within the session timeout", took)
		}
		time.Sleep(wait - time.Since(start))
		if n := srv.Requests(zktest.OpSASL) - before; n > 2*2*int(wait/time.Second) {
			t.Errorf("%d tokens were sent in %v, want no more than two exchanges a second", n, wait)
		}
		srv.AddUser("bob", "old")
		again := c.Mutex(lockPath).Acquire(t.Context())
		coordtest.GrantOf(t, again)
		coordtest.End(again)
	})
}

// moody is DigestMD5 for bob, or fails in the way of its mood.
type moody struct {
	sasl.Mechanism

	is     atomic.Int32
	starts atomic.Int32
}

const (
	well int32 = iota
	failing
	hindered // for a time
	stuck    // until the time is over
	lazy     // the same, but within the exchange
)

var errMood = errors.New("mood")

func newMoody() *moody { return &moody{Mechanism: sasl.DigestMD5("bob", "b")} }

func (m *moody) Start(ctx context.Context, server string) (sasl.Exchange, error) {
	m.starts.Add(1)
	switch m.is.Load() {
	case failing:
		return unwilling{err: errMood}, nil
	case hindered:
		return nil, fmt.Errorf("%w: %w", sasl.ErrTemporary, errMood)
	case stuck:
		<-ctx.Done()
		return nil, ctx.Err()
	case lazy:
		return unwilling{ctx: ctx}, nil
	default:
		return m.Mechanism.Start(ctx, server)
	}
}

// unwilling is an exchange that fails at its first turn, when the server has renewed the session: at once, or when the time is over.
type unwilling struct {
	ctx context.Context // nil: at once
	err error
}

func (u unwilling) Next([]byte) (answer []byte, done bool, err error) {
	if u.ctx != nil {
		<-u.ctx.Done()
		return nil, false, u.ctx.Err()
	}
	return nil, false, u.err
}

// TestASessionThatCannotAuthenticateLosesItsLocks: whatever the cause, and though the server renews the session each time, its
// locks go with its lease, and another contender is granted them.
func TestASessionThatCannotAuthenticateLosesItsLocks(t *testing.T) {
	for name, fails := range map[string]func(srv *zktest.Server, m *moody){
		"the mechanism fails":      func(_ *zktest.Server, m *moody) { m.is.Store(failing) },
		"the mechanism waits":      func(_ *zktest.Server, m *moody) { m.is.Store(hindered) },
		"the mechanism takes long": func(_ *zktest.Server, m *moody) { m.is.Store(stuck) },
		"the exchange takes long":  func(_ *zktest.Server, m *moody) { m.is.Store(lazy) },
		"the server is silent":     func(srv *zktest.Server, _ *moody) { onSASL(srv, zktest.Swallow()) },
		"the server hangs up":      func(srv *zktest.Server, _ *moody) { onSASL(srv, zktest.CutBefore()) },
		"the server answers no":    func(srv *zktest.Server, _ *moody) { onSASL(srv, zktest.Fail(zktest.AuthFailed)) },
		"the server knows no SASL": func(srv *zktest.Server, _ *moody) { onSASL(srv, zktest.Fail(zktest.Unimplemented)) },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				srv.AddUser("bob", "b")
				m := newMoody()
				held, _ := coordtest.Hold(t, coordtest.Connect(t, srv, coordinator.WithSASL(m)).Mutex(lockPath))
				next := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
				fails(srv, m)
				start := time.Now()
				srv.CutAll()
				coordtest.LossOf(t, held)
				lost := time.Since(start)
				eventstest.Receive(t, next.Granted(), "the lock")
				if took := time.Since(start); lost > 10*time.Second || took > 37*time.Second {
					t.Errorf("the lock is lost after %v and granted after %v, want that within one session timeout, and three and a half and a tick", lost, took)
				}
				coordtest.End(next)
			})
		})
	}
}

// onSASL has the action strike each token.
func onSASL(srv *zktest.Server, what zktest.Action) {
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Op == zktest.OpSASL {
			return what
		}
		return zktest.Pass()
	})
}

// refuseOnce has the mechanism fail once.
func refuseOnce(srv *zktest.Server, m *moody) {
	m.is.Store(failing)
	before := m.starts.Load()
	srv.CutAll()
	for m.starts.Load() == before {
		time.Sleep(time.Millisecond)
	}
	m.is.Store(well)
	time.Sleep(5 * time.Second)
}

// TestWhatMayPassIsWaitedFor: an error that the mechanism calls temporary ends neither Connect nor a waiter's session. The attempts
// have the pauses of those that lose their connection, and the cause is named when the time is over.
func TestWhatMayPassIsWaitedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const outage = 10 * time.Second
		srv.AddUser("bob", "b")
		m := newMoody()
		m.is.Store(hindered)
		ctx, cancel := context.WithTimeout(t.Context(), outage)
		defer cancel()
		_, err := coordinator.Connect(ctx, srv.Addr(), srv.Option(), coordinator.WithSASL(m))
		if errors.Is(err, coordinator.ErrNoAuth) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errMood) {
			t.Errorf("Connect = %v, want the end of its time and the cause, and not ErrNoAuth", err)
		}
		if n := m.starts.Load(); n < 10 || n > 30 {
			t.Errorf("%d attempts in %v, want one or two a second", n, outage)
		}
		if n := srv.Requests(zktest.OpConnect); n > 0 {
			t.Errorf("the server has answered %d handshakes, want none before there is an exchange to have behind it", n)
		}
		time.AfterFunc(outage, func() { m.is.Store(well) })
		start := time.Now()
		c := coordtest.Connect(t, srv, coordinator.WithSASL(m))
		if took := time.Since(start); took < outage || took > outage+2*time.Second {
			t.Errorf("Connect took %v, want what it has to wait for, %v, and no more than another attempt", took, outage)
		}
		held, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		first := coordtest.Queue(c.Mutex(lockPath))
		second := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		m.is.Store(hindered)
		srv.CutAll()
		time.Sleep(outage / 2)
		m.is.Store(well)
		time.Sleep(outage / 2)
		coordtest.End(held)
		eventstest.Receive(t, first.Granted(), "the lock")
		coordtest.End(first)
		coordtest.GrantOf(t, second)
		coordtest.End(second)
	})
}

// TestOneRefusalCostsNoPlace in a queue, however long the waiter's session has not written.
func TestOneRefusalCostsNoPlace(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.AddUser("bob", "b")
		m := newMoody()
		held, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		first := coordtest.Queue(coordtest.Connect(t, srv, coordinator.WithSASL(m)).Mutex(lockPath))
		second := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		time.Sleep(time.Minute)
		refuseOnce(srv, m)
		coordtest.End(held)
		eventstest.Receive(t, first.Granted(), "the lock")
		coordtest.End(first)
		coordtest.GrantOf(t, second)
		coordtest.End(second)
	})
}

// TestARefusalThatIsOverIsNoReason for a later end, and is logged again when it comes again.
func TestARefusalThatIsOverIsNoReason(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.AddUser("bob", "b")
		m := newMoody()
		core, logs := observer.New(zap.WarnLevel)
		coordtest.Connect(t, srv, coordinator.WithSASL(m), coordinator.WithLogger(zap.New(core)))
		for range 2 {
			refuseOnce(srv, m)
			if n := logs.FilterMessage("the identities were not accepted").Len(); n != 1 {
				t.Errorf("a refusal was logged %d times, want once", n)
			}
			logs.TakeAll()
		}
		srv.MuteAll(true)
		time.Sleep(time.Minute)
		for _, line := range logs.TakeAll() {
			if said := fmt.Sprint(line.ContextMap()); strings.Contains(said, errMood.Error()) {
				t.Errorf("after the refusal %q says %s, want another reason", line.Message, said)
			}
		}
		srv.MuteAll(false)
	})
}

// TestShutdownCutsAnExchangeShort: neither Shutdown nor Connect waits for a mechanism that does not end.
func TestShutdownCutsAnExchangeShort(t *testing.T) {
	for _, mood := range []int32{stuck, lazy} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { cutShort(t, srv, mood) })
	}
}

func cutShort(t *testing.T, srv *zktest.Server, mood int32) {
	t.Helper()
	const most = time.Second
	srv.AddUser("bob", "b")
	m := newMoody()
	options := []coordinator.Option{srv.Option(), coordinator.WithSASL(m), coordinator.WithSessionTimeout(40 * time.Second)}
	c, err := coordinator.Connect(t.Context(), srv.Addr(), options...)
	eventstest.Must(t, err)
	m.is.Store(mood)
	srv.CutAll()
	time.Sleep(most / 10)
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	start := time.Now()
	err = c.Shutdown(ctx)
	if took := time.Since(start); took > most {
		t.Errorf("Shutdown = %v after %v, want it within %v", err, took, most)
	}
	start = time.Now()
	ctx, cancel = context.WithTimeout(t.Context(), most)
	defer cancel()
	_, err = coordinator.Connect(ctx, srv.Addr(), options...)
	if took := time.Since(start); err == nil || took > 2*most {
		t.Errorf("Connect = %v after %v, want an error within %v", err, took, 2*most)
	}
}

// TestASilentSASLServerCostsNoMoreThanAnother: an exchange that is not answered ends with the time for a handshake.
func TestASilentSASLServerCostsNoMoreThanAnother(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		srv.AddUser("bob", "b")
		silent := true
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpSASL && silent {
				silent = false
				return zktest.Swallow()
			}
			return zktest.Pass()
		})
		start := time.Now()
		coordtest.Connect(t, srv, coordinator.WithSASL(sasl.DigestMD5("bob", "b")), coordinator.WithSessionTimeout(10*time.Second))
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("Connect took %v, want three tenths of the session timeout and a little more", took)
		}
	})
}

// TestSASLOverAServerThatIsNotSetUpForIt: the mechanism finds that it has no challenge.
func TestSASLOverAServerThatIsNotSetUpForIt(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		notSetUp(t, func(option coordinator.Option) (*coordinator.Coordinator, error) {
			return coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), option)
		})
	})
}

// TestRealSASLOverAServerThatIsNotSetUpForIt asks a real one.
func TestRealSASLOverAServerThatIsNotSetUpForIt(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	notSetUp(t, func(option coordinator.Option) (*coordinator.Coordinator, error) {
		return coordinator.Connect(coordtest.RealContext(t), e.Connect(), option)
	})
}

func notSetUp(t *testing.T, connect func(coordinator.Option) (*coordinator.Coordinator, error)) {
	t.Helper()
	if _, err := connect(coordinator.WithSASL(sasl.DigestMD5("bob", "b"))); !errors.Is(err, coordinator.ErrNoAuth) || !errors.Is(err, sasl.ErrMechanism) {
		t.Errorf("Connect = %v, want ErrNoAuth and ErrMechanism", err)
	}
}

// TestRealSASL is TestSASL with ZooKeeper's own DigestLoginModule, on a server that requires SASL, and on one that does not.
func TestRealSASL(t *testing.T) {
	eventstest.NeedsServers(t)
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint("required: ", required), func(t *testing.T) {
			settings := append(withUsers(t, map[string]string{"bob": `b"ob, "`, "ann": "Ännchen"}),
				ensemble.Property("zookeeper.sessionRequireClientSASLAuth", strconv.FormatBool(required)))
			realSASL(t, ensemble.Start(t, 1, settings...), required)
		})
	}
}

func realSASL(t *testing.T, e *ensemble.Ensemble, required bool) {
	proxy := ensemble.StartProxy(t, e.Addr(0))
	connect := func(t *testing.T, options ...coordinator.Option) (*coordinator.Coordinator, error) {
		t.Helper()
		return coordinator.Connect(coordtest.RealContext(t), proxy.Addr(), options...)
	}
	asBob(t, saslServer{connect: connect, cut: proxy.Cut})
	for name, mechanism := range wrongSASL() {
		before := proxy.Accepted()
		_, err := connect(t, coordinator.WithSASL(mechanism))
		if n := proxy.Accepted() - before; !errors.Is(err, coordinator.ErrNoAuth) || n > 2 {
			t.Errorf("%s: Connect = %v after %d connections, want ErrNoAuth after 2 at most", name, err, n)
		}
	}
	stranger, err := connect(t)
	if err != nil {
		t.Fatalf("Connect without SASL: %v", err)
	}
	defer func() { eventstest.Must(t, stranger.Close()) }()
	a := stranger.Mutex("/others/lock").Acquire(coordtest.RealContext(t))
	_, err = a.Wait(coordtest.RealContext(t))
	if required != errors.Is(err, coordinator.ErrNoAuth) || !required && err != nil {
		t.Errorf("without SASL, required: %v: the acquisition ends with %v, want ErrNoAuth only if it is required", required, err)
	}
	a.Release()
}

// TestRealSASLThatIsRefusedLater: the server starts again with another password.
func TestRealSASLThatIsRefusedLater(t *testing.T) {
	eventstest.NeedsServers(t)
	const timeout = 2 * time.Second
	file := filepath.Join(t.TempDir(), "jaas.conf")
	writeUsers(t, file, map[string]string{"bob": "old"})
	e := ensemble.Start(t, 1, append(saslSettings(file), ensemble.Tick(timeout/10))...)
	connect := func(password string) *coordinator.Coordinator {
		return coordtest.ConnectReal(t, e.Connect(), coordinator.WithSASL(sasl.DigestMD5("bob", password)), coordinator.WithSessionTimeout(timeout))
	}
	held, _ := coordtest.Hold(t, connect("old").Mutex(lockPath))
	eventstest.Must(t, e.Kill(0))
	writeUsers(t, file, map[string]string{"bob": "new"})
	eventstest.Must(t, e.Restart(0))
	eventstest.Must(t, e.Wait(coordtest.RealContext(t)))
	next := connect("new").Mutex(lockPath).Acquire(t.Context())
	coordtest.LossOf(t, held)
	coordtest.GrantOf(t, next)
	coordtest.End(next)
}

// withUsers are the settings of a server that knows the users.
func withUsers(t *testing.T, users map[string]string) []ensemble.Setting {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jaas.conf")
	writeUsers(t, file, users)
	return saslSettings(file)
}

// writeUsers writes a JAAS configuration.
func writeUsers(t *testing.T, file string, users map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required")
	for name, password := range users {
		fmt.Fprintf(&b, "\n  user_%s=\"%s\"", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password))
	}
	b.WriteString(";\n};\n")
	eventstest.Must(t, os.WriteFile(file, []byte(b.String()), 0o600))
}

func saslSettings(file string) []ensemble.Setting {
	return []ensemble.Setting{
		ensemble.Property("java.security.auth.login.config", file), ensemble.Property("file.encoding", "UTF-8"),
		ensemble.Line("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
	}
}
