package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestTheEndOfAConnectionIsExplained(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, c := range []struct {
		what   string
		ending ending
		err    error
		is     error
		says   []string
		not    []string
	}{
		{"a new session in plain text", ending{handshaking: true}, io.EOF, errHandshakeRefused,
			[]string{"one of:", "without a quorum", "read-only", "maxClientCnxns", "maxCnxns", "port for TLS", "load balancer"}, []string{"certificate", "older than"}},
		{"a new session, reset", ending{handshaking: true}, reset, errHandshakeRefused, []string{"one of:", "maxClientCnxns"}, nil},
		{"a new session over TLS", ending{handshaking: true, secured: true}, io.EOF, errHandshakeRefused, []string{"one of:", "certificate"}, []string{"port for TLS", "older than"}},
		{"a session is resumed", ending{handshaking: true, resuming: true}, io.EOF, errHandshakeRefused, []string{"one of:", "older than"}, []string{"port for TLS", "certificate"}},
		{"a session is resumed over TLS", ending{handshaking: true, resuming: true, secured: true}, reset, errHandshakeRefused, []string{"older than", "certificate"}, nil},
		{"later", ending{}, io.EOF, errEnded, []string{"closed the connection"}, []string{"quorum", "jute"}},
		{"later, reset", ending{request: 100}, reset, errEnded, []string{"closed the connection"}, []string{"jute"}},
		{"under a large request", ending{request: 200_000}, reset, errEnded, []string{"200000 bytes", "if this happens again", "jute.maxbuffer", "largeRequestMaxBytes"}, nil},
		{"for another reason", ending{request: 200_000}, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, nil, []string{"closed", "jute"}},
	} {
		got := c.ending.explain(c.err)
		if !errors.Is(got, c.err) || !errors.Is(got, c.is) {
			t.Errorf("%s: %v, want %v and %v in it", c.what, got, c.err, c.is)
		}
		for _, says := range c.says {
			if !strings.Contains(got.Error(), says) {
				t.Errorf("%s: %q, want %q in it", c.what, got, says)
			}
		}
		for _, not := range c.not {
			if strings.Contains(got.Error(), not) {
				t.Errorf("%s: %q, want nothing of %q: it is no reason here", c.what, got, not)
			}
		}
	}
}

// TestAConnectionThatIsClosedAtOnceIsExplained: on loopback a server with too many
// connections may close one before the dial has returned.
func TestAConnectionThatIsClosedAtOnceIsExplained(t *testing.T) {
	for _, cause := range []error{syscall.EPIPE, syscall.ECONNRESET} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", cause)}
		got := endedAtOnce(err)
		if !errors.Is(got, err) || !strings.Contains(got.Error(), "maxCnxns") || !strings.Contains(got.Error(), "load balancer") || strings.Contains(got.Error(), "TLS") {
			t.Errorf("%v becomes %q, want the limits and the load balancer added", err, got)
		}
	}
	if err := os.NewSyscallError("connect", syscall.ECONNREFUSED); endedAtOnce(err) != err { //nolint:errorlint // it is this very one
		t.Errorf("%v becomes %q, want it as it is", err, endedAtOnce(err))
	}
}
