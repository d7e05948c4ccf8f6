package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/doctor"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// probe talks to a particular server, unlike a client of the ensemble.
type probe struct {
	asked    time.Duration // the session timeout
	patience time.Duration // how long a server may take to accept a connection, and for each answer
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)

	mechanism  sasl.Mechanism // nil: none
	identities func() []session.Auth
}

func newProbe(cfg session.Config, patience time.Duration) probe {
	p := probe{cfg.Timeout, patience, new(net.Dialer).DialContext, cfg.SASL, cfg.Identities}
	if p.identities == nil {
		p.identities = func() []session.Auth { return cfg.Auth }
	}
	if cfg.TLS != nil {
		p.dial = (&tls.Dialer{Config: cfg.TLS()}).DialContext
	}
	return p
}

// with calls f with a connection. Each turn on it ends with ctx, or after p.patience.
func (p probe) with(ctx context.Context, addr string, f func(turns) error) error {
	dialing, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	conn, err := p.dial(dialing, "tcp", addr)
	if err != nil {
		return &unreachableError{err}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })() // this interrupts the pending read
	defer func() { _ = conn.Close() }()                                         // nothing is left to read
	return f(turns{conn, ctx, p.patience})
}

// turns is a connection on which requests and answers alternate.
type turns struct {
	net.Conn

	ctx      context.Context
	patience time.Duration
}

// next begins a turn. It sets the deadline before it checks ctx, because the end of ctx
// sets another deadline.
func (t turns) next() error {
	if err := t.SetDeadline(time.Now().Add(t.patience)); err != nil {
		return err
	}
	return t.ctx.Err()
}

// unreachableError is the reason why there is no connection.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// examine observes one server.
func (p probe) examine(ctx context.Context, addr string) doctor.Server {
	const cons = "cons"
	s := doctor.Server{Addr: addr, Answers: map[string]string{}}
	begun := time.Now()
	err := p.with(ctx, addr, func(conn turns) error {
		talk, err := greet(conn, p.asked)
		if err != nil {
			return err
		}
		greeted := time.Now()
		s.At = conn.RemoteAddr().String()
		s.ReadOnly = talk.readOnly
		if p.introduce(ctx, talk, addr) == nil { // a refusal shows up in the session that follows
			if s.RoundTrip, err = talk.roundTrip(); err != nil {
				return err
			}
		}
		s.Answers[cons] = p.ask(ctx, addr, cons)                               // it lists the sessions
		if made, ok := doctor.Established(s.Answers[cons], talk.session); ok { // at some time between the two clock readings
			half := greeted.Sub(begun) / 2
			s.Clock = &doctor.Clock{Ahead: made.Sub(begun.Add(half)), Within: half + time.Millisecond}
		}
		_ = talk.end() // if this fails, the session times out
		return nil
	})
	if err != nil {
		s.Reached, s.Refusal = !errors.As(err, new(*unreachableError)), err.Error()
		s.Answers["srvr"] = p.ask(ctx, addr, "srvr")
		return s
	}
	s.Reached = true
	words := slices.DeleteFunc(doctor.Words(), func(word string) bool { return word == cons })
	for i, answer := range each(words, func(word string) string { return p.ask(ctx, addr, word) }) {
		s.Answers[words[i]] = answer
	}
	s.Least, s.Most = p.granted(ctx, addr, 1), p.granted(ctx, addr, math.MaxInt32)
	return s
}

// granted returns the session timeout that a server grants if asked for that many
// milliseconds, or 0.
func (p probe) granted(ctx context.Context, addr string, milliseconds time.Duration) (granted time.Duration) {
	err := p.with(ctx, addr, func(conn turns) error {
		talk, err := greet(conn, milliseconds*time.Millisecond)
		if err != nil {
			return err
		}
		granted = talk.timeout
		if p.introduce(ctx, talk, addr) == nil {
			_ = talk.end() // if this fails, the session times out
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return granted
}

// ask returns a server's answer to a four-letter word, or "".
func (p probe) ask(ctx context.Context, addr, word string) string {
	const most = 16 << 20
	var answer []byte
	err := p.with(ctx, addr, func(conn turns) (err error) {
		if err = conn.next(); err != nil {
			return err
		}
		if _, err = io.WriteString(conn, word); err == nil {
			answer, err = io.ReadAll(io.LimitReader(conn, most))
		}
		return err
	})
	if err != nil && len(answer) == 0 {
		return ""
	}
	return string(answer)
}

// askAgain asks the servers for their latest transactions again, until no server lags or
// the time to catch up is over.
func (p probe) askAgain(ctx context.Context, o *doctor.Observation, begun time.Time) error {
	const enough, pause = time.Second, 100 * time.Millisecond
	for {
		between := time.Since(begun)
		o.Servers = each(o.Servers, func(s doctor.Server) doctor.Server {
			if s.Serves() {
				s.Later, s.Between = p.ask(ctx, s.Addr, "srvr"), between
			}
			return s
		})
		if !o.Lags() || between > enough {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// talk is a session with one server, at the level of bytes. A client would neither reveal
// the longest session timeout nor let us choose the server.
type talk struct {
	conn     turns
	session  int64
	timeout  time.Duration
	readOnly bool
}

// Special requests, with their IDs and codes.
const (
	pingID    = -2
	pingCode  = 11
	closeCode = -11
	authID    = -4
	authCode  = 100
	saslCode  = 102
)

// errUnauthenticated means that the server creates a session, but answers every request
// with this error until the client has authenticated.
var errUnauthenticated = errors.New("authentication required")

// greet opens a session.
func greet(conn turns, timeout time.Duration) (talk, error) {
	const protocol, lastSeen, session, password = 0, 0, 0, 16
	hello := binary.BigEndian.AppendUint32(nil, protocol)
	hello = binary.BigEndian.AppendUint64(hello, lastSeen)
	hello = binary.BigEndian.AppendUint32(hello, uint32(timeout.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, session)
	hello = binary.BigEndian.AppendUint32(hello, password)
	hello = append(hello, make([]byte, password)...)
	hello = append(hello, 1) // a read-only server is acceptable
	reply, err := exchange(conn, hello)
	const head = 4 + 4 + 8
	switch {
	case errors.Is(err, io.EOF):
		return talk{}, errors.New("connection closed")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return talk{}, errors.New("no answer in time")
	case err != nil:
		return talk{}, err
	case len(reply) < head:
		return talk{}, fmt.Errorf("answer has only %d bytes", len(reply))
	}
	t := talk{
		conn: conn, timeout: time.Duration(binary.BigEndian.Uint32(reply[4:])) * time.Millisecond, session: int64(binary.BigEndian.Uint64(reply[8:])),
		readOnly: len(reply) > head+4+password && reply[len(reply)-1] == 1,
	}
	if t.session == 0 {
		return talk{}, errors.New("session refused")
	}
	return t, nil
}

// introduce authenticates this client, as the library does on each connection. Without
// that, a server that requires it would refuse to close the session, which then lasts for
// its timeout.
func (p probe) introduce(ctx context.Context, t talk, addr string) error {
	if p.mechanism != nil {
		if err := t.prove(ctx, p.mechanism, addr); err != nil {
			return err
		}
	}
	for _, id := range p.identities() {
		const kind = 0 // servers ignore it
		body := appendField(binary.BigEndian.AppendUint32(nil, kind), []byte(id.Scheme))
		if _, err := t.request(authID, authCode, appendField(body, id.Auth)); err != nil {
			return err
		}
	}
	return nil
}

// prove runs the SASL exchange of a mechanism.
func (t talk) prove(ctx context.Context, mechanism sasl.Mechanism, addr string) error {
	exchange, err := mechanism.Start(ctx, addr)
	if err != nil {
		return err
	}
	const most = 10 // turns
	var said []byte // by the server
	for range most {
		answer, done, err := exchange.Next(said)
		if err != nil || done {
			return err
		}
		if said, err = t.request(0, saslCode, appendField(nil, answer)); err != nil {
			return err
		}
		said = said[min(len(said), 4):] // without its length
	}
	return errors.New("the SASL exchange did not finish")
}

// appendField appends what in the protocol's format, preceded by its length.
func appendField(b, what []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(what))), what...)
}

// roundTrip returns the median of several pings. If the server refuses them, one answer
// is enough.
func (t talk) roundTrip() (time.Duration, error) {
	var took [5]time.Duration
	for i := range took {
		begun := time.Now()
		_, err := t.request(pingID, pingCode, nil)
		if took[i] = time.Since(begun); errors.Is(err, errUnauthenticated) {
			return took[i], nil
		}
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(took[:])
	return took[len(took)/2], nil
}

// end ends the session.
func (t talk) end() error {
	_, err := t.request(1, closeCode, nil)
	if errors.Is(err, io.EOF) { // some servers hang up instead
		return nil
	}
	return err
}

// request sends a request with an ID and a code, and returns the body of the answer.
func (t talk) request(id, code int32, body []byte) ([]byte, error) {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(id)), uint32(code))
	reply, err := exchange(t.conn, append(head, body...))
	const failed, rest = 4 + 8, 4 + 8 + 4 // after the ID and the zxid
	if err != nil || len(reply) < rest {
		return nil, err // ignore an answer without a header
	}
	const authFailed, authRequired = -115, -124
	switch failure := int32(binary.BigEndian.Uint32(reply[failed:])); failure {
	case 0:
		return reply[rest:], nil
	case authFailed, authRequired:
		return nil, errUnauthenticated
	default:
		return nil, fmt.Errorf("server returned error %d", failure)
	}
}

// exchange sends a frame and returns the one that answers it.
func exchange(conn turns, body []byte) ([]byte, error) {
	if err := conn.next(); err != nil {
		return nil, err
	}
	if _, err := conn.Write(appendField(nil, body)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	const most = 1 << 10 // these answers are always shorter
	length := binary.BigEndian.Uint32(head[:])
	if length > most {
		return nil, fmt.Errorf("%q is not an answer of ZooKeeper", strings.TrimSpace(string(head[:])))
	}
	reply := make([]byte, length)
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
