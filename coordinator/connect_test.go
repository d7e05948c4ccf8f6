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
	"fmt"
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
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

func TestConnectToUnreachableServersEndsWithItsContextAndTheLastError(t *testing.T) {
	const patience = 20 * time.Second
	noName := &net.DNSError{Err: "no such host", Name: "zk.example.com", IsNotFound: true}
	vanished := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
	failing := func(err error, late bool) func(*zktest.Server) faultnet.Dial {
		return func(*zktest.Server) faultnet.Dial {
			return func(ctx context.Context, _, _ string) (net.Conn, error) {
				if late {
					<-ctx.Done()
				}
				return nil, err
			}
		}
	}
	broken := func(how func(*zktest.Server)) func(*zktest.Server) faultnet.Dial {
		return func(srv *zktest.Server) faultnet.Dial {
			how(srv)
			return srv.DialContext
		}
	}
	// answering is a server that sends the answer, and then hangs up unless it is to
	// listen.
	answering := func(answer string, listens bool) func(*zktest.Server) faultnet.Dial {
		return func(*zktest.Server) faultnet.Dial {
			return func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				if !listens {
					_ = far.Close()
				}
				// The client hangs up in the middle of either copy.
				go func() { _, _ = io.Copy(io.Discard, far) }()
				go func() { _, _ = io.WriteString(far, answer) }()
				return near, nil
			}
		}
	}
	for name, tt := range map[string]struct {
		dial func(srv *zktest.Server) faultnet.Dial
		says string
	}{
		"refused":                  {broken(func(srv *zktest.Server) { srv.Down(true) }), "refused"},
		"accepts and says nothing": {broken(func(srv *zktest.Server) { srv.MuteAll(true) }), "handshake timed out"},
		"hangs up":                 {answering("", false), "closed"},
		"speaks something else":    {answering("HTTP/1.1 400 Bad Request\r\n\r\n", true), "frame length"},
		"no such name":             {failing(noName, false), "no such host"},
		"packets vanish":           {failing(vanished, true), "i/o timeout"},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			var dials atomic.Int32
			dial := tt.dial(srv)
			counted := coordinator.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return dial(ctx, network, addr)
			})
			enough := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, enough)
			defer cancel()
			start := time.Now()
			_, err := coordinator.Connect(ctx, "zk.example.com:2181", counted)
			took := time.Since(start)
			expectError(t, err, enough, "Connect")
			says(t, "Connect", err, tt.says)
			says(t, "Connect", err, "zk.example.com:2181")
			expect(t, took >= patience && took <= patience+time.Second,
				"Connect took %v, want as long as its context, %v", took, patience)
			// At least half a second apart, once they keep failing.
			expect(t, dials.Load() > 1 && dials.Load() <= 60, "%d dials in %v, want 2 to 60", dials.Load(), took)
		})
	}
}

func TestOptionsThatCannotBeEndConnect(t *testing.T) {
	const timeout = 10 * time.Second
	for name, c := range map[string]struct {
		option coordinator.Option
		ok     bool
	}{
		"default tick":            {coordinator.WithTickTime(0), true},
		"longest tick":            {coordinator.WithTickTime(timeout / 2), true},
		"tick too long":           {coordinator.WithTickTime(timeout/2 + 1), false},
		"negative tick":           {coordinator.WithTickTime(-1), false},
		"default probe interval":  {coordinator.WithProbeInterval(0), true},
		"longest probe interval":  {coordinator.WithProbeInterval(timeout / 4), true},
		"probe interval too long": {coordinator.WithProbeInterval(timeout/4 + 1), false},
		"negative probe interval": {coordinator.WithProbeInterval(-1), false},
		"no session timeout":      {coordinator.WithSessionTimeout(0), false},
		"shortest timeout":        {coordinator.WithSessionTimeout(time.Second), true},
		"timeout too short":       {coordinator.WithSessionTimeout(time.Second - 1), false},
		"longest timeout":         {coordinator.WithSessionTimeout(time.Hour), true},
		"timeout too long":        {coordinator.WithSessionTimeout(time.Hour + 1), false},
		"no logger":               {coordinator.WithLogger(nil), true},
		"no access control list":  {coordinator.WithACL(nil), false},
		"smallest budget":         {coordinator.WithNodeBudget(1), true},
		"largest budget":          {coordinator.WithNodeBudget(1<<31 - 1), true},
		"no budget":               {coordinator.WithNodeBudget(0), false},
		"negative budget":         {coordinator.WithNodeBudget(-1), false},
		"negative cache size":     {coordinator.WithCacheSize(-1), false},
		"negative cache idle":     {coordinator.WithCacheIdle(-1), false},
		"no hooks":                {coordinator.WithHooks(), true},
		"a hook":                  {coordinator.WithHooks(&ear{}), true},
		"a deaf hook":             {coordinator.WithHooks(&ear{}, struct{}{}), false},
		"a nil hook":              {coordinator.WithHooks(nil), false},
		"a hook's value":          {coordinator.WithHooks(ear{}), false}, // the methods are the pointer's
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			got, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(),
				coordinator.WithSessionTimeout(timeout), c.option)
			if c.ok {
				eventstest.Must(t, err)
				eventstest.Check(t, got.Close())
				return
			}
			expectError(t, err, coordinator.ErrInvalid, "Connect")
		})
	}
}

// certificate makes a certificate for the host, and a pool that trusts it.
func certificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	eventstest.Must(t, err)
	parsed, err := x509.ParseCertificate(der)
	eventstest.Must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// terminate takes TLS connections at an address, and passes their content on.
func terminate(t *testing.T, server string, cfg *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	eventstest.Must(t, err)
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
				_, _ = io.Copy(front, back) // it ends when one end hangs up
			})
		}
	})
	t.Cleanup(func() {
		eventstest.Check(t, listener.Close())
		all.Wait()
	})
	return listener.Addr().String()
}

// TestTheCauseOfAFailedConnectIsVisibleWithinOneDial, though the second dial never ends.
func TestTheCauseOfAFailedConnectIsVisibleWithinOneDial(t *testing.T) {
	const host = "zk.example.com"
	serverCert, trusted := certificate(t, host)
	srv := zktest.Start(t)
	secure := terminate(t, srv.Addr(), &tls.Config{Certificates: []tls.Certificate{serverCert}})
	trusting := &tls.Config{RootCAs: trusted}
	for _, c := range []struct {
		what, addr, host string
		cfg              *tls.Config
		says             string
	}{
		{"a certificate that is not trusted", secure, host, &tls.Config{}, "unknown authority"},
		{"another host's certificate", secure, "other.example.com", trusting, "other.example.com"},
		{"TLS to a plain port", srv.Addr(), host, trusting, "tls: "},
		// A server that expects TLS does not answer plain text.
		{"plain text to a TLS port", secure, host, nil, "a port for TLS"},
	} {
		err := connectOnce(t, c.addr, c.host, c.cfg)
		says(t, c.what, err, c.says)
		var unverified *tls.CertificateVerificationError
		expect(t, errors.As(err, &unverified) == strings.Contains(c.what, "certificate"),
			"%s: the error is a %T: %v", c.what, err, err)
	}

	// With the right config there is a session, whether the host has the name or the
	// caller gives it.
	for at, cfg := range map[string]*tls.Config{host: trusting, "10.0.0.1": {RootCAs: trusted, ServerName: host}} {
		c, err := coordinator.Connect(t.Context(), at, coordinator.WithTLS(cfg), coordinator.WithDialer(dialTo(secure)))
		eventstest.Must(t, err)
		coordtest.Hold(t, c.Mutex(lockPath))
		eventstest.Check(t, c.Close())
	}
	expect(t, trusting.ServerName == "",
		"the caller's config has got the server name %q, want it left as it was", trusting.ServerName)
}

// TestARefusedCertificateEndsConnect at the first dial.
func TestARefusedCertificateEndsConnect(t *testing.T) {
	const host = "zk.example.com"
	serverCert, trusted := certificate(t, host)
	clientCert, _ := certificate(t, host)
	srv := zktest.Start(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		picky := terminate(t, srv.Addr(), &tls.Config{
			Certificates: []tls.Certificate{serverCert}, MaxVersion: version,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
		})
		for name, own := range map[string][]tls.Certificate{"none": nil, "one that is not trusted": {clientCert}} {
			what := fmt.Sprintf("%s, %s", name, tls.VersionName(version))
			cfg := &tls.Config{RootCAs: trusted, Certificates: own}
			c, err := coordinator.Connect(t.Context(), host, coordinator.WithTLS(cfg), coordinator.WithDialer(dialTo(picky)))
			expectError(t, err, coordinator.ErrNoAuth, what)
			says(t, what, err, "tls: ") // the server's reason
			if err == nil {
				eventstest.Check(t, c.Close())
			}
		}
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
	ctx, cancel := eventstest.Patient(coordtest.RealMax)
	defer cancel()
	var dials atomic.Int32
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			time.AfterFunc(50*time.Millisecond, cancel) // the end of the first dial is on its way through a mailbox
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
		t.Errorf("a client with %+v has connected, want an error", cfg)
		eventstest.Check(t, c.Close())
		return nil
	}
	expectError(t, err, context.Canceled, "Connect")
	expect(t, dials.Load() == 2, "%d dials, want 2", dials.Load())
	return err
}

func says(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want it to say %q", what, err, text)
	}
}

// connectBelow returns a coordinator below a chroot of the double.
func connectBelow(t *testing.T, srv *zktest.Server, chroot string) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), srv.Addr()+chroot, srv.Option())
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the server may have gone
	return c
}
