package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

func TestTheEndOfAConnectionIsExplained(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	handshake := ending{handshaking: true}
	tls := ending{handshaking: true, secured: true}
	resumed := ending{handshaking: true, resuming: true}
	resumedTLS := ending{handshaking: true, resuming: true, secured: true}
	for _, c := range []struct {
		ending  ending
		err, is error
		says    string // separated by commas
		not     string
	}{
		{handshake, io.EOF, errHandshakeRefused,
			"one of:,without a quorum,read-only,maxClientCnxns,maxCnxns,port for TLS,load balancer",
			"certificate,older than"},
		{handshake, reset, errHandshakeRefused, "one of:,maxClientCnxns", ""},
		{tls, io.EOF, errHandshakeRefused, "one of:,certificate", "port for TLS,older than"},
		{resumed, io.EOF, errHandshakeRefused, "one of:,older than", "port for TLS,certificate"},
		{resumedTLS, reset, errHandshakeRefused, "older than,certificate", ""},
		{ending{}, io.EOF, errEnded, "closed the connection", "quorum,jute"},
		{ending{request: 100}, reset, errEnded, "closed the connection", "jute"},
		{ending{request: 200_000}, reset, errEnded,
			"200000 bytes,if this happens again,jute.maxbuffer,largeRequestMaxBytes", ""},
		{ending{request: 200_000}, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, "", "closed,jute"},
	} {
		got := c.ending.explain(c.err)
		expect(t, errors.Is(got, c.err) && errors.Is(got, c.is),
			"%+v: %v, want %v and %v in it", c.ending, got, c.err, c.is)
		for says := range strings.SplitSeq(c.says, ",") {
			expect(t, strings.Contains(got.Error(), says), "%+v: %q, want %q in it", c.ending, got, says)
		}
		for not := range strings.SplitSeq(c.not, ",") {
			expect(t, not == "" || !strings.Contains(got.Error(), not),
				"%+v: %q, want nothing of %q: it is no reason here", c.ending, got, not)
		}
	}
}

// TestAConnectionThatIsClosedAtOnceIsExplained: on loopback, a server with too many
// connections may close one before the dial has returned.
func TestAConnectionThatIsClosedAtOnceIsExplained(t *testing.T) {
	for _, cause := range []error{syscall.EPIPE, syscall.ECONNRESET} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", cause)}
		got := endedAtOnce(err)
		text := got.Error()
		explained := strings.Contains(text, "maxCnxns") && strings.Contains(text, "load balancer")
		expect(t, errors.Is(got, err) && explained && !strings.Contains(text, "TLS"),
			"%v becomes %q, want the limits and the load balancer added", err, got)
	}
	if err := os.NewSyscallError("connect", syscall.ECONNREFUSED); endedAtOnce(err) != err { //nolint:errorlint // it is this very one
		t.Errorf("%v becomes %q, want it as it is", err, endedAtOnce(err))
	}
}

// TestAClientThatLeavesHearsOfTheEndBehindItsLastRequest: however a connection ends, the
// end is reported only after that request. Otherwise the client would wait a second for
// an answer.
func TestAClientThatLeavesHearsOfTheEndBehindItsLastRequest(t *testing.T) {
	last := func(p *played) { p.noteOut(requestFrame(1, opcode.CloseSession)) }
	type leaving struct {
		end, release func(p *played)
	}
	inBubbles(t, map[string]leaving{
		"the session hangs up":        {func(p *played) { _ = p.hangUp() }, last},
		"the server hangs up":         {func(p *played) { _ = p.socket.Close() }, last},
		"the server is silent":        {func(p *played) { _ = p.SetReadDeadline(time.Now()) }, last},
		"the client gives up its end": {func(p *played) { _ = p.hangUp() }, func(p *played) { _ = p.Close() }},
	}, func(t *testing.T, test leaving) {
		p := established(t, Events{})
		if !p.leave() {
			t.Fatal("a client on a connection that is up cannot leave on it, want that it can")
		}
		heard := make(chan error, 1)
		go func() {
			_, err := p.Read(make([]byte, 1))
			heard <- err
		}()
		test.end(p)
		time.Sleep(time.Minute)
		if len(heard) > 0 {
			t.Errorf("before its last request the client heard %v, want nothing", <-heard)
		}
		test.release(p)
		synctest.Wait()
		expect(t, len(heard) > 0 && <-heard != nil,
			"the client heard nothing after its last request, want the end of the connection")
	})
}

// TestNoClientLeavesOnAConnectionKnownToHaveEnded: the client is about to dial another
// one. During its handshake, it sees the end even if it is leaving, because it makes no
// last request before it has a connection.
func TestNoClientLeavesOnAConnectionKnownToHaveEnded(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		up, greeting := established(t, Events{}), play(t, NewLink(Events{}))
		expect(t, greeting.leave(), "a client in its handshake cannot leave, want that it can")
		eventstest.Check(t, errors.Join(up.hangUp(), greeting.peer.Close()))
		for _, p := range []*played{up, greeting} {
			_, err := p.Read(make([]byte, 1))
			expect(t, err != nil, "a closed connection has no end for its client, want an error")
			expect(t, !p.leave(),
				"a client that knows of the end can leave on the connection, want another one")
		}
	})
}

// TestNoPingBehindTheLastRequest: a server that has closed the connection would answer a
// ping with a reset. What it has sent before would be lost unless it was already read.
func TestNoPingBehindTheLastRequest(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p := play(t, NewLink(Events{}))
		sent := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(p.peer)
			sent <- all
		}()
		handshake, ping := handshakeFrame(0), requestFrame(xidPing, opcode.Ping)
		end := requestFrame(1, opcode.CloseSession)
		p.ask(handshake)
		p.noteIn(grantFrame(testTimeout, 7))
		for _, frame := range [][]byte{ping, end, ping} {
			p.ask(frame)
			synctest.Wait()
		}
		eventstest.Check(t, p.Close())
		got, want := <-sent, slices.Concat(handshake, ping, end)
		expect(t, bytes.Equal(got, want), "sent % x, want % x: the second ping is left out", got, want)
	})
}
