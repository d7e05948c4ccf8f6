package wire

import (
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// Whose certificate is taken is in coordinator/connect_test.go.

func TestTLSHandshakeHasTheSameDeadline(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		mute := &fakeServer{serve: func(_ int, c fakeConn) { _, _ = io.Copy(io.Discard, c) }}
		d := NewDialer(t.Context(), NewLink(Events{}), Dialing{
			Dial: mute.dial, TLS: &tls.Config{}, Asked: testTimeout, Rng: testRand(),
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
		// Whatever error ends this is the point of no test.
		_, _ = tls.Server(far, &tls.Config{Certificates: own}).Read(make([]byte, 1))
	})
	socket := &writeCounter{Conn: near}
	d := NewDialer(t.Context(), NewLink(Events{}), Dialing{
		Dial: func(context.Context, string, string) (net.Conn, error) { return socket, nil },
		TLS:  &tls.Config{InsecureSkipVerify: true}, Asked: testTimeout, Rng: testRand(),
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

// The zone of an address is this machine's, and no certificate has it.
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
		TLS:  &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Asked: testTimeout, Rng: testRand(),
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
