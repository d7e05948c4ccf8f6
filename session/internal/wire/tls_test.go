package wire

import (
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

// authority is a certificate that signs others.
func authority(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	return sign(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	})
}

// issue signs a certificate for a host, valid from and until these times relative to now.
func issue(t *testing.T, by *tls.Certificate, name string, from, until time.Duration) tls.Certificate {
	t.Helper()
	return *sign(t, by, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.ParseIP("fe80::1")},
	})
}

// sign creates a certificate. Without an authority, it is self-signed.
func sign(t *testing.T, by *tls.Certificate, template *x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	own := &tls.Certificate{PrivateKey: key, Leaf: template}
	if by == nil {
		by = own
	}
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, &key.PublicKey, by.PrivateKey)
	eventstest.Must(t, err)
	own.Certificate = [][]byte{der}
	own.Leaf, err = x509.ParseCertificate(der)
	eventstest.Must(t, err)
	return own
}

// trusted returns a pool with only the authority's certificate.
func trusted(by *tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(by.Leaf)
	return pool
}

// TestTLSKnowsAnAddressWithAZone: the zone is this machine's, and no certificate contains
// it. Also, closing the connection writes nothing: a dead peer that accepts no more bytes
// would block it.
func TestTLSKnowsAnAddressWithAZone(t *testing.T) {
	ours := authority(t, "ours")
	own := []tls.Certificate{issue(t, ours, "zk.example.com", -time.Hour, time.Hour)}
	f := &fakeServer{serve: func(_ int, c fakeConn) {
		_, _ = tls.Server(c, &tls.Config{Certificates: own}).Read(make([]byte, 1)) // until the client hangs up
	}}
	cfg := &tls.Config{RootCAs: trusted(ours), MinVersion: tls.VersionTLS12}
	d := dialerOf(t, Events{}, Dialing{Dial: f.dial, TLS: always(cfg)})
	conn, err := d.Dial("tcp", "[fe80::1%eth0]:2281", 0)
	eventstest.Must(t, err)
	before := f.socks[0].writes.Load()
	eventstest.Check(t, conn.Close())
	if after := f.socks[0].writes.Load(); before == 0 || after != before {
		t.Errorf("%d writes before the close and %d after it, want as many", before, after)
	}
	f.wg.Wait()
}

// A certificate that the server refuses is reported, with what is known about it. With
// TLS 1.2, the refusal replaces the handshake, and with TLS 1.3, the first answer.
func TestARefusedCertificateIsTold(t *testing.T) {
	const hour = time.Hour
	ours := authority(t, "ours")
	good, first := issue(t, ours, "good", -hour, hour), issue(t, authority(t, "strange"), "first", -hour, hour)
	late, soon := issue(t, ours, "late", -2*hour, -hour), issue(t, ours, "soon", time.Minute, hour)
	server, trusted := issue(t, ours, "zk.example.com", -hour, hour), trusted(ours)
	for name, c := range map[string]struct {
		own  []tls.Certificate
		says string // "": it is not refused
	}{
		"good":             {[]tls.Certificate{good}, ""},
		"of two, one fits": {[]tls.Certificate{first, good}, ""},
		"none":             {nil, "a client without a certificate"},
		"none fits":        {[]tls.Certificate{first}, "a client without a certificate"},
		"expired":          {[]tls.Certificate{late}, "the certificate of CN=late, which expired at "},
		"not valid as yet": {[]tls.Certificate{soon}, "the certificate of CN=soon, which is not valid before "},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			f := &fakeServer{serve: func(_ int, far fakeConn) {
				conn := tls.Server(far, &tls.Config{
					Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
				})
				_, _ = conn.Write([]byte{1}) // or the alert, which the client must report
			}}
			near, err := f.dial(t.Context(), "", "")
			eventstest.Must(t, err)
			cfg := &tls.Config{Certificates: c.own, RootCAs: trusted, MaxVersion: version}
			conn, err := secure(t.Context(), near, "zk.example.com:2281", cfg)
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			told := c.says == "" && err == nil || c.says != "" && errors.Is(err, ErrDenied) && strings.Contains(err.Error(), c.says)
			expect(t, told, "%s, %s: %v; want %q", name, tls.VersionName(version), err, c.says)
			eventstest.Check(t, near.Close())
			f.wg.Wait()
		}
	}
}

// A server that resets the connection after its refusal may make the client fail to write
// the handshake. The refusal is reported anyway.
func TestARefusalIsToldBehindAReset(t *testing.T) {
	ours := authority(t, "ours")
	client := issue(t, authority(t, "strange"), "app", -time.Hour, time.Hour)
	server := &tls.Config{
		Certificates: []tls.Certificate{issue(t, ours, "zk.example.com", -time.Hour, time.Hour)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: trusted(ours),
	}
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
			RootCAs: trusted(ours), ServerName: "zk.example.com", MinVersion: tls.VersionTLS13,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil },
		})})
		conn, err := d.Dial("tcp", listener.Addr().String(), 0)
		eventstest.Must(t, err)
		eventstest.Receive(t, refused, "the refusal")
		if _, err = conn.Write(append([]byte{0, 0, 0, 44}, make([]byte, 44)...)); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		expect(t, errors.Is(err, ErrDenied) && denials == 1,
			"%v, and %d denials are told; want ErrDenied, and one", err, denials)
		_ = conn.Close() // it has ended already
	}
	eventstest.Check(t, listener.Close())
	serving.Wait()
}
