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
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Servers and connections that make life hard.

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

// The connection is reset right behind the handshake of a reconnect, so that the
// write of the identity fails. The client has no room for the answer to that.
func TestAnIdentityThatCannotBeSentOnAReconnect(t *testing.T) {
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
			t.Fatal("not hit")
		}
		if c.State() != coordinator.StateConnected {
			t.Errorf("an hour after one failed write the coordinator is %v", c.State())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The answer that the session is over proves that it is not alive. The holder sits
// behind a follower that has lost its leader; no other request of its is answered.
func TestAnAnswerThatTheSessionIsOverRenewsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		id := c.SessionID()
		next := coordtest.Queue(other.Mutex(lockPath))
		srv.Strand(id, true)
		var told atomic.Bool
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case r.Session != id || r.Op == zktest.OpConnect:
				return zktest.Pass()
			case r.Op == zktest.OpGetChildren2 && told.CompareAndSwap(false, true):
				return zktest.Fail(zktest.SessionExpired)
			default:
				return zktest.Swallow()
			}
		})
		time.Sleep(6 * time.Second) // less than the client's read timeout
		before := a.Deadline()
		c.Mutex("/locks/other").Acquire(t.Context(), coordinator.Try()) // some request
		time.Sleep(time.Millisecond)
		if after := a.Deadline(); after.After(before) {
			t.Errorf("the deadline moved by %v on being told that the session is over", after.Sub(before))
		}
		if _, err := next.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.Valid() {
			t.Errorf("two holders: the first is still valid for %v", time.Until(a.Deadline()))
		}
		srv.Strand(id, false)
	})
}

// The client takes no notice when the server turns down to restore its watches.
func TestAWaiterIsWokenAlthoughItsWatchesWereNotRestored(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, other.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex(lockPath))
		var refused atomic.Bool
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpSetWatches && refused.CompareAndSwap(false, true) {
				return zktest.Fail(zktest.Throttled)
			}
			return zktest.Pass()
		})
		srv.Cut(c.SessionID())
		time.Sleep(time.Minute)
		holder.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Wait(ctx); err != nil {
			t.Errorf("an hour after the release: %v; nodes %v", err, srv.Children(lockPath))
		}
	})
}

// A server that is overloaded, or says what nobody understands, turns requests away
// for a second: they are made again, with pauses.
func TestAServerThatTurnsRequestsAwayIsNotStormed(t *testing.T) {
	for _, code := range []zktest.Code{zktest.Throttled, zktest.SessionMoved, zktest.MarshallingError} {
		t.Run(code.Error(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				var refusing atomic.Bool
				var refused atomic.Int64
				refusing.Store(true)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if refusing.Load() && (r.Op == zktest.OpCreate || r.Op == zktest.OpMulti || r.Op == zktest.OpDelete) {
						refused.Add(1)
						return zktest.Fail(code)
					}
					return zktest.Pass()
				})
				a := c.Mutex(lockPath).Acquire(t.Context())
				time.Sleep(time.Second)
				refusing.Store(false)
				if n := refused.Load(); n < 2 || n > 50 {
					t.Errorf("%d requests in a second", n)
				}
				if _, err := a.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Sessions that end as soon as they were made, as behind a front that spreads
// connections over two ensembles: new ones are not asked for in a storm.
func TestSessionsThatEndAtOnceAreNoStorm(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var made atomic.Int64
		c := coordtest.Connect(t, srv)
		go func() {
			for time.Now().Before(time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC)) {
				for _, id := range srv.Sessions() {
					_ = srv.Expire(id)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpConnect && r.Session == 0 {
				made.Add(1)
			}
			return zktest.Pass()
		})
		time.Sleep(10 * time.Second)
		if made.Load() > 40 { // with the dialer's own back-off, up to 1 s, it would be about 15
			t.Errorf("%d sessions in 10 s", made.Load())
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if c.State() != coordinator.StateConnected {
			t.Error(c.State())
		}
	})
}

// A node that may not be deleted blocks others while the session lives, so somebody
// has to hear of it.
func TestARefusedDeleteIsLogged(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		core, logs := observer.New(zap.InfoLevel)
		c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
		srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpDelete {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		a.Release()
		<-a.Done()
		if !errors.Is(a.Err(), coordinator.ErrNoAuth) || logs.FilterLevelExact(zap.ErrorLevel).Len() != 1 {
			t.Errorf("Err = %v, logged %v", a.Err(), logs.All())
		}
		srv.Intercept(nil)
	})
}

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

func TestTheLogIsLimitedAboveDebug(t *testing.T) {
	const locks = 500
	for _, level := range []zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel, zapcore.ErrorLevel} {
		t.Run(level.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(level)
				c := coordtest.Connect(t, srv, coordinator.WithLogger(zap.New(core)))
				for i := range locks {
					coordtest.Hold(t, c.Mutex(fmt.Sprintf("/locks/%d", i)))
				}
				if err := srv.Expire(c.SessionID()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				lost, steps := logs.FilterMessage("lock lost").Len(), logs.FilterMessage("step").Len()
				expired := logs.FilterMessage("session expired").Len()
				switch level {
				case zapcore.DebugLevel:
					if lost != 10 || expired != 1 || steps < 5*locks {
						t.Errorf("%d losses, %d expiries, %d steps", lost, expired, steps)
					}
				case zapcore.InfoLevel:
					if lost != 10 || expired != 1 || steps != 0 {
						t.Errorf("%d losses, %d expiries, %d steps", lost, expired, steps)
					}
				default:
					if logs.Len() != 0 {
						t.Errorf("%d lines, the first %+v", logs.Len(), logs.All()[0])
					}
				}
			})
		})
	}
}
