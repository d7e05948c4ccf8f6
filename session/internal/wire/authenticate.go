package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// mostTurns bounds an exchange. The longest, GSSAPI, takes three.
const mostTurns = 10

// Identity is what a client says it is, by a scheme of the server's. Digests are of this kind.
type Identity struct {
	Scheme string
	Auth   []byte
}

// authenticated is a connection on which the client hears of its session only when the server knows the client's identity. Between the
// answer to the handshake and the first request nothing else is on its way, in either direction: the client waits for the answer, and a
// server tells of no watch before it is asked for one.
type authenticated struct {
	net.Conn

	ctx        context.Context // ends with the time for the handshake, and with the connection
	mechanism  string
	exchange   sasl.Exchange // nil: none
	identities []Identity

	answered bool   // the reader's: the server has answered the handshake
	held     []byte // the part of that answer that the client has not read
	err      error  // why the client will not read it
}

// begin has the mechanism, if there is one, begin an exchange with the server of the connection. A mechanism that is late has failed.
func begin(ctx context.Context, conn net.Conn, mechanism sasl.Mechanism, server string, identities []Identity) (*authenticated, error) {
	a := &authenticated{Conn: conn, ctx: ctx, identities: identities}
	if mechanism == nil {
		return a, nil
	}
	a.mechanism = "SASL " + mechanism.Name()
	var err error
	a.exchange, err = mechanism.Start(ctx, server)
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case a.exchange == nil:
		err = errors.New("the mechanism has begun no exchange")
	}
	if err != nil {
		return nil, a.failed(a.mechanism, err)
	}
	return a, nil
}

// Read authenticates after the answer to the handshake, and then hands that answer out.
func (a *authenticated) Read(p []byte) (int, error) {
	if !a.answered {
		a.answered = true
		a.held, a.err = a.greet()
	}
	switch {
	case a.err != nil:
		return 0, a.err
	case len(a.held) > 0:
		n := copy(p, a.held)
		a.held = a.held[n:]
		return n, nil
	default:
		return a.Conn.Read(p)
	}
}

// greet reads the answer to the handshake and, unless it says that the session has expired, authenticates.
func (a *authenticated) greet() ([]byte, error) {
	answer, err := readFrame(a.Conn, minHandshakeReply, maxHandshake)
	if err != nil {
		return nil, err
	}
	if id := binary.BigEndian.Uint64(answer[4+8:]); id != 0 {
		err = a.authenticate()
	}
	return answer, err
}

// authenticate proves and says to the server who the client is.
func (a *authenticated) authenticate() error {
	if a.exchange != nil {
		if err := a.converse(); err != nil {
			return a.failed(a.mechanism, err)
		}
	}
	for _, id := range a.identities {
		body := binary.BigEndian.AppendUint32(nil, 0) // no server asks for the type
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(id.Scheme))), id.Scheme...)
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(id.Auth))), id.Auth...)
		if _, err := a.request(opcode.Auth, body); err != nil {
			if errors.Is(err, errRefused) { // a server does not say which of the two it is
				err = errIdentityRefused
			}
			if id.Scheme == "ensemble" && isEnd(err) { // a server of another name does not answer
				err = fmt.Errorf("%w (one of: the server is of another ensemble; the connection was lost)", err)
			}
			return a.failed(fmt.Sprintf("identity of scheme %.40q", id.Scheme), err)
		}
	}
	return nil
}

// ErrDenied says that a server has refused the client's identity, or could not prove its own.
var ErrDenied = errors.New("authentication failed")

// exchangeError says why an exchange failed. If it had begun, the server has renewed the session by then.
type exchangeError struct {
	what   string // the mechanism, or the kind of identity
	denial bool   // it is not a lost connection, a timeout, or what the mechanism says is temporary
	err    error
}

func (e *exchangeError) Error() string {
	if e.denial {
		return fmt.Sprintf("%v: %s: %v", ErrDenied, e.what, e.err)
	}
	return fmt.Sprintf("%s: %v", e.what, e.err)
}

func (e *exchangeError) Unwrap() error { return e.err }

func (e *exchangeError) Is(target error) bool { return e.denial && target == ErrDenied }

// failed wraps an error of the exchange.
func (a *authenticated) failed(what string, err error) error {
	lost := new(lostError)
	passes := a.ctx.Err() != nil || errors.As(err, &lost) || errors.Is(err, sasl.ErrTemporary)
	return &exchangeError{what, !passes, err}
}

var (
	errRefused         = errors.New("the server refuses the name or the proof")
	errIdentityRefused = errors.New("the server refuses it, or has no such scheme")
)

// lostError says that the connection ended within an exchange.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// converse runs the exchange between the mechanism and the server.
func (a *authenticated) converse() error {
	var said []byte
	for range mostTurns {
		answer, done, err := a.exchange.Next(said)
		if err != nil || done {
			return err
		}
		if said, err = a.say(answer); err != nil {
			if e, ok := a.exchange.(sasl.Explainer); ok && errors.Is(err, errRefused) {
				err = fmt.Errorf("%w: %s", err, e.Explain())
			}
			return err
		}
	}
	return errors.New("the exchange has no end")
}

// say sends a token and returns the server's answer.
func (a *authenticated) say(token []byte) (said []byte, err error) {
	body, err := a.request(opcode.SASL, append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
	if err != nil {
		return nil, err
	}
	if len(body) < 4 {
		return nil, &lostError{errHandshakeMalformed}
	}
	length := int32(binary.BigEndian.Uint32(body))
	if length < 0 {
		return nil, nil
	}
	if int(length) > len(body)-4 {
		return nil, &lostError{errHandshakeMalformed}
	}
	return body[4 : 4+length], nil
}

// request sends a request and returns the body of its answer.
func (a *authenticated) request(op int32, body []byte) ([]byte, error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(minRequest+len(body)))
	b = binary.BigEndian.AppendUint32(b, 0) // the client counts from 1
	b = append(binary.BigEndian.AppendUint32(b, uint32(op)), body...)
	if _, err := a.Conn.Write(b); err != nil {
		return nil, &lostError{ending{}.explain(err)}
	}
	reply, err := readFrame(a.Conn, minReply, maxHandshake)
	if err != nil {
		return nil, &lostError{ending{}.explain(err)}
	}
	switch code := int32(binary.BigEndian.Uint32(reply[4+12:])); code {
	case zkerr.CodeNone:
		return reply[4+minReply:], nil
	case zkerr.CodeAuthFailed, zkerr.CodeSASLRequired:
		return nil, errRefused
	default:
		return nil, zkerr.ErrorOf(code)
	}
}

// readFrame reads one frame, and returns it with its length in front.
func readFrame(r io.Reader, least, most int) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	length := int64(int32(binary.BigEndian.Uint32(prefix[:])))
	if length < int64(least) || length > int64(most) {
		return nil, fmt.Errorf("%w: %d, want %d to %d", errFrameLength, length, least, most)
	}
	frame := append(prefix[:], make([]byte, length)...)
	_, err := io.ReadFull(r, frame[len(prefix):])
	return frame, err
}
