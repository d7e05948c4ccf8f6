package coordinator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	vanishing := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
	}
	// answering is a server that sends an answer, and hangs up at once unless it listens.
	answering := func(answer string, listens bool) faultnet.Dial {
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
	type row struct {
		breaks func(srv *zktest.Server)
		dial   faultnet.Dial // nil: the double's
		says   string
	}
	forEach(t, map[string]row{
		"refused":                  {func(srv *zktest.Server) { srv.Down(true) }, nil, "refused"},
		"accepts and says nothing": {func(srv *zktest.Server) { srv.MuteAll(true) }, nil, "handshake timed out"},
		"hangs up":                 {nil, answering("", false), "closed"},
		"speaks something else":    {nil, answering("HTTP/1.1 400 Bad Request\r\n\r\n", true), "frame length"},
		"packets vanish":           {nil, vanishing, "i/o timeout"},
	}, func(t *testing.T, srv *zktest.Server, tt row) {
		dial := tt.dial
		if tt.breaks != nil {
			tt.breaks(srv)
			dial = srv.DialContext
		}
		var dials atomic.Int32
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
		expect(t, took >= patience && took <= patience+time.Second, "Connect took %v, want %v", took, patience)
		// Failing dials are at least half a second apart.
		expect(t, dials.Load() > 1 && dials.Load() <= 60, "%d dials in %v, want 2 to 60", dials.Load(), took)
	})
}

func TestOptionsThatCannotBeEndConnect(t *testing.T) {
	const timeout = 10 * time.Second
	type options = []coordinator.Option
	tick, probe, budget := coordinator.WithTickTime, coordinator.WithProbeInterval, coordinator.WithNodeBudget
	lasts := coordinator.WithSessionTimeout
	type row struct{ good, bad options }
	forEach(t, map[string]row{
		"tick": {options{tick(0), tick(time.Millisecond), tick(timeout / 2)}, options{tick(-1), tick(2000), tick(timeout/2 + 1)}},
		"probe interval": {
			options{probe(0), probe(10 * time.Millisecond), probe(timeout / 4)},
			options{probe(-1), probe(5), probe(10*time.Millisecond - 1), probe(timeout/4 + 1)},
		},
		"session timeout": {
			options{lasts(time.Second), lasts(time.Hour)},
			options{lasts(0), lasts(time.Second - 1), lasts(time.Hour + 1)},
		},
		"budget":         {options{budget(1), budget(1<<31 - 1)}, options{budget(0), budget(-1)}},
		"cache":          {nil, options{coordinator.WithCacheSize(-1), coordinator.WithCacheIdle(-1)}},
		"logger, ACL":    {options{coordinator.WithLogger(nil)}, options{coordinator.WithACL(nil)}},
		"hooks":          {options{coordinator.WithHooks(), coordinator.WithHooks(&ear{})}, nil},
		"a deaf hook":    {nil, options{coordinator.WithHooks(&ear{}, struct{}{})}},
		"a nil hook":     {nil, options{coordinator.WithHooks(nil)}},
		"a hook's value": {nil, options{coordinator.WithHooks(ear{})}}, // the methods are on the pointer
	}, func(t *testing.T, srv *zktest.Server, c row) {
		for i, option := range append(c.good, c.bad...) {
			got, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), lasts(timeout), option)
			if i >= len(c.good) {
				expectError(t, err, coordinator.ErrInvalid, fmt.Sprint("Connect with option ", i))
				continue
			}
			eventstest.Must(t, err)
			eventstest.Check(t, got.Close())
		}
	})
}

// terminate accepts TLS connections and forwards their content to the server. It returns
// its address.
func terminate(t *testing.T, server string, cfg *tls.Config) string {
	t.Helper()
	return eventstest.Serve(t, func(conn net.Conn) {
		back, err := dialTo(server)(t.Context(), "tcp", "")
		if err != nil {
			return
		}
		front := tls.Server(conn, cfg)
		var up sync.WaitGroup
		up.Go(func() {
			_, _ = io.Copy(back, front) // it ends when one end hangs up
			_ = back.Close()
		})
		_, _ = io.Copy(front, back)
		_ = front.Close()
		up.Wait()
	})
}

// TestTheCauseOfAFailedConnectIsVisibleWithinOneDial, even if the second dial never ends.
func TestTheCauseOfAFailedConnectIsVisibleWithinOneDial(t *testing.T) {
	const host = "zk.example.com"
	ours := eventstest.NewAuthority(t, host)
	srv := zktest.Start(t)
	secure := terminate(t, srv.Addr(), &tls.Config{Certificates: []tls.Certificate{ours.Certificate}})
	trusting := &tls.Config{RootCAs: ours.Pool()}
	for what, c := range map[string]struct {
		addr, host string
		cfg        *tls.Config
		says       string
	}{
		"a certificate that is not trusted": {secure, host, &tls.Config{}, "unknown authority"},
		"another host's certificate":        {secure, "other.example.com", trusting, "other.example.com"},
		"TLS to a plain port":               {srv.Addr(), host, trusting, "tls: "},
		"plain text to a TLS port":          {secure, host, nil, "a port for TLS"}, // the port does not answer
	} {
		err := connectOnce(t, c.addr, c.host, c.cfg, c.says)
		says(t, what, err, c.says)
		var unverified *tls.CertificateVerificationError
		expect(t, errors.As(err, &unverified) == strings.Contains(what, "certificate"), "%s: %T %v", what, err, err)
	}

	// With the right config Connect succeeds, whether the host has the name or the caller
	// sets it.
	for at, cfg := range map[string]*tls.Config{host: trusting, "10.0.0.1": {RootCAs: ours.Pool(), ServerName: host}} {
		c, err := coordinator.Connect(t.Context(), at, coordinator.WithTLS(cfg), coordinator.WithDialer(dialTo(secure)))
		eventstest.Must(t, err)
		coordtest.Hold(t, c.Mutex(lockPath))
		eventstest.Check(t, c.Close())
	}
	expect(t, trusting.ServerName == "", "the caller's config has got the server name %q", trusting.ServerName)
}

func dialTo(addr string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// connectOnce fails to connect after one dial, and returns the error. The end of the dial
// still passes through a mailbox, so if the error does not contain the text, connectOnce
// tries again and waits longer: the machine may be busy.
func connectOnce(t *testing.T, addr, host string, cfg *tls.Config, text string) error {
	t.Helper()
	err := connectFor(t, addr, host, cfg, 50*time.Millisecond)
	if err != nil && !strings.Contains(err.Error(), text) {
		err = connectFor(t, addr, host, cfg, 2*time.Second) // less than a dial may take
	}
	return err
}

// connectFor fails to connect, and gives up that long after the end of the first dial.
func connectFor(t *testing.T, addr, host string, cfg *tls.Config, long time.Duration) error {
	t.Helper()
	ctx, cancel := eventstest.Patient(coordtest.RealMax)
	defer cancel()
	var dials atomic.Int32
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			time.AfterFunc(long, cancel)
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
	expect(t, err != nil && strings.Contains(err.Error(), text), "%s: %v, want it to say %q", what, err, text)
}

// connectBelow returns a coordinator below a chroot on the double.
func connectBelow(t *testing.T, srv *zktest.Server, chroot string) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), srv.Addr()+chroot, srv.Option())
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the server may have gone
	return c
}
