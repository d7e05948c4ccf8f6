package wire

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// coordinator/connect_test.go tests which certificates are accepted.

func always(cfg *tls.Config) func() *tls.Config { return func() *tls.Config { return cfg } }

// tlsAuthority signs certificates for a name and a time.
type tlsAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newTLSAuthority(t *testing.T, name string) *tlsAuthority {
	t.Helper()
	a := &tlsAuthority{}
	own := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	})
	a.certificate, a.key = own.Leaf, own.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue signs a certificate for a host, valid from then until then.
func (a *tlsAuthority) issue(t *testing.T, name string, from, until time.Duration) tls.Certificate {
	t.Helper()
	now := time.Now()
	return a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(from), NotAfter: now.Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.ParseIP("fe80::1")},
	})
}

// sign makes a certificate, which signs itself as long as the authority has none.
func (a *tlsAuthority) sign(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	parent, by := a.certificate, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	eventstest.Must(t, err)
	leaf, err := x509.ParseCertificate(der)
	eventstest.Must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// trusted has the authority's certificate only.
func (a *tlsAuthority) trusted() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func TestTLSHandshakeHasTheSameDeadline(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		mute := &fakeServer{serve: func(_ int, c fakeConn) { c.ignore() }}
		d := dialerOf(t, Events{}, Dialing{Dial: mute.dial, TLS: always(&tls.Config{})})
		start := time.Now()
		if _, err := d.Dial("tcp", "zk.example.com:2181", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a handshake that is never answered ended with %v, want the deadline", err)
		}
		took(t, "a handshake that is never answered", start, testTimeout*3/10)
		mute.wg.Wait()
	})
}

// TestTLSKnowsAnAddressWithAZone: the zone is this machine's, and no certificate contains
// it. And nothing is written when the connection is closed: a dead peer that takes no
// more bytes would hold it up.
func TestTLSKnowsAnAddressWithAZone(t *testing.T) {
	ours := newTLSAuthority(t, "ours")
	own := []tls.Certificate{ours.issue(t, "zk.example.com", -time.Hour, time.Hour)}
	f := &fakeServer{serve: func(_ int, c fakeConn) {
		_, _ = tls.Server(c, &tls.Config{Certificates: own}).Read(make([]byte, 1)) // until the client hangs up
	}}
	cfg := &tls.Config{RootCAs: ours.trusted(), MinVersion: tls.VersionTLS12}
	d := dialerOf(t, Events{}, Dialing{Dial: f.dial, TLS: always(cfg)})
	conn, err := d.Dial("tcp", "[fe80::1%eth0]:2281", 0)
	if err != nil {
		t.Fatalf("the certificate of fe80::1 is refused: %v", err)
	}
	before := f.socks[0].writes.Load()
	eventstest.Check(t, conn.Close())
	if after := f.socks[0].writes.Load(); before == 0 || after != before {
		t.Errorf("%d writes before the close and %d after it, want as many", before, after)
	}
	f.wg.Wait()
}

// A certificate that the server refuses is reported, with what is known of it here. With
// TLS 1.2 that comes in place of the handshake, and with TLS 1.3 in place of the first
// answer.
func TestARefusedCertificateIsTold(t *testing.T) {
	ours, strange := newTLSAuthority(t, "ours"), newTLSAuthority(t, "strange")
	good := ours.issue(t, "good", -time.Hour, time.Hour)
	server, trusted := ours.issue(t, "zk.example.com", -time.Hour, time.Hour), ours.trusted()
	for name, c := range map[string]struct {
		own  []tls.Certificate
		says string // "": it is not refused
	}{
		"good":             {[]tls.Certificate{good}, ""},
		"of two, one fits": {[]tls.Certificate{strange.issue(t, "first", -time.Hour, time.Hour), good}, ""},
		"none":             {nil, "a client without a certificate"},
		"none fits":        {[]tls.Certificate{strange.issue(t, "first", -time.Hour, time.Hour)}, "a client without a certificate"},
		"expired":          {[]tls.Certificate{ours.issue(t, "late", -2*time.Hour, -time.Hour)}, "the certificate of CN=late, which expired at "},
		"not valid as yet": {[]tls.Certificate{ours.issue(t, "soon", time.Minute, time.Hour)}, "the certificate of CN=soon, which is not valid before "},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			near, far := net.Pipe()
			var serving sync.WaitGroup
			serving.Go(func() {
				conn := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted})
				_, _ = conn.Write([]byte{1}) // or the alert, which the client has to report
				eventstest.Check(t, far.Close())
			})
			conn, err := secure(t.Context(), near, "zk.example.com:2281", &tls.Config{Certificates: c.own, RootCAs: trusted, MaxVersion: version})
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			told := c.says == "" && err == nil || c.says != "" && errors.Is(err, ErrDenied) && strings.Contains(err.Error(), c.says)
			if !told {
				t.Errorf("%s, %s: %v; want %q", name, tls.VersionName(version), err, c.says)
			}
			eventstest.Check(t, near.Close())
			serving.Wait()
		}
	}
}

// A server that resets the connection behind its refusal may have the client fail to
// write the handshake. The refusal is told all the same.
func TestARefusalIsToldBehindAReset(t *testing.T) {
	ours, strange := newTLSAuthority(t, "ours"), newTLSAuthority(t, "strange")
	server := &tls.Config{
		Certificates: []tls.Certificate{ours.issue(t, "zk.example.com", -time.Hour, time.Hour)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ours.trusted(),
	}
	client := strange.issue(t, "app", -time.Hour, time.Hour)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	eventstest.Must(t, err)
	refused := make(chan struct{}, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			socket, err := listener.Accept()
			if err != nil {
				return // closed
			}
			_ = tls.Server(socket, server).HandshakeContext(t.Context()) // refuses the client
			eventstest.Check(t, socket.(*net.TCPConn).SetLinger(0))
			eventstest.Check(t, socket.Close())
			refused <- struct{}{}
		}
	})
	for range 20 {
		denials := 0
		d := dialerOf(t, Events{OnFailed: func(error) { denials++ }}, Dialing{TLS: always(&tls.Config{
			RootCAs: ours.trusted(), ServerName: "zk.example.com", MinVersion: tls.VersionTLS13,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil },
		})})
		conn, err := d.Dial("tcp", listener.Addr().String(), 0)
		eventstest.Must(t, err)
		eventstest.Receive(t, refused, "the refusal")
		if _, err = conn.Write(append([]byte{0, 0, 0, 44}, make([]byte, 44)...)); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if !errors.Is(err, ErrDenied) || denials != 1 {
			t.Errorf("%v, and %d denials are told; want ErrDenied, and one", err, denials)
		}
		_ = conn.Close() // it has ended already
	}
	eventstest.Check(t, listener.Close())
	serving.Wait()
}
