// Package sasl proves a session's identity to servers that ask for SASL. It is for coordinator's WithSASL.
//
// The exchange is made on each connection, right after ZooKeeper's handshake and within the same deadline, before the session learns of the
// connection. So no request is ever made under another identity.
package sasl

import (
	"context"
	"errors"
)

var (
	// ErrMechanism says that the server seems to have another mechanism, or none, judging by its messages.
	ErrMechanism = errors.New("the server has another SASL mechanism, or none")
	// ErrServer says that the server has not proven its identity.
	ErrServer = errors.New("the server has not proven its identity")
	// ErrTemporary is for a mechanism with an error that may pass by itself, such as a KDC that does not answer. The session treats an
	// error that wraps it as a lost connection, and dials again.
	ErrTemporary = errors.New("authentication is not possible at the moment")
	// ErrRestricted says that Go's runtime does not allow what the mechanism needs, such as MD5 with GODEBUG=fips140=only.
	ErrRestricted = errors.New("the Go runtime does not allow what the SASL mechanism needs")
)

// Mechanism is a way to authenticate. Its methods may be called from any goroutine, and Start while another exchange is under way.
type Mechanism interface {
	// Name is the name under which the mechanism is registered, such as DIGEST-MD5. It is for errors: a server has one mechanism, and does
	// not ask.
	Name() string
	// Start begins an exchange with a server, which is given as it was dialled: host:port. It is called before ZooKeeper's handshake, which is
	// not made if it fails. ctx is for Start and for all of the exchange, which must not outlast it: Close waits for both.
	Start(ctx context.Context, server string) (Exchange, error)
}

// Exchange is the dialogue with one server, of at most ten answers. It is for one goroutine.
type Exchange interface {
	// Next takes the server's token and returns the answer. The first time there is no token: it is nil. The answer may be empty. done says
	// that the exchange has succeeded and that there is no answer. An error ends the exchange and the connection, and so does an error of
	// Start. The caller of Connect gets the error with ErrNoAuth, unless the time is over or the error wraps [ErrTemporary].
	Next(token []byte) (answer []byte, done bool, err error)
}

// Checker is a [Mechanism] that knows before the first connection whether it can work. Its error ends coordinator's Open, with ErrInvalid.
type Checker interface {
	// Check returns why the mechanism cannot work, or nil.
	Check() error
}

// Explainer is an [Exchange] that knows possible reasons for a server's refusal. A server gives none.
type Explainer interface {
	// Explain returns a part of the error, to stand after a colon.
	Explain() string
}
