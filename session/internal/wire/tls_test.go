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
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// coordinator/connect_test.go tests which certificates are accepted.

func always(cfg *tls.Config) func() *tls.Config { return func() *tls.Config { return cfg } }

func TestTLSHandshakeHasTheSameDeadline(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		mute := &fakeServer{serve: func(_ int, c fakeConn) { _, _ = io.Copy(io.Discard, c) }}
		d := NewDialer(t.Context(), NewLink(Events{}), Dialing{
			Dial: mute.dial, TLS: always(&tls.Config{}), Asked: testTimeout, Rng: testRand(),
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	eventstest.Must(t, err)
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		own := []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}
		// The test does not depend on the error that ends this.
		_, _ = tls.Server(far, &tls.Config{Certificates: own}).Read(make([]byte, 1))
	})
	socket := &writeCounter{Conn: near}
	d := NewDialer(t.Context(), NewLink(Events{}), Dialing{
		Dial: func(context.Context, string, string) (net.Conn, error) { return socket, nil },
		TLS:  always(&tls.Config{InsecureSkipVerify: true}), Asked: testTimeout, Rng: testRand(),
	})
	conn, err := d.Dial("tcp", "zk.example.com:2181", 0)
	eventstest.Must(t, err)
	before := socket.writes.Load()
	eventstest.Check(t, conn.Close())
	if after := socket.writes.Load(); before == 0 || after != before {
		t.Errorf("%d writes before the close and %d after it, want as many", before, after)
	}
	serving.Wait()
}

// The zone of an address is this machine's, and no certificate contains it.
func TestTLSKnowsAnAddressWithAZone(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP("fe80::1")},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	eventstest.Must(t, err)
	cert, err := x509.ParseCertificate(der)
	eventstest.Must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		_, _ = tls.Server(far, &tls.Config{Certificates: own}).Read(make([]byte, 1)) // until the client hangs up
	})
	d := NewDialer(t.Context(), NewLink(Events{}), Dialing{
		Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil },
		TLS:  always(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), Asked: testTimeout, Rng: testRand(),
	})
	conn, err := d.Dial("tcp", "[fe80::1%eth0]:2281", 0)
	if err != nil {
		t.Errorf("the certificate of fe80::1 is refused: %v", err)
		eventstest.Check(t, near.Close())
	} else {
		eventstest.Check(t, conn.Close())
	}
	serving.Wait()
}

// tlsAuthority signs certificates for a name and a time.
type tlsAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newTLSAuthority(t *testing.T, name string) *tlsAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	eventstest.Must(t, err)
	certificate, err := x509.ParseCertificate(der)
	eventstest.Must(t, err)
	return &tlsAuthority{certificate, key}
}

func (a *tlsAuthority) issue(t *testing.T, name string, from, until time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(from), NotAfter: now.Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, DNSNames: []string{name},
	}, a.certificate, &key.PublicKey, a.key)
	eventstest.Must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A certificate that the server refuses is reported, with what is known of it here. With TLS 1.2 that comes in place of the handshake, and
// with TLS 1.3 in place of the first answer.
func TestARefusedCertificateIsTold(t *testing.T) {
	ours, strange := newTLSAuthority(t, "ours"), newTLSAuthority(t, "strange")
	good := ours.issue(t, "good", -time.Hour, time.Hour)
	server := ours.issue(t, "zk.example.com", -time.Hour, time.Hour)
	trusted := x509.NewCertPool()
	trusted.AddCert(ours.certificate)
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

// A server that resets the connection behind its refusal may have the client fail to write the handshake. The refusal is told all the same.
func TestARefusalIsToldBehindAReset(t *testing.T) {
	ours, strange := newTLSAuthority(t, "ours"), newTLSAuthority(t, "strange")
	trusted := x509.NewCertPool()
	trusted.AddCert(ours.certificate)
	server := &tls.Config{Certificates: []tls.Certificate{ours.issue(t, "zk.example.com", -time.Hour, time.Hour)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted}
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
		d := NewDialer(t.Context(), NewLink(Events{OnDenied: func(error) { denials++ }}), Dialing{
			TLS: always(&tls.Config{
				RootCAs: trusted, ServerName: "zk.example.com", MinVersion: tls.VersionTLS13,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil },
			}),
			Asked: testTimeout, Rng: testRand(), Dial: new(net.Dialer).DialContext,
		})
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
