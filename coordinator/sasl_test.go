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

// saslUsers are the users that the servers of these tests know, with their passwords.
var saslUsers = map[string]string{"bob": `b"ob, "`, "ann": "Ännchen"}

// dialing connects to a server that knows these users.
type dialing func(options ...coordinator.Option) (*coordinator.Coordinator, error)

// asBob acquires a lock that only bob may acquire, before and after a lost connection.
// Acquisitions of other users are refused. The access list names bob, or whoever creates
// a node.
func asBob(t *testing.T, connect dialing, cut func()) {
	for path, list := range map[string][]zk.ACL{
		"/named": {{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}, "/creator": zk.AuthACL(zk.PermAll),
	} {
		asBobAt(t, path, coordinator.WithACL(list), connect, cut)
	}
}

func asBobAt(t *testing.T, path string, list coordinator.Option, connect dialing, cut func()) {
	var all []*coordinator.Coordinator
	defer func() { // those that have lost their connections would dial again beside the next test
		for _, c := range all {
			eventstest.Check(t, c.Close())
		}
	}()
	open := func(user string) *coordinator.Coordinator {
		t.Helper()
		c, err := connect(coordinator.WithSASL(sasl.DigestMD5(user, saslUsers[user])), list)
		eventstest.Must(t, err)
		all = append(all, c)
		return c
	}
	held, _ := coordtest.Hold(t, open("bob").Mutex(path))
	anns := open("ann").Mutex(path).Acquire(t.Context())
	expectError(t, coordtest.EndOf(t, anns), coordinator.ErrNoAuth, "ann's acquisition of bob's lock")
	cut()
	next := open("bob").Mutex(path).Acquire(t.Context())
	coordtest.End(held) // on the next connection, which must be bob's
	coordtest.GrantOf(t, next)
	coordtest.End(next)
}

// isDenied checks that Connect fails with ErrNoAuth for wrong credentials. tries returns
// the attempts so far.
func isDenied(t *testing.T, connect dialing, tries func() int, most int) {
	t.Helper()
	for name, mechanism := range map[string]sasl.Mechanism{
		"wrong password": sasl.DigestMD5("bob", "guess"), "unknown user": sasl.DigestMD5("eve", "guess"), "no user": sasl.DigestMD5("", ""),
	} {
		before := tries()
		_, err := connect(coordinator.WithSASL(mechanism))
		expectError(t, err, coordinator.ErrNoAuth, name)
		n := tries() - before
		expect(t, n <= most && strings.Contains(fmt.Sprint(err), "SASL DIGEST-MD5"),
			"%s: Connect = %v after %d tries, want the mechanism named, after %d at most", name, err, n, most)
	}
}

// isNotSetUp checks that the mechanism reports a server without SASL.
func isNotSetUp(t *testing.T, connect dialing) {
	t.Helper()
	_, err := connect(coordinator.WithSASL(sasl.DigestMD5("bob", "b")))
	expect(t, errors.Is(err, coordinator.ErrNoAuth) && errors.Is(err, sasl.ErrMechanism),
		"over a server that is not set up for SASL Connect = %v, want ErrNoAuth and ErrMechanism", err)
}

func TestSASL(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		connect := func(options ...coordinator.Option) (*coordinator.Coordinator, error) {
			return coordinator.Connect(t.Context(), srv.Addr(), append(options, srv.Option())...)
		}
		isNotSetUp(t, connect)
		for name, password := range saslUsers {
			srv.AddUser(name, password)
		}
		asBob(t, connect, srv.CutAll)
		start := time.Now()
		isDenied(t, connect, func() int {
			synctest.Wait()
			return srv.Requests(zktest.OpSASL)
		}, 4) // the tokens of two exchanges
		expect(t, time.Since(start) <= 6*time.Second, "three refusals took %v, want 2 s each", time.Since(start))
	})
}

// moody is DigestMD5 for bob, or fails as its mood says.
type moody struct {
	sasl.Mechanism

	is     atomic.Int32
	starts atomic.Int32
}

const (
	well int32 = iota
	failing
	hindered // for some time
	stuck    // until the time runs out
	lazy     // until the time runs out, but within the exchange
)

var errMood = errors.New("mood")

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

// unwilling is an exchange that fails at its first turn, after the server has renewed the
// session: at once, or when the time runs out.
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

// bob adds bob to the server's users.
func bob(srv *zktest.Server) *moody {
	srv.AddUser("bob", "b")
	return &moody{Mechanism: sasl.DigestMD5("bob", "b")}
}

// TestASessionThatCannotAuthenticateLosesItsLocks: whatever the cause, and although the
// server renews the session each time, its locks are lost with its lease and granted to
// another contender. The number of attempts is bounded. When it can authenticate again,
// it works again.
func TestASessionThatCannotAuthenticateLosesItsLocks(t *testing.T) {
	feels := func(mood int32) func(*zktest.Server, *moody) {
		return func(_ *zktest.Server, m *moody) { m.is.Store(mood) }
	}
	answers := func(action zktest.Action) func(*zktest.Server, *moody) {
		return func(srv *zktest.Server, _ *moody) { strike(srv, action, isA(zktest.OpSASL)) }
	}
	forEach(t, map[string]func(srv *zktest.Server, m *moody){
		"the mechanism fails":      feels(failing),
		"the mechanism waits":      feels(hindered),
		"the mechanism takes long": feels(stuck),
		"the exchange takes long":  feels(lazy),
		"the server is silent":     answers(zktest.Swallow()),
		"the server hangs up":      answers(zktest.CutBefore()),
		"the server answers no":    answers(zktest.Fail(zktest.AuthFailed)),
		"the server knows no SASL": answers(zktest.Fail(zktest.Unimplemented)),
		"the password has changed": func(srv *zktest.Server, _ *moody) { srv.AddUser("bob", "new") },
	}, func(t *testing.T, srv *zktest.Server, fails func(srv *zktest.Server, m *moody)) {
		m := bob(srv)
		c := coordtest.Connect(t, srv, coordinator.WithSASL(m))
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		next := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		fails(srv, m)
		start, before := time.Now(), srv.Requests(zktest.OpSASL)
		srv.CutAll()
		coordtest.LossOf(t, held)
		lost := time.Since(start)
		eventstest.Receive(t, next.Granted(), "the lock")
		expect(t, lost <= 10*time.Second && time.Since(start) <= 37*time.Second, "lost after %v, granted after %v; "+
			"want one session timeout at most, and three and a half and a tick", lost, time.Since(start))
		coordtest.End(next)
		time.Sleep(time.Minute - time.Since(start))
		n := srv.Requests(zktest.OpSASL) - before
		expect(t, n <= 2*2*60, "%d tokens were sent in a minute, want no more than two exchanges a second", n)
		m.is.Store(well)
		srv.Intercept(nil)
		srv.AddUser("bob", "b")
		holdAgainAndAgain(t, c.Mutex(lockPath), 1)
	})
}

// keepsItsPlace checks that a waiter of bob's, whose session has not written for long, is
// granted a lock before the waiter behind it.
func keepsItsPlace(t *testing.T, srv *zktest.Server, bob *coordinator.Coordinator, happens func()) {
	t.Helper()
	held, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
	first := coordtest.Queue(bob.Mutex(lockPath))
	second := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
	time.Sleep(time.Minute)
	happens()
	coordtest.End(held)
	eventstest.Receive(t, first.Granted(), "the lock")
	coordtest.End(first)
	coordtest.GrantOf(t, second)
	coordtest.End(second)
}

// TestWhatMayPassIsWaitedFor: an error that the mechanism calls temporary ends neither
// Connect nor a waiter's session. When the time runs out, the error names the cause.
func TestWhatMayPassIsWaitedFor(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := bob(srv)
		const outage = 10 * time.Second
		m.is.Store(hindered)
		_, err := coordinator.Connect(within(t, outage), srv.Addr(), srv.Option(), coordinator.WithSASL(m))
		expectError(t, err, context.DeadlineExceeded, "Connect")
		expect(t, errors.Is(err, errMood) && !errors.Is(err, coordinator.ErrNoAuth), "%v, want the cause, not ErrNoAuth", err)
		n := m.starts.Load()
		expect(t, n >= 10 && n <= 30, "%d attempts in %v, want one or two a second", n, outage)
		expectEqual(t, srv.Requests(zktest.OpConnect), 0, "handshakes before an exchange is there to follow")
		time.AfterFunc(outage, func() { m.is.Store(well) })
		start := time.Now()
		c := coordtest.Connect(t, srv, coordinator.WithSASL(m))
		took := time.Since(start)
		expect(t, took >= outage && took <= outage+2*time.Second, "Connect took %v, want just over %v", took, outage)
		keepsItsPlace(t, srv, c, func() {
			m.is.Store(hindered)
			srv.CutAll()
			time.Sleep(outage / 2)
			m.is.Store(well)
			time.Sleep(outage / 2)
		})
	})
}

// TestOneRefusalCostsNoPlace, is logged each time, and is not reported as the cause of a
// later end.
func TestOneRefusalCostsNoPlace(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := bob(srv)
		c, logs := logged(t, srv, zap.WarnLevel, coordinator.WithSASL(m))
		for range 2 {
			keepsItsPlace(t, srv, c, func() {
				m.is.Store(failing)
				before := m.starts.Load()
				srv.CutAll()
				for m.starts.Load() == before {
					time.Sleep(time.Millisecond)
				}
				m.is.Store(well)
				time.Sleep(5 * time.Second)
			})
			expectEqual(t, logs.FilterMessage("the identities were not accepted").Len(), 1, "refusals logged")
			logs.TakeAll()
		}
		srv.MuteAll(true)
		time.Sleep(time.Minute)
		for _, line := range logs.TakeAll() {
			said := fmt.Sprint(line.ContextMap())
			expect(t, !strings.Contains(said, errMood.Error()), "%q says %s, want another reason", line.Message, said)
		}
	})
}

// TestShutdownCutsAnExchangeShort, and so does the end of Connect's context.
func TestShutdownCutsAnExchangeShort(t *testing.T) {
	const most = time.Second
	for _, mood := range []int32{stuck, lazy} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			m := bob(srv)
			options := []coordinator.Option{coordinator.WithSASL(m), coordinator.WithSessionTimeout(40 * time.Second)}
			c := coordtest.Connect(t, srv, options...)
			m.is.Store(mood)
			srv.CutAll()
			time.Sleep(most / 10)
			start := time.Now()
			err := c.Shutdown(within(t, most))
			expect(t, time.Since(start) <= most, "Shutdown = %v after %v, want %v", err, time.Since(start), most)
			start = time.Now()
			_, err = coordinator.Connect(within(t, most), srv.Addr(), append(options, srv.Option())...)
			expect(t, err != nil && time.Since(start) <= 2*most,
				"Connect = %v after %v, want an error within %v", err, time.Since(start), 2*most)
		})
	}
}

// An unanswered exchange ends after the time for a handshake.
func TestASilentSASLServerCostsNoMoreThanAnother(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := bob(srv)
		once(srv, zktest.Swallow(), isA(zktest.OpSASL))
		start := time.Now()
		coordtest.Connect(t, srv, coordinator.WithSASL(m), coordinator.WithSessionTimeout(10*time.Second))
		took := time.Since(start)
		expect(t, took >= 3*time.Second && took <= 4*time.Second, "Connect took %v, want 3 to 4 s", took)
	})
}

// TestRealSASL repeats TestSASL with ZooKeeper's own DigestLoginModule, on a server that
// requires SASL and on one that does not.
func TestRealSASL(t *testing.T) {
	eventstest.NeedsServers(t)
	connect := func(servers string) dialing {
		return func(options ...coordinator.Option) (*coordinator.Coordinator, error) {
			return coordinator.Connect(coordtest.RealContext(t), servers, options...)
		}
	}
	isNotSetUp(t, connect(coordtest.Servers(t, 1).Connect()))
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint("required: ", required), func(t *testing.T) {
			e := ensemble.Start(t, 1, ensemble.Property("zookeeper.sessionRequireClientSASLAuth", strconv.FormatBool(required)),
				ensemble.Property("java.security.auth.login.config", jaas(t)), ensemble.Property("file.encoding", "UTF-8"),
				ensemble.Line("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"))
			proxy := ensemble.StartProxy(t, e.Addr(0))
			asBob(t, connect(proxy.Addr()), proxy.Cut)
			e.Needs(t, ensemble.Refusals)
			isDenied(t, connect(proxy.Addr()), proxy.Accepted, 2) // connections
			a := coordtest.ConnectReal(t, proxy.Addr()).Mutex("/others/lock").Acquire(coordtest.RealContext(t))
			_, err := a.Wait(coordtest.RealContext(t))
			expectError(t, err, map[bool]error{true: coordinator.ErrNoAuth}[required], "without SASL the acquisition")
			a.Release()
		})
	}
}

// jaas writes a server's JAAS configuration with the users.
func jaas(t *testing.T) (file string) {
	t.Helper()
	text := "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required"
	for name, password := range saslUsers {
		text += fmt.Sprintf("\n  user_%s=\"%s\"", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password))
	}
	file = filepath.Join(t.TempDir(), "jaas.conf")
	eventstest.Must(t, os.WriteFile(file, []byte(text+";\n};\n"), 0o600))
	return file
}

// TestNoSecretIsTold by an error, or by the log at its most verbose level.
func TestNoSecretIsTold(t *testing.T) {
	const password, token = "s3cret-password", "s3cret-token"
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.DebugLevel)
		mechanism := sasl.DigestMD5("bob", password)
		options := []coordinator.Option{
			coordinator.WithSASL(mechanism), coordinator.WithAuth("digest", []byte("app:"+token)),
			coordinator.WithACL(zk.AuthACL(zk.PermAll)), coordinator.WithLogger(zap.New(core)),
		}
		srv.AddUser("bob", "another")
		_, err := coordinator.Connect(t.Context(), srv.Addr(), append(options, srv.Option())...)
		told := []string{fmt.Sprintf("%v %+v %#v %v", mechanism, mechanism, mechanism, err)}
		srv.AddUser("bob", password)
		held, _ := coordtest.Hold(t, coordtest.Connect(t, srv, options...).Mutex(lockPath))
		srv.CutAll()
		time.Sleep(time.Second)
		srv.AddUser("bob", "another")
		srv.CutAll()
		coordtest.LossOf(t, held)
		told = append(told, fmt.Sprint(held.Err()))
		for _, line := range logs.All() {
			told = append(told, fmt.Sprint(line.Message, line.ContextMap()))
		}
		expect(t, len(told) >= 10, "%d lines and errors, want 10 or more", len(told))
		for _, said := range told {
			expect(t, !strings.Contains(said, "s3cret"), "a secret is told: %s", said)
		}
	})
}
