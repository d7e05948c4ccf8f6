// Package sasl says how a session proves to the servers who it is, where they ask for SASL. It is for coordinator's WithSASL.
//
// The exchange is made on each connection, right behind ZooKeeper's handshake and within the same deadline, before the session learns of the
// connection. So nothing is ever asked for in somebody else's name.
package sasl

import (
	"context"
	"errors"
)

var (
	// ErrMechanism says that the server wants something else than this mechanism, as far as it can be told from what it says.
	ErrMechanism = errors.New("the server speaks another SASL mechanism")
	// ErrServer says that the server has not proven its identity.
	ErrServer = errors.New("the server has not proven its identity")
	// ErrTemporary is for a mechanism whose own error may pass by itself, such as a KDC that does not answer. The session treats an error that
	// wraps it as a lost connection, and dials again.
	ErrTemporary = errors.New("authentication is not possible at the moment")
)

// Mechanism is a way to authenticate. Its methods may be called from any goroutine, and Start while another exchange is under way.
type Mechanism interface {
	// Name is the name that the mechanism is registered under, as DIGEST-MD5. It is for errors: a server has one mechanism, and does not ask.
	Name() string
	// Start begins an exchange with a server, which is given as it is dialled next: host:port. Without an exchange there is no connection. ctx
	// is for Start and for all of the exchange, which must not outlast it: Close waits for them.
	Start(ctx context.Context, server string) (Exchange, error)
}

// Exchange is the talk with one server, of at most ten answers. It is for one goroutine.
type Exchange interface {
	// Next takes the server's token and returns the answer. The first time there is no token: it is nil. The answer may be empty. done says
	// that the exchange has succeeded and that there is no answer. An error ends the exchange and the connection, as one of Start does. The
	// caller of Connect gets it with ErrNoAuth, unless the time is over or it wraps [ErrTemporary].
	Next(token []byte) (answer []byte, done bool, err error)
}

// Explainer is an [Exchange] that knows what it may mean if the server refuses it. A server gives no reason.
type Explainer interface {
	// Explain returns a part of the error, behind a colon.
	Explain() string
}
