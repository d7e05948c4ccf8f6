package coordinator_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealMutualTLS: a server identifies its clients by their certificates, which the
// test issues. A lock belongs to its owner alone, by the distinguished name. The next
// connection uses another certificate, and the lock stays. An error says why a server
// refuses a certificate.
func TestRealMutualTLS(t *testing.T) {
	eventstest.NeedsServers(t)
	const hour = time.Hour
	authority := eventstest.NewAuthority(t, "authority")
	server := authority.Issue(t, "server", -hour, hour)
	addr, _ := tlsServer(t, authority, server, // 3.8 knows one of these, 3.9 the other
		ensemble.Property("zookeeper.ssl.protocol", "TLSv1.3"), ensemble.Property("zookeeper.ssl.enabledProtocols", "TLSv1.2,TLSv1.3"))
	proxy := ensemble.StartProxy(t, addr)
	connect := func(certificate func() *tls.Certificate, version uint16) (*coordinator.Coordinator, error) {
		return coordinator.Connect(coordtest.RealContext(t), proxy.Addr(), coordinator.WithACL([]zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=bob"}}),
			coordinator.WithTLS(&tls.Config{
				MinVersion: tls.VersionTLS12, MaxVersion: version, RootCAs: authority.Pool(),
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate(), nil },
			}))
	}
	open := func(certificate func() *tls.Certificate) *coordinator.Coordinator {
		t.Helper()
		c, err := connect(certificate, tls.VersionTLS13)
		eventstest.Must(t, err)
		t.Cleanup(func() { eventstest.Must(t, c.Close()) })
		return c
	}
	only := func(c *tls.Certificate) func() *tls.Certificate { return func() *tls.Certificate { return c } }

	first, second := authority.Issue(t, "bob", -hour, hour), authority.Issue(t, "bob", -hour, hour)
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(first)
	var asked atomic.Int32
	bob := open(func() *tls.Certificate { asked.Add(1); return shown.Load() })
	held, _ := coordtest.HoldReal(t, bob.Mutex(lockPath))
	ann := open(only(authority.Issue(t, "ann", -hour, hour)))
	err := coordtest.EndOf(t, ann.Mutex(lockPath).Acquire(t.Context()))
	expectError(t, err, coordinator.ErrNoAuth, "ann's acquisition of bob's lock")

	shown.Store(second)
	before := asked.Load()
	proxy.Cut()
	eventstest.Eventually(t, "bob has connected again", func() bool { return asked.Load() > before })
	coordtest.NotLost(t, held)
	coordtest.End(held)

	stranger := eventstest.NewAuthority(t, "stranger")
	for name, c := range map[string]struct {
		certificate *tls.Certificate
		says        string
	}{
		"expired":  {authority.Issue(t, "bob", -hour, -time.Minute), "the certificate of CN=bob, which expired at "},
		"unknown":  {stranger.Issue(t, "bob", -hour, hour), "the certificate of CN=bob: "},
		"early":    {authority.Issue(t, "bob", hour, 3*hour), "the certificate of CN=bob, which is not valid before "},
		"not sent": {new(tls.Certificate), "a client without a certificate"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			var asked atomic.Int32
			_, err := connect(func() *tls.Certificate { asked.Add(1); return c.certificate }, version)
			what := fmt.Sprint(name, ", ", tls.VersionName(version))
			expectError(t, err, coordinator.ErrNoAuth, what)
			says(t, what, err, c.says)
			expectEqual(t, asked.Load(), 1, "%s: dials", what)
		}
	}
}

// TestRealTLSByDefault: a client connects with the servers' and Go's defaults. The server
// accepts the versions of TLS in the table of docs/security.md.
func TestRealTLSByDefault(t *testing.T) {
	eventstest.NeedsServers(t)
	authority := eventstest.NewAuthority(t, "authority")
	addr, e := tlsServer(t, authority, authority.Issue(t, "server", -time.Hour, time.Hour))
	own := []tls.Certificate{*authority.Issue(t, "bob", -time.Hour, time.Hour)}
	var accepted []string
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{MinVersion: version, MaxVersion: version, RootCAs: authority.Pool(), Certificates: own}
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", addr, config)
		if err == nil {
			eventstest.Must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			if _, err = io.WriteString(conn, "ruok"); err == nil {
				_, err = io.ReadFull(conn, make([]byte, len("imok")))
			}
			eventstest.Check(t, conn.NetConn().Close())
		}
		if err == nil {
			accepted = append(accepted, tls.VersionName(version))
		} else {
			t.Logf("%s: %v", tls.VersionName(version), err)
		}
	}
	release, err := e.Version(t.Context(), 0)
	eventstest.Must(t, err)
	var want []string
	if !ensemble.Since(release, "3.9.2") || ensemble.Since(release, "3.9.6") {
		want = append(want, tls.VersionName(tls.VersionTLS12))
	}
	if ensemble.Since(release, "3.9.2") {
		want = append(want, tls.VersionName(tls.VersionTLS13))
	}
	expect(t, slices.Equal(accepted, want), "ZooKeeper %s accepts %v, want %v", release, accepted, want)
	config := &tls.Config{RootCAs: authority.Pool(), Certificates: own} //nolint:gosec // Go's defaults are what is tested
	coordtest.HoldReal(t, coordtest.ConnectReal(t, addr, coordinator.WithTLS(config)).Mutex(lockPath))
}

// tlsServer starts a server that speaks TLS and requires a certificate of the authority.
// It returns the server's address.
func tlsServer(t *testing.T, a *eventstest.Authority, certificate *tls.Certificate, more ...ensemble.Setting) (addr string, e *ensemble.Ensemble) {
	t.Helper()
	folder := t.TempDir()
	own, trusted := filepath.Join(folder, "server.pem"), filepath.Join(folder, "trusted.pem")
	text, key := eventstest.PEM(t, certificate)
	eventstest.Must(t, os.WriteFile(own, append(key, text...), 0o600))
	text, _ = eventstest.PEM(t, &a.Certificate)
	eventstest.Must(t, os.WriteFile(trusted, text, 0o600))
	free, err := ensemble.FreePort()
	eventstest.Must(t, err)
	port := strconv.Itoa(free)
	e = ensemble.Start(t, 1, append([]ensemble.Setting{
		ensemble.Property("zookeeper.serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"),
		ensemble.Line("secureClientPort", port), ensemble.Line("secureClientPortAddress", "127.0.0.1"),
		ensemble.Line("ssl.keyStore.location", own), ensemble.Line("ssl.trustStore.location", trusted), ensemble.Line("ssl.clientAuth", "need"),
		ensemble.Line("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider"),
	}, more...)...)
	e.Needs(t, ensemble.TLS)
	addr = net.JoinHostPort("127.0.0.1", port)
	eventstest.Eventually(t, "the secure port is open", func() bool { // it opens after the plain one
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close() // only the opening matters
		}
		return err == nil
	})
	return addr, e
}
