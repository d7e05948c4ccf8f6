// Package sasl proves a session's identity to servers that require SASL. It is for
// coordinator's WithSASL.
//
// The exchange takes place on each connection, right after ZooKeeper's handshake and
// within the same deadline, before the session uses the connection. So no request is ever
// made under another identity.
package sasl

import (
	"context"
	"errors"
)

var (
	// ErrMechanism reports that, judging by its messages, the server has another
	// mechanism or none.
	ErrMechanism = errors.New("the server has another SASL mechanism, or none")
	// ErrServer reports that the server has not proven its identity.
	ErrServer = errors.New("the server has not proven its identity")
	// ErrTemporary marks an error of a mechanism that may resolve by itself, such as a
	// KDC that does not answer. The session treats an error that wraps it as a lost
	// connection, and dials again.
	ErrTemporary = errors.New("authentication is not possible at the moment")
	// ErrRestricted reports that Go's runtime forbids what the mechanism needs, such as
	// MD5 with GODEBUG=fips140=only.
	ErrRestricted = errors.New("the Go runtime does not allow what the SASL mechanism needs")
)

// Mechanism is a way to authenticate. Its methods are safe for concurrent use, and Start
// may be called while another exchange is in progress.
type Mechanism interface {
	// Name is the name under which the mechanism is registered, such as DIGEST-MD5. It is
	// used in errors only: a server has one mechanism, and the client does not send the
	// name.
	Name() string
	// Start begins an exchange with a server, host:port as dialed. It is called before
	// ZooKeeper's handshake; if it fails, no handshake is made. ctx covers Start and the
	// whole exchange, which must not outlast it: Close waits for both.
	Start(ctx context.Context, server string) (Exchange, error)
}

// Exchange is the dialogue with one server, of at most ten answers. Only one goroutine
// uses it.
type Exchange interface {
	// Next takes the server's token, nil on the first call, and returns the answer, which
	// may be empty. done reports that the exchange has succeeded and needs no answer. An
	// error from Next or Start ends the exchange and the connection. Connect returns that
	// error with ErrNoAuth, unless the time is over or the error wraps [ErrTemporary].
	Next(token []byte) (answer []byte, done bool, err error)
}

// Checker is a [Mechanism] that can report before the first connection that it cannot
// work. Its error makes coordinator's Open fail with ErrInvalid.
type Checker interface {
	// Check returns why the mechanism cannot work, or nil.
	Check() error
}

// Explainer is an [Exchange] that knows possible reasons for a server's refusal. Servers
// give none.
type Explainer interface {
	// Explain returns text for the error, to follow a colon.
	Explain() string
}
