package session

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// tlsFixture makes a certificate authority and a certificate for the given name.
func tlsFixture(t *testing.T, name string) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		eventstest.Must(t, err)
		return key
	}
	sign := func(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		eventstest.Must(t, err)
		cert, err := x509.ParseCertificate(der)
		eventstest.Must(t, err)
		return cert
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	caKey, key := newKey(), newKey()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca = sign(ca, ca, caKey, caKey)
	leaf := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: from, NotAfter: to,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, key, caKey)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return pool, tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
}

// serveTCP accepts connections on a free port of the loopback and gives each to serve, until the test ends. The DialFunc it returns
// leads there from any name.
func serveTCP(t *testing.T, serve func(net.Conn)) DialFunc {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	eventstest.Must(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		eventstest.Check(t, listener.Close())
		all.Wait()
	})
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
	}
}

func TestTLSRefusesTheCertificateOfAnother(t *testing.T) {
	pool, cert := tlsFixture(t, "zk.example.com")
	dial := serveTCP(t, func(conn net.Conn) {
		c := fakeConn{tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})}
		if _, ok := c.handshake(); !ok {
			return
		}
		c.grant(testTimeout, 7)
		c.echo()
	})
	newClient := func(t *testing.T, host string, cfg *tls.Config) (*dialer, *hosts, *zk.Conn, <-chan zk.Event) {
		t.Helper()
		h := newHosts([]string{host}, testRand())
		d := newDialer(t.Context(), newLink(linkEvents{}), dialing{dial: dial, tls: cfg, asked: testTimeout, rng: testRand()})
		conn, events, err := zk.Connect([]string{host}, testTimeout, zk.WithHostProvider(h), zk.WithDialer(d.Dial),
			zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		return d, h, conn, events
	}
	for name, c := range map[string]struct {
		host string
		cfg  *tls.Config
		good bool
	}{
		"name of the host":   {"zk.example.com:2181", &tls.Config{RootCAs: pool}, true},
		"name given":         {"10.0.0.1:2181", &tls.Config{RootCAs: pool, ServerName: "zk.example.com"}, true},
		"another host":       {"other.example.com:2181", &tls.Config{RootCAs: pool}, false},
		"unknown authority":  {"zk.example.com:2181", &tls.Config{RootCAs: x509.NewCertPool()}, false},
		"another name given": {"zk.example.com:2181", &tls.Config{RootCAs: pool, ServerName: "other.example.com"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			given := c.cfg.ServerName
			d, _, conn, events := newClient(t, c.host, c.cfg)
			if c.good {
				eventstest.Check(t, conn.Delete("/x", -1))
			} else {
				var certErr *tls.CertificateVerificationError
				eventstest.Eventually(t, "the certificate is refused", func() bool { return errors.As(d.lastError(), &certErr) })
			}
			d.stop()
			conn.Close()
			eventstest.Check(t, d.hardClose())
			for range events {
			}
			if c.cfg.ServerName != given {
				t.Errorf("the caller's config has the server name %q, want it left at %q", c.cfg.ServerName, given)
			}
		})
	}
}

func TestTLSHandshakeHasTheSameDeadline(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		mute := &fakeServer{serve: func(_ int, c fakeConn) { _, _ = io.Copy(io.Discard, c) }}
		d := newDialer(t.Context(), newLink(linkEvents{}), dialing{
			dial: mute.dial, tls: &tls.Config{}, asked: testTimeout, rng: testRand(),
		})
		start := time.Now()
		_, err := d.Dial("tcp", "zk.example.com:2181", 0)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != testTimeout*3/10 {
			t.Errorf("a handshake that is never answered ended with %v after %v; want the deadline, after %v", err, took, testTimeout*3/10)
		}
		mute.wg.Wait()
	})
}

// writeCounter counts the writes on a socket.
type writeCounter struct {
	net.Conn
	writes atomic.Int64
}

func (c *writeCounter) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A dead peer that takes no more bytes must not hold up the closing of a TLS connection, so nothing is written to it.
func TestTLSCloseSaysNoFarewell(t *testing.T) {
	pool, cert := tlsFixture(t, "zk.example.com")
	dial := serveTCP(t, func(conn net.Conn) {
		// Whatever error ends this is the point of no test.
		_, _ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}}).Read(make([]byte, 1))
	})
	var socket *writeCounter
	d := newDialer(t.Context(), newLink(linkEvents{}), dialing{
		dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			socket = &writeCounter{Conn: conn}
			return socket, err
		},
		tls: &tls.Config{RootCAs: pool}, asked: testTimeout, rng: testRand(),
	})
	conn, err := d.Dial("tcp", "zk.example.com:2181", 0)
	eventstest.Must(t, err)
	before := socket.writes.Load()
	eventstest.Check(t, conn.Close())
	if after := socket.writes.Load(); before == 0 || after != before {
		t.Errorf("%d writes before the close and %d after it, want as many", before, after)
	}
}
