package gssapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/sasl/gssapi/internal/kdctest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// rig is a KDC that knows bob, and a server with a Krb5LoginModule, reached through a
// proxy.
type rig struct {
	kdc   *kdctest.KDC
	proxy *ensemble.Proxy
	bob   string // a keytab
}

// newRig starts a rig. The server allows clocks to differ by skew seconds. bob is added
// with these addprinc options.
func newRig(t *testing.T, skew int, bob string, settings ...ensemble.Setting) rig {
	t.Helper()
	eventstest.NeedsServers(t)
	k := kdctest.Start(t, realm)
	service := k.Add("zookeeper/localhost")
	r := rig{kdc: k, bob: k.Add("bob", bob)}
	jaas := written(t, fmt.Sprintf(`Server {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true storeKey=true useTicketCache=false keyTab="%s" principal="zookeeper/localhost@%s";
};
`, service, realm))
	text, err := os.ReadFile(k.Config())
	eventstest.Must(t, err)
	head := "[libdefaults]\n"
	conf := written(t, strings.Replace(string(text), head, fmt.Sprintf("%s clockskew = %d\n", head, skew), 1))
	settings = append(settings, ensemble.Property("java.security.auth.login.config", jaas), ensemble.Property("java.security.krb5.conf", conf),
		ensemble.Line("authProvider.sasl", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
		ensemble.Property("zookeeper.sessionRequireClientSASLAuth", "true"))
	r.proxy = ensemble.StartProxy(t, ensemble.Start(t, 1, settings...).Addr(0))
	return r
}

// addr returns the server's address, with its name in the KDC.
func (r rig) addr(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(r.proxy.Addr())
	eventstest.Must(t, err)
	return net.JoinHostPort("localhost", port)
}

func (r rig) connect(t *testing.T, m sasl.Mechanism) (*coordinator.Coordinator, error) {
	t.Helper()
	onlyBob := coordinator.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob@" + realm}})
	ctx := eventstest.Patiently(t, time.Minute)
	c, err := coordinator.Connect(ctx, r.addr(t), coordinator.WithSASL(m), onlyBob)
	if err == nil {
		t.Cleanup(func() { eventstest.Check(t, c.Close()) })
	}
	return c, err
}

func lock(t *testing.T, c *coordinator.Coordinator, path string) error {
	t.Helper()
	a := c.Mutex(path).Acquire(t.Context())
	_, err := a.Wait(eventstest.Patiently(t, time.Minute))
	release(t, a)
	return err
}

func release(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	a.Release()
	eventstest.Receive(t, a.Done(), "the release")
}

func hold(t *testing.T, c *coordinator.Coordinator, path string) *coordinator.Acquisition {
	t.Helper()
	a := c.Mutex(path).Acquire(t.Context())
	_, err := a.Wait(eventstest.Patiently(t, time.Minute))
	eventstest.Must(t, err)
	return a
}

// stillHeld fails the test unless the lock is held, and releases it.
func stillHeld(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	select {
	case <-a.Done():
		t.Error("the lock was lost, want it to be held still")
	default:
	}
	release(t, a)
}

// TestRealKerberos: only bob may use the lock, before and after lost connections. The
// servers use the client's key, or one of their own, of another type.
func TestRealKerberos(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"the client's key": "", "a key of the server": "aes256-cts-hmac-sha384-192"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 300, "+requires_preauth", ensemble.Property("sun.security.krb5.acceptor.subkey", strconv.FormatBool(kind != "")))
			if kind != "" {
				r.kdc.Admin("setstr zookeeper/localhost session_enctypes %s", kind)
			}
			ann := mechanismOf(t, r.kdc, "ann", r.kdc.Add("ann"))
			bob, err := r.connect(t, mechanismOf(t, r.kdc, "bob", r.bob))
			eventstest.Must(t, err)
			held := hold(t, bob, "/app/held")
			stranger, err := r.connect(t, ann)
			eventstest.Must(t, err)
			eventstest.ErrorIs(t, lock(t, stranger, "/app/held"), coordinator.ErrNoAuth, "bob's lock, acquired by ann")
			eventstest.Contains(t, r.kdc.Log(), "ses="+kind, "the KDC's log")
			r.kdc.Stop() // the ticket is kept
			for range 2 {
				r.proxy.Cut()
				eventstest.Check(t, lock(t, bob, "/app/lock"))
			}
			stillHeld(t, held)
		})
	}
}

// late is a mechanism whose clock is wrong when it presents the ticket, but not when it
// requests it.
type late struct {
	*mechanism
	by time.Duration
}

func (l late) Start(ctx context.Context, server string) (sasl.Exchange, error) {
	l.now = time.Now
	e, err := l.mechanism.Start(ctx, server)
	l.now = func() time.Time { return time.Now().Add(l.by) }
	return e, err
}

// TestRealServer runs the tests that need no setting, on one server.
func TestRealServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 300, "+requires_preauth")
	r.names(t)
	r.outage(t)
	r.refusals(t)
}

// refusals: each ends Connect at once, with the reason as far as it is known.
func (r rig) refusals(t *testing.T) {
	refused := func(what string, m sasl.Mechanism, cause error, says string) {
		t.Helper()
		before := r.proxy.Accepted()
		_, err := r.connect(t, m)
		wantError(t, what, err, says, coordinator.ErrNoAuth)
		eventstest.Expect(t, cause == nil || errors.Is(err, cause), "%s: Connect = %v, want %v", what, err, cause)
		n := r.proxy.Accepted() - before
		eventstest.Expect(t, n <= 2, "%s: %d connections, want 2 at most", what, n)
	}
	fast := mechanismOf(t, r.kdc, "bob", r.bob)
	fast.now = func() time.Time { return time.Now().Add(time.Hour) }
	refused("another time than the KDC's", fast, ErrClockSkew, "and Kerberos allows 5m0s")
	refused("another time than the server's", late{mechanismOf(t, r.kdc, "bob", r.bob), time.Hour}, nil, "or its clock differs from this one")
	refused("a server that the KDC does not know", mechanismOf(t, r.kdc, "bob", r.bob, ServerPrincipal("zk/_HOST")), ErrKDC, "none for zk/localhost@"+realm)
	r.kdc.Add("zk/elsewhere")
	refused("another server", mechanismOf(t, r.kdc, "bob", r.bob, ServerPrincipal("zk/elsewhere")), nil, "its keytab lacks the key of zk/elsewhere@"+realm)
	r.kdc.Admin("cpw -randkey zookeeper/localhost")
	refused("a server with an old keytab", mechanismOf(t, r.kdc, "bob", r.bob), nil, "its keytab lacks the key of zookeeper/localhost@"+realm+", version 2")
}

// names: the server is dialed by its address.
func (r rig) names(t *testing.T) {
	for name, option := range map[string]Option{"by DNS": CanonicalHost(), "by its own name": ServerPrincipal("zookeeper/localhost")} {
		c, err := coordinator.Connect(eventstest.Patiently(t, time.Minute), r.proxy.Addr(), coordinator.WithSASL(mechanismOf(t, r.kdc, "bob", r.bob, option)))
		if err != nil {
			t.Errorf("%s: Connect = %v, want a session", name, err)
			continue
		}
		eventstest.Check(t, c.Close())
	}
}

// outage: Connect waits for a KDC, or names it in its error when the time is over.
func (r rig) outage(t *testing.T) {
	r.kdc.Stop()
	m := mechanismOf(t, r.kdc, "bob", r.bob)
	begin := func(ctx context.Context) <-chan error {
		ended, seen := make(chan error, 1), r.proxy.Accepted()
		go func() {
			c, err := coordinator.Connect(ctx, r.addr(t), coordinator.WithSASL(m))
			if err == nil {
				err = c.Close()
			}
			ended <- err
		}()
		eventstest.Eventually(t, "some attempts", func() bool { return r.proxy.Accepted() > seen+2 })
		return ended
	}
	errOver := errors.New("the time is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := begin(ctx)
	cancel(errOver)
	err := eventstest.Receive(t, ended, "the end of Connect")
	wantError(t, "Connect", err, r.kdc.Addr(), errOver, sasl.ErrTemporary)
	eventstest.Expect(t, !errors.Is(err, coordinator.ErrNoAuth), "Connect = %v, want another reason", err)
	ended = begin(eventstest.Patiently(t, time.Minute))
	r.kdc.Go()
	eventstest.Check(t, eventstest.Receive(t, ended, "a session"))
}

// TestRealTicketsEnd: a session outlives its ticket, and reconnects with another one. The
// server no longer accepts the old one. A credential cache must be renewed by its user.
func TestRealTicketsEnd(t *testing.T) {
	t.Parallel()
	const skew, life = 1, 2 // seconds, as in Kerberos
	r := newRig(t, skew, fmt.Sprintf("-maxlife %dseconds", life))
	cache := filepath.Join(t.TempDir(), "cache")
	r.kdc.Kinit(cache, "bob", r.bob)
	ofCache, err := CredentialCache(cache, Config(r.kdc.Config()))
	eventstest.Must(t, err)
	ofKeytab := mechanismOf(t, r.kdc, "bob", r.bob)
	var old ticket
	var sessions []*coordinator.Coordinator
	eventstest.Eventually(t, "sessions, in the life of a ticket", func() bool {
		r.kdc.Kinit(cache, "bob", r.bob)
		old, err = ticketOf(t.Context(), ofKeytab, server)
		eventstest.Must(t, err)
		sessions = nil
		for _, m := range []sasl.Mechanism{stale{ofKeytab, old}, ofKeytab, ofCache} {
			c, err := r.connect(t, m)
			if err != nil {
				return false
			}
			sessions = append(sessions, c)
		}
		return true
	})
	var held []*coordinator.Acquisition
	for i, c := range sessions[1:] {
		held = append(held, hold(t, c, fmt.Sprintf("/app/held%d", i)))
	}
	end := time.Now().Add((life + skew + 1) * time.Second)
	eventstest.Eventually(t, "the end of the tickets", func() bool { return time.Now().After(end) })
	_, err = r.connect(t, stale{ofKeytab, old})
	eventstest.ErrorIs(t, err, coordinator.ErrNoAuth, "Connect with the old ticket")
	_, err = r.connect(t, ofCache)
	wantError(t, "with the old cache", err, "in "+cache+" expired at 20", coordinator.ErrNoAuth, ErrExpired)
	r.kdc.Admin("modprinc -maxlife 1hour bob")
	r.kdc.Kinit(cache, "bob", r.bob)
	r.proxy.Cut()
	for i, c := range sessions[1:] {
		eventstest.Check(t, lock(t, c, "/app/lock"))
		stillHeld(t, held[i])
	}
}

// stale is a mechanism with a single ticket, whatever its age.
type stale struct {
	*mechanism
	old ticket
}

func (s stale) Start(context.Context, string) (sasl.Exchange, error) {
	return &exchange{mechanism: s.mechanism, ticket: s.old}, nil
}

// TestRealServersOfAnotherMechanism: one server has no SASL, and one has DIGEST-MD5.
func TestRealServersOfAnotherMechanism(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	k := kdctest.Start(t, realm)
	k.Add("zookeeper/localhost")
	m := mechanismOf(t, k, "bob", k.Add("bob"), ServerPrincipal("zookeeper/localhost"))
	digest := written(t, "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"x\";\n};\n")
	for name, settings := range map[string][]ensemble.Setting{
		"no SASL": nil, "DIGEST-MD5": {ensemble.Property("java.security.auth.login.config", digest)},
	} {
		_, err := coordinator.Connect(eventstest.Patiently(t, time.Minute), ensemble.Start(t, 1, settings...).Addr(0), coordinator.WithSASL(m))
		wantError(t, name, err, "", coordinator.ErrNoAuth, sasl.ErrMechanism)
	}
}
