// Package sasl says how a session proves to the servers who it is, where they ask for SASL. It is for coordinator's WithSASL.
//
// The exchange is made on each connection, right behind ZooKeeper's handshake and within the same deadline, before the session learns of the
// connection. So nothing is ever asked for in somebody else's name.
package sasl

import "context"

// Mechanism is a way to authenticate. Its methods may be called from any goroutine.
type Mechanism interface {
	// Name is the name that the mechanism is registered under, as DIGEST-MD5. It is for errors: a server has one mechanism, and does not ask.
	Name() string
	// Start begins an exchange with a server, which is given as it was dialled: host:port. Neither Start nor the exchange may outlast ctx.
	Start(ctx context.Context, server string) (Exchange, error)
}

// Exchange is the talk with one server. It is for one goroutine.
type Exchange interface {
	// Next takes what the server has said, which is nothing at first, and returns what to say to that. done says that the exchange has
	// ended well; then nothing is said. An error ends the exchange, and the connection.
	Next(said []byte) (answer []byte, done bool, err error)
}
