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

// authenticated is a connection on which the client hears of its session only when the server knows the client's identity. Between the
// answer to the handshake and the first request nothing else is on its way, in either direction: the client waits for the answer, and a
// server tells of no watch before it is asked for one.
type authenticated struct {
	net.Conn

	ctx       context.Context // ends with the time for the handshake, and with the connection
	mechanism string
	exchange  sasl.Exchange

	answered bool   // the reader's: the server has answered the handshake
	held     []byte // the part of that answer that the client has not read
	err      error  // why the client will not read it
}

// begin has the mechanism begin an exchange with the server of the connection. A mechanism that is late has failed.
func begin(ctx context.Context, conn net.Conn, mechanism sasl.Mechanism, server string) (*authenticated, error) {
	a := &authenticated{Conn: conn, ctx: ctx, mechanism: mechanism.Name()}
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
		return nil, a.failed(err)
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

// ErrDenied says that a server has refused the client's identity, or could not prove its own.
var ErrDenied = errors.New("authentication failed")

// exchangeError says why an exchange failed. If it had begun, the server has renewed the session by then.
type exchangeError struct {
	mechanism string
	denial    bool // it is not a lost connection, a timeout, or what the mechanism says is temporary
	err       error
}

func (e *exchangeError) Error() string {
	if e.denial {
		return fmt.Sprintf("%v: SASL %s: %v", ErrDenied, e.mechanism, e.err)
	}
	return fmt.Sprintf("SASL %s: %v", e.mechanism, e.err)
}

func (e *exchangeError) Unwrap() error { return e.err }

func (e *exchangeError) Is(target error) bool { return e.denial && target == ErrDenied }

// failed wraps an error of the exchange.
func (a *authenticated) failed(err error) error {
	lost := new(lostError)
	passes := a.ctx.Err() != nil || errors.As(err, &lost) || errors.Is(err, sasl.ErrTemporary)
	return &exchangeError{a.mechanism, !passes, err}
}

var errRefused = errors.New("the server refuses the name or the proof")

// lostError says that the connection ended within an exchange.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// authenticate runs the exchange between the mechanism and the server.
func (a *authenticated) authenticate() error {
	var said []byte
	for range mostTurns {
		answer, done, err := a.exchange.Next(said)
		switch {
		case err != nil:
			return a.failed(err)
		case done:
			return nil
		}
		if said, err = a.say(answer); err != nil {
			if e, ok := a.exchange.(sasl.Explainer); ok && errors.Is(err, errRefused) {
				err = fmt.Errorf("%w: %s", err, e.Explain())
			}
			return a.failed(err)
		}
	}
	return a.failed(errors.New("the exchange has no end"))
}

// say sends a token and returns the server's answer.
func (a *authenticated) say(token []byte) (said []byte, err error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(minRequest+4+len(token)))
	b = binary.BigEndian.AppendUint32(b, 0) // the client counts from 1
	b = binary.BigEndian.AppendUint32(b, uint32(opcode.SASL))
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(token))), token...)
	if _, err := a.Conn.Write(b); err != nil {
		return nil, &lostError{ending{}.explain(err)}
	}
	reply, err := readFrame(a.Conn, minReply, maxHandshake)
	if err != nil {
		return nil, &lostError{ending{}.explain(err)}
	}
	code, body := int32(binary.BigEndian.Uint32(reply[4+12:])), reply[4+minReply:]
	switch code {
	case zkerr.CodeNone:
	case zkerr.CodeAuthFailed, zkerr.CodeSASLRequired:
		return nil, errRefused
	default:
		return nil, zkerr.ErrorOf(code)
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
