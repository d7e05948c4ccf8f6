package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
)

// errEnded: the server closed the connection, or the network did.
var errEnded = errors.New("the server, or something on the way to it, closed the connection")

// errEndedAtOnce: the connection was closed before anything was sent on it.
var errEndedAtOnce = errors.New("the connection was closed as soon as it was made")

// endedAtOnce returns the error of a dial with the reasons for a connection that is closed at once. It may be
// an error of any other kind, which it returns as it is.
func endedAtOnce(err error) error {
	if !isEnd(err) {
		return err
	}
	return fmt.Errorf("%w: %w (one of: %s; %s)", errEndedAtOnce, err, noRoom, nobodyThere)
}

// Two reasons why a connection ends that has hardly begun.
const (
	noRoom      = "it takes no more connections, from here or in all (maxClientCnxns, maxCnxns, connection throttling)"
	nobodyThere = "it is a load balancer without a server"
)

// largeRequest is the length from which on a request may be the reason why a server closed the connection. A server that takes no larger
// ones is of no use.
const largeRequest = 16 << 10

// ending is what is known here of a connection that a server has ended. Servers give no reason.
type ending struct {
	handshaking bool // the handshake was not answered
	resuming    bool // it asked for a session that the client had
	secured     bool // by TLS
	request     int  // the length of the longest request that was not answered
}

// isEnd reports whether err says that the other end has closed the connection.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explain returns err with all reasons that a server can have. It names no single one as the reason.
func (e ending) explain(err error) error {
	if !e.handshaking {
		if !isEnd(err) {
			return err
		}
		if e.request < largeRequest {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
		return fmt.Errorf("%w: %w (a request of %d bytes was under way; if this happens again, it is more than jute.maxbuffer or largeRequestMaxBytes allows)",
			errEnded, err, e.request)
	}
	reasons := []string{
		"it is starting, or without a quorum, also in read-only mode",
		noRoom, nobodyThere,
	}
	switch {
	case e.resuming:
		reasons = append(reasons, "it is behind what this client has seen")
	case !e.secured:
		reasons = append(reasons, "it is a port for TLS")
	}
	if e.secured {
		reasons = append(reasons, "it refuses the certificate")
	}
	return fmt.Errorf("%w: %w (one of: %s)", errHandshakeRefused, err, strings.Join(reasons, "; "))
}
