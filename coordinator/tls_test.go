package coordinator_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// certificate makes one for the host, signed by itself, and a pool that trusts it.
func certificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// terminate takes TLS connections on a free port and passes on what is in them. Its
// result is the address.
func terminate(t *testing.T, server string, cfg *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			front, err := listener.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() {
				defer front.Close()
				var start [1]byte
				if _, err := io.ReadFull(front, start[:]); err != nil {
					return // no TLS, or not ours
				}
				back, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
				if err != nil {
					return
				}
				all.Go(func() {
					defer back.Close()
					_, _ = io.Copy(back, io.MultiReader(bytes.NewReader(start[:]), front))
				})
				_, _ = io.Copy(front, back) // that one end hangs up is how this ends
			})
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
	return listener.Addr().String()
}

// TestTheCauseOfAFailedConnectIsVisibleWithinOneDial: the first dial fails, the second
// never ends, and the error says what was wrong with the first.
func TestTheCauseOfAFailedConnectIsVisibleWithinOneDial(t *testing.T) {
	const host = "zk.example.com"
	serverCert, trusted := certificate(t, host)
	clientCert, _ := certificate(t, host)
	srv := zktest.Start(t)
	own := []tls.Certificate{serverCert}
	secure := terminate(t, srv.Addr(), &tls.Config{Certificates: own})
	picky := terminate(t, srv.Addr(), &tls.Config{
		Certificates: own, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
	})
	picky12 := terminate(t, srv.Addr(), &tls.Config{
		Certificates: own, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), MaxVersion: tls.VersionTLS12,
	})
	as[*tls.CertificateVerificationError](t, connectOnce(t, secure, host, &tls.Config{}), "unknown authority")
	as[*tls.CertificateVerificationError](t, connectOnce(t, secure, "other.example.com", &tls.Config{RootCAs: trusted}), "other.example.com")
	none := &tls.Config{RootCAs: trusted}
	wrong := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{clientCert}}
	says(t, "no certificate of the client's", connectOnce(t, picky, host, none), "tls: certificate required")
	says(t, "no certificate of the client's, TLS 1.2", connectOnce(t, picky12, host, none), "tls: ")
	says(t, "a client's certificate that is not trusted", connectOnce(t, picky, host, wrong), "tls: ")
	says(t, "TLS to a plain port", connectOnce(t, srv.Addr(), host, &tls.Config{RootCAs: trusted}), "tls: ")
	// A server that expects TLS says nothing to who does not speak it.
	says(t, "plain text to a TLS port", connectOnce(t, secure, host, nil), "closed the connection during the handshake")

	// And with the right one there is a session.
	c, err := coordinator.Connect(t.Context(), host, coordinator.WithTLS(none), coordinator.WithDialer(dialTo(secure)))
	if err != nil {
		t.Fatal(err)
	}
	coordtest.Hold(t, c.Mutex(lockPath))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func dialTo(addr string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// connectOnce fails to connect, with one dial, and returns why.
func connectOnce(t *testing.T, addr, host string, cfg *tls.Config) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var dials atomic.Int32
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			time.AfterFunc(50*time.Millisecond, cancel) // the first one's end is on its way through a mailbox
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dialTo(addr)(ctx, network, "")
	}
	options := []coordinator.Option{coordinator.WithDialer(dial)}
	if cfg != nil {
		options = append(options, coordinator.WithTLS(cfg))
	}
	c, err := coordinator.Connect(ctx, host+":2281", options...)
	if err == nil {
		t.Error("connected")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		return nil
	}
	if !errors.Is(err, context.Canceled) || dials.Load() != 2 {
		t.Errorf("%d dials: %v", dials.Load(), err)
	}
	return err
}

// as wants an error of the type E in the chain, and what it says.
func as[E error](t *testing.T, err error, text string) {
	t.Helper()
	var e E
	if !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
		t.Errorf("no %T that says %q: %v", e, text, err)
	}
}

func says(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want it to say %q", what, err, text)
	} else {
		t.Logf("%s: %v", what, err)
	}
}
