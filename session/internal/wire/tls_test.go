package wire

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// coordinator/connect_test.go tests which certificates are accepted.

func always(cfg *tls.Config) func() *tls.Config { return func() *tls.Config { return cfg } }

// TestTLSKnowsAnAddressWithAZone: the zone is this machine's, and no certificate contains
// it. Also, closing the connection writes nothing: a dead peer that accepts no more bytes
// would block it.
func TestTLSKnowsAnAddressWithAZone(t *testing.T) {
	ours := eventstest.NewAuthority(t, "ours")
	own := []tls.Certificate{*ours.Issue(t, "zk.example.com", -time.Hour, time.Hour)}
	f := &fakeServer{serve: func(_ int, c fakeConn) {
		_, _ = tls.Server(c, &tls.Config{Certificates: own}).Read(make([]byte, 1)) // until the client hangs up
	}}
	cfg := &tls.Config{RootCAs: ours.Pool(), MinVersion: tls.VersionTLS12}
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
	ours := eventstest.NewAuthority(t, "ours")
	good, first := *ours.Issue(t, "good", -hour, hour), *eventstest.NewAuthority(t, "strange").Issue(t, "first", -hour, hour)
	late, soon := *ours.Issue(t, "late", -2*hour, -hour), *ours.Issue(t, "soon", time.Minute, hour)
	server, trusted := *ours.Issue(t, "zk.example.com", -hour, hour), ours.Pool()
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
			addr := eventstest.Serve(t, func(far net.Conn) {
				conn := tls.Server(far, &tls.Config{
					Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
				})
				_, _ = conn.Write([]byte{1})    // or the alert, which the client must report
				_, _ = io.Copy(io.Discard, far) // until the client hangs up
			})
			near, err := net.Dial("tcp", addr)
			eventstest.Must(t, err)
			eventstest.Must(t, near.SetDeadline(time.Now().Add(time.Minute)))
			cfg := &tls.Config{Certificates: c.own, RootCAs: trusted, MaxVersion: version}
			conn, err := secure(t.Context(), near, "zk.example.com:2281", cfg)
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			told := c.says == "" && err == nil || c.says != "" && errors.Is(err, ErrDenied) && strings.Contains(err.Error(), c.says)
			expect(t, told, "%s, %s: %v; want %q", name, tls.VersionName(version), err, c.says)
			eventstest.Check(t, near.Close())
		}
	}
}

// A server that resets the connection after its refusal may make the client fail to write
// the handshake. The refusal is reported anyway.
func TestARefusalIsToldBehindAReset(t *testing.T) {
	ours := eventstest.NewAuthority(t, "ours")
	client := *eventstest.NewAuthority(t, "strange").Issue(t, "app", -time.Hour, time.Hour)
	server := &tls.Config{
		Certificates: []tls.Certificate{*ours.Issue(t, "zk.example.com", -time.Hour, time.Hour)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool(),
	}
	refused := make(chan struct{}, 1)
	addr := eventstest.Serve(t, func(socket net.Conn) {
		_ = tls.Server(socket, server).HandshakeContext(t.Context()) // refuses the client
		eventstest.Check(t, socket.(*net.TCPConn).SetLinger(0))
		eventstest.Check(t, socket.Close())
		refused <- struct{}{}
	})
	for range 20 {
		denials := 0
		d := dialerOf(t, Events{OnFailed: func(error) { denials++ }}, Dialing{TLS: always(&tls.Config{
			RootCAs: ours.Pool(), ServerName: "zk.example.com", MinVersion: tls.VersionTLS13,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil },
		})})
		conn, err := d.Dial("tcp", addr, 0)
		eventstest.Must(t, err)
		eventstest.Receive(t, refused, "the refusal")
		if _, err = conn.Write(append([]byte{0, 0, 0, 44}, make([]byte, 44)...)); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		expect(t, errors.Is(err, ErrDenied) && denials == 1,
			"%v, and %d denials are told; want ErrDenied, and one", err, denials)
		_ = conn.Close() // it has ended already
	}
}
