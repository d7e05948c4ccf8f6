package coordinator_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The mistakes of a connect string are in session/connectstring_test.go.
func TestABadConnectStringIsNotDialled(t *testing.T) {
	_, err := coordinator.Connect(t.Context(), "zk1,zk2:", coordinator.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		t.Error("a server was dialled, want none")
		return nil, net.ErrClosed
	}))
	if !errors.Is(err, coordinator.ErrConnectString) || !strings.Contains(err.Error(), `host 2 "zk2:"`) {
		t.Errorf("Connect = %v, want ErrConnectString that names the second host", err)
	}
}

func TestConnectToUnreachableServersEndsWithItsContextAndTheLastError(t *testing.T) {
	const patience = 20 * time.Second
	for name, tt := range map[string]struct {
		dial func(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error)
		says string
	}{
		"refused": {
			func(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				srv.Down(true)
				return srv.DialContext
			}, "refused",
		},
		"accepts and says nothing": {
			func(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				srv.MuteAll(true)
				return srv.DialContext
			}, "handshake timed out",
		},
		"hangs up": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					_ = far.Close()
					return near, nil
				}
			}, "closed",
		},
		"no such name": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.DNSError{Err: "no such host", Name: "zk.example.com", IsNotFound: true}
				}
			}, "no such host",
		},
		"packets vanish": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
				}
			}, "i/o timeout",
		},
		"speaks something else": {
			func(*zktest.Server) func(context.Context, string, string) (net.Conn, error) {
				return func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					// The client hangs up in the middle of either copy.
					go func() { _, _ = io.Copy(io.Discard, far) }()
					go func() { _, _ = far.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }()
					return near, nil
				}
			}, "frame length",
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
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
				if !errors.Is(err, enough) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "zk.example.com:2181") {
					t.Errorf("Connect = %v, want the cause of its context, the server's address and %q", err, tt.says)
				}
				if took < patience || took > patience+time.Second {
					t.Errorf("Connect took %v, want as long as its context, %v", took, patience)
				}
				if n := dials.Load(); n < 2 || n > 60 { // at least half a second apart, once they keep failing
					t.Errorf("%d dials in %v, want 2 to 60", n, took)
				}
			})
		})
	}
}

func TestConnectWithAnEndedContextEndsAtOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		srv.MuteAll(true)
		if _, err := coordinator.Connect(ctx, srv.Addr(), srv.Option()); !errors.Is(err, context.Canceled) {
			t.Errorf("Connect with an ended context = %v, want context.Canceled", err)
		}
	})
}

func TestAnIdentityThatTheServerRefusesEndsConnect(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		start := time.Now()
		_, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithAuth("crystal", []byte("ball")))
		if !errors.Is(err, coordinator.ErrNoAuth) || time.Since(start) > 2*time.Second {
			t.Errorf("Connect = %v after %v, want ErrNoAuth within 2 s", err, time.Since(start))
		}
		synctest.Wait()
		if n := srv.Requests(zktest.OpAuth); n > 2 {
			t.Errorf("%d attempts with an identity that was refused, want at most 2", n)
		}
	})
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
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				got, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithSessionTimeout(timeout), c.option)
				if (err == nil) != c.ok {
					t.Errorf("Connect = %v, want a coordinator: %v", err, c.ok)
				}
				if err == nil {
					if err := got.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// brittle is a connection that breaks at the next request of one kind, if armed.
type brittle struct {
	net.Conn
	armed *atomic.Bool
	op    int32
}

func (b *brittle) Write(p []byte) (int, error) {
	if len(p) >= 12 && int32(binary.BigEndian.Uint32(p[8:])) == b.op && b.armed.CompareAndSwap(true, false) {
		_ = b.Conn.Close()
		return 0, errors.New("connection reset by peer")
	}
	return b.Conn.Write(p)
}

// The connection is reset right after the handshake of a reconnect, so that the write of the identity
// fails. The client has no room for the answer to it.
func TestAnIdentityThatIsNotSentOnAReconnectIsSentOnTheNext(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var armed atomic.Bool
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := srv.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &brittle{c, &armed, 100}, nil
		}
		c, err := coordinator.Connect(t.Context(), srv.Addr(), coordinator.WithDialer(dial), coordinator.WithAuth("digest", []byte("u:p")))
		if err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		srv.Cut(c.SessionID())
		time.Sleep(time.Hour) // one broken connection; after that all is well for an hour
		synctest.Wait()
		if armed.Load() {
			t.Fatal("no connection broke at the identity, want the second one to")
		}
		if c.State() != coordinator.StateConnected {
			t.Errorf("an hour after one failed write the coordinator is %v, want it connected", c.State())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// certificate makes a certificate for the host, signed by itself, and a pool that trusts it.
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

// terminate takes TLS connections on a free port and passes their content on. It returns the address.
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
				_, _ = io.Copy(front, back) // it ends when one end hangs up
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

// TestTheCauseOfAFailedConnectIsVisibleWithinOneDial: the first dial fails, the second never ends, and
// the error has the cause of the first.
func TestTheCauseOfAFailedConnectIsVisibleWithinOneDial(t *testing.T) {
	const host = "zk.example.com"
	serverCert, trusted := certificate(t, host)
	srv := zktest.Start(t)
	own := []tls.Certificate{serverCert}
	secure := terminate(t, srv.Addr(), &tls.Config{Certificates: own})
	as[*tls.CertificateVerificationError](t, connectOnce(t, secure, host, &tls.Config{}), "unknown authority")
	as[*tls.CertificateVerificationError](t, connectOnce(t, secure, "other.example.com", &tls.Config{RootCAs: trusted}), "other.example.com")
	none := &tls.Config{RootCAs: trusted}
	says(t, "TLS to a plain port", connectOnce(t, srv.Addr(), host, &tls.Config{RootCAs: trusted}), "tls: ")
	// A server that expects TLS does not answer plain text.
	says(t, "plain text to a TLS port", connectOnce(t, secure, host, nil), "a port for TLS")

	// With the right config there is a session, whether the host has the name or the caller gives it.
	for at, cfg := range map[string]*tls.Config{host: none, "10.0.0.1": {RootCAs: trusted, ServerName: host}} {
		c, err := coordinator.Connect(t.Context(), at, coordinator.WithTLS(cfg), coordinator.WithDialer(dialTo(secure)))
		eventstest.Must(t, err)
		coordtest.Hold(t, c.Mutex(lockPath))
		eventstest.Check(t, c.Close())
	}
	if none.ServerName != "" {
		t.Errorf("the caller's config has got the server name %q, want it left as it was", none.ServerName)
	}
}

// TestARefusedCertificateEndsConnect at the first dial.
func TestARefusedCertificateEndsConnect(t *testing.T) {
	const host = "zk.example.com"
	serverCert, trusted := certificate(t, host)
	clientCert, _ := certificate(t, host)
	srv := zktest.Start(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		picky := terminate(t, srv.Addr(), &tls.Config{
			Certificates: []tls.Certificate{serverCert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(), MaxVersion: version,
		})
		for name, own := range map[string][]tls.Certificate{"none": nil, "one that is not trusted": {clientCert}} {
			c, err := coordinator.Connect(t.Context(), host,
				coordinator.WithTLS(&tls.Config{RootCAs: trusted, Certificates: own}), coordinator.WithDialer(dialTo(picky)))
			if !errors.Is(err, coordinator.ErrNoAuth) || !strings.Contains(err.Error(), "tls: ") {
				t.Errorf("%s, %s: Connect = %v, want ErrNoAuth and the server's reason", name, tls.VersionName(version), err)
			}
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
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		return nil
	}
	if !errors.Is(err, context.Canceled) || dials.Load() != 2 {
		t.Errorf("after %d dials Connect = %v, want 2, and context.Canceled", dials.Load(), err)
	}
	return err
}

// as wants an error of the type E in the chain, with the text.
func as[E error](t *testing.T, err error, text string) {
	t.Helper()
	var e E
	if !errors.As(err, &e) || !strings.Contains(err.Error(), text) {
		t.Errorf("Connect = %v, want a %T that says %q", err, e, text)
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

// connectBelow returns a coordinator below a chroot of the double. It is closed at the end of the test.
func connectBelow(t *testing.T, srv *zktest.Server, chroot string) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), srv.Addr()+chroot, srv.Option())
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the server may have gone
	return c
}
