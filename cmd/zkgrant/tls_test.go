//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A TLS listener that asks for a certificate stands before a server. The flags, and their variables, hold what a client needs.
func testRealTLS(t *testing.T, e *ensemble.Ensemble) {
	cert, key := certificate(t)
	front := tlsFront(t, e.Addr(0), cert, key)
	line := append([]string{"run", "/tls"}, commandLine("exit", "3")...)
	in := func(environment ...string) *eventstest.Process {
		return beginWith(t, nil, append(environment, "ZKGRANT_SERVERS="+front), line...)
	}
	in("ZKGRANT_TLS_CA="+cert, "ZKGRANT_TLS_CERT="+cert, "ZKGRANT_TLS_KEY="+key, "ZKGRANT_TLS_SERVER_NAME=zk.example").Exits(3)
	wrong := begin(t, "", slices.Concat([]string{"ls", "--servers", front, "--session-timeout", "4s", "/"},
		[]string{"--tls-ca", cert, "--tls-cert", cert, "--tls-key", key, "--tls-server-name", "other.example"})...)
	wrong.Exits(codeFailed)
	wrong.Must(t, "zk.example, not other.example")
	for flag, word := range map[string]string{"--tls-ca": "no certificate in it", "--tls-cert": "--tls-cert and --tls-key"} {
		bad := begin(t, "", "ls", "--servers", front, flag, key, "/")
		bad.Exits(codeFailed)
		bad.Must(t, word)
	}
}

// renew replaces the files by new ones.
func renew(t *testing.T, cert, key string) {
	t.Helper()
	newCert, newKey := certificate(t)
	eventstest.Must(t, os.Rename(newCert, cert))
	eventstest.Must(t, os.Rename(newKey, key))
}

// TestRenewedCertificatesAreRead: the servers take only the new certificate, and have only that, from a moment on. The command that
// runs then keeps its lock. Before, the files are broken for a while, and what was read before is used.
func TestRenewedCertificatesAreRead(t *testing.T) {
	server := zktest.Start(t)
	cert, key := certificate(t)
	ours, oursKey := copyOf(t, cert), copyOf(t, key)
	front := tlsFront(t, server.Addr(), cert, key)
	p := begin(t, "", append([]string{
		"run", "-v", "--servers", front, "--tls-ca", ours, "--tls-cert", ours, "--tls-key", oursKey, "--tls-server-name", "zk.example", lockPath,
	}, commandLine("wait")...)...)
	ready(t, p, "command")
	reconnects := func(n int) {
		t.Helper()
		server.CutAll()
		p.Await(t, "connected again", n)
	}

	eventstest.Must(t, os.WriteFile(ours, []byte("half of it"), 0o600))
	reconnects(1)
	p.Must(t, "no certificate in it; what was read before is used")
	renew(t, cert, key)
	for from, to := range map[string]string{cert: ours, key: oursKey} {
		text, err := os.ReadFile(from)
		eventstest.Must(t, err)
		eventstest.Must(t, os.WriteFile(to, text, 0o600))
	}
	reconnects(2)
	nodes(t, server, 1, "after the renewal")
	if n := p.Count("LOST"); n != 0 {
		t.Errorf("the lock is lost:\n%s", p)
	}
	p.Send(syscall.SIGTERM)
	p.Exits(0)
}

// TestTheExporterReadsRenewedFiles: the servers take only the new certificate from a moment on, and show a lock only to
// the new identity. The exporter that runs has the lock at its next connection.
func TestTheExporterReadsRenewedFiles(t *testing.T) {
	t.Parallel()
	ctx := eventstest.Patiently(t, time.Minute)
	server := zktest.Start(t)
	admin, news, err := zk.Connect([]string{server.Addr()}, time.Minute, zk.WithLogger(eventstest.Quiet{}))
	eventstest.Must(t, err)
	t.Cleanup(func() {
		admin.Close()
		for range news { // closed when the client's goroutines have ended
		}
	})
	eventstest.Must(t, admin.AddAuth("digest", []byte("ann:new")))
	for _, node := range []string{"/locks", "/locks/a", "/locks/a/_c_00000000-0000-4000-8000-000000000000-lock-0000000000"} {
		acl := zk.WorldACL(zk.PermAll)
		if node == "/locks/a" {
			acl = zk.AuthACL(zk.PermAll)
		}
		_, err := admin.Create(node, nil, 0, acl)
		eventstest.Must(t, err)
	}
	cert, key := certificate(t)
	identities := filepath.Join(t.TempDir(), "identities")
	eventstest.Must(t, os.WriteFile(identities, []byte("digest:ann:old\n"), 0o600))
	p, url := exports(t, tlsFront(t, server.Addr(), cert, key), "--interval", "1ms", "--auth-file", identities,
		"--tls-ca", cert, "--tls-cert", cert, "--tls-key", key, "--tls-server-name", "zk.example", "/locks")
	const visible, connected = `zkgrant_queue_held{kind="unknown",lock="/locks/a"} 1`, `zkgrant_session_state{state="connected"} 1`
	shows(ctx, t, url+"metrics", connected)
	if page := got(ctx, t, url+"metrics"); strings.Contains(page, visible) {
		t.Fatalf("the former identity sees the lock:\n%s", page)
	}
	renew(t, cert, key)
	eventstest.Must(t, os.WriteFile(identities, []byte("digest:ann:new\n"), 0o600))
	server.CutAll()
	shows(ctx, t, url+"metrics", connected, visible)
	p.Send(syscall.SIGTERM)
	p.Exits(0)
}

// TestRealRenewedCertificates: a server is restarted with a new certificate and trusts only new clients. The files of the client were
// renewed before. The command that runs keeps its lock, and the digest of the session is still the one that made the node.
func TestRealRenewedCertificates(t *testing.T) {
	eventstest.NeedsServers(t)
	if !eventstest.Full() {
		t.Skip("TestRenewedCertificatesAreRead has it without a real server; ZKGRANT_FULL=1 runs this one")
	}
	cert, key := certificate(t)
	store := filepath.Join(t.TempDir(), "store.pem")
	keep := func() {
		var both []byte
		for _, file := range []string{key, cert} {
			text, err := os.ReadFile(file)
			eventstest.Must(t, err)
			both = append(both, text...)
		}
		eventstest.Must(t, os.WriteFile(store, both, 0o600))
	}
	keep()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	eventstest.Must(t, err)
	secure := listener.Addr().String()
	eventstest.Must(t, listener.Close())
	_, port, err := net.SplitHostPort(secure)
	eventstest.Must(t, err)
	e := ensemble.Start(t, 1,
		ensemble.Property("zookeeper.serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"),
		ensemble.Line("secureClientPort", port), ensemble.Line("secureClientPortAddress", "127.0.0.1"),
		ensemble.Line("ssl.keyStore.location", store), ensemble.Line("ssl.trustStore.location", cert), ensemble.Line("ssl.clientAuth", "need"),
		ensemble.Line("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider"),
	)
	identities := filepath.Join(t.TempDir(), "identities")
	eventstest.Must(t, os.WriteFile(identities, []byte("digest:ann:old\n"), 0o600))
	p := begin(t, "", append([]string{
		"run", "-v", "--servers", secure, "--session-timeout", "30s", "--auth-file", identities,
		"--tls-ca", cert, "--tls-cert", cert, "--tls-key", key, "--tls-server-name", "zk.example", lockPath,
	}, commandLine("wait")...)...)
	ready(t, p, "command")
	renew(t, cert, key)
	keep()
	eventstest.Must(t, os.WriteFile(identities, []byte("digest:ann:new\n"), 0o600))
	eventstest.Must(t, e.Kill(0))
	eventstest.Must(t, e.Restart(0))
	p.Await(t, "connected again", 1)
	p.Must(t, "the identities have changed; the former ones are used until the session has no node")
	if n := p.Count("LOST"); n != 0 {
		t.Errorf("the lock is lost:\n%s", p)
	}
	p.Send(syscall.SIGTERM)
	p.Exits(0)
}

func copyOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	eventstest.Must(t, err)
	to := filepath.Join(t.TempDir(), "ours.pem")
	eventstest.Must(t, os.WriteFile(to, text, 0o600))
	return to
}

// certificate writes a certificate for zk.example, which is its own authority, and its key to files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "zk.example"}, DNSNames: []string{"zk.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	eventstest.Must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(secret)
	eventstest.Must(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	eventstest.Must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	eventstest.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	return cert, key
}

// tlsFront listens with the certificate, admits clients that have it, too, and relays to the server.
func tlsFront(t *testing.T, server, cert, key string) string {
	t.Helper()
	// The files are read for each connection, as a server does that was restarted.
	config := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		known := x509.NewCertPool()
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err == nil {
			known.AddCert(pair.Leaf)
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: known, ClientAuth: tls.RequireAndVerifyClientCert,
		}, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: config})
	eventstest.Must(t, err)
	var all sync.WaitGroup
	pass := func(from, to net.Conn) {
		_, _ = io.Copy(to, from) // the end of either ends both
		_, _ = to.Close(), from.Close()
	}
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil { // the listener is closed
				return
			}
			behind, err := net.Dial("tcp", server)
			if err != nil {
				t.Error(err)
				return
			}
			all.Go(func() { pass(conn, behind) })
			all.Go(func() { pass(behind, conn) })
		}
	})
	t.Cleanup(func() {
		eventstest.Check(t, listener.Close())
		all.Wait()
	})
	return listener.Addr().String()
}
