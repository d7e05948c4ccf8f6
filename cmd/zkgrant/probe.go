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
)

// probe talks to one server at a time, which no client of an ensemble does.
type probe struct {
	asked    time.Duration // the session timeout
	patience time.Duration // how long a server may be silent
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newProbe(cfg session.Config, patience time.Duration) probe {
	p := probe{cfg.Timeout, patience, new(net.Dialer).DialContext}
	if cfg.TLS != nil {
		p.dial = (&tls.Dialer{Config: cfg.TLS()}).DialContext
	}
	return p
}

// with calls the function with a connection. It ends with ctx, and at the latest after the patience.
func (p probe) with(ctx context.Context, addr string, f func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	conn, err := p.dial(ctx, "tcp", addr)
	if err != nil {
		return &unreachableError{err}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })() // the read that waits reports the end
	defer func() { _ = conn.Close() }()                                         // nothing is left to read
	return f(conn)
}

// unreachableError says why there is no connection.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// examine looks at a server.
func (p probe) examine(ctx context.Context, addr string) doctor.Server {
	const cons = "cons"
	s := doctor.Server{Addr: addr, Answers: map[string]string{}}
	begun := time.Now()
	err := p.with(ctx, addr, func(conn net.Conn) error {
		talk, err := greet(conn, p.asked)
		if err != nil {
			return err
		}
		greeted := time.Now()
		s.ReadOnly = talk.readOnly
		if s.RoundTrip, err = talk.roundTrip(); err != nil {
			return err
		}
		s.Answers[cons] = p.ask(ctx, addr, cons)                               // which lists the sessions
		if made, ok := doctor.Established(s.Answers[cons], talk.session); ok { // at some time between the two
			half := greeted.Sub(begun) / 2
			s.Clock = &doctor.Clock{Ahead: made.Sub(begun.Add(half)), Within: half + time.Millisecond}
		}
		_ = talk.end() // the session was there; its end is up to the server
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

// granted returns the timeout that a server agrees to if asked for so many milliseconds, or 0.
func (p probe) granted(ctx context.Context, addr string, milliseconds time.Duration) (granted time.Duration) {
	err := p.with(ctx, addr, func(conn net.Conn) error {
		talk, err := greet(conn, milliseconds*time.Millisecond)
		if err != nil {
			return err
		}
		granted = talk.timeout
		return talk.end()
	})
	if err != nil {
		return 0
	}
	return granted
}

// ask returns a server's answer to a four-letter word, or nothing.
func (p probe) ask(ctx context.Context, addr, word string) string {
	const most = 16 << 20
	var answer []byte
	err := p.with(ctx, addr, func(conn net.Conn) (err error) {
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

// askAgain asks the servers for their last transactions again, until no server lags or the time to catch up is over.
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

// talk is a session with one server, at the level of bytes: clients neither tell the longest session timeout nor choose the server.
type talk struct {
	conn     net.Conn
	session  int64
	timeout  time.Duration
	readOnly bool
}

// What a client sends besides requests.
const (
	pingID    = -2
	pingCode  = 11
	closeCode = -11
)

// greet opens a session.
func greet(conn net.Conn, timeout time.Duration) (talk, error) {
	const protocol, lastSeen, session, password = 0, 0, 0, 16
	hello := binary.BigEndian.AppendUint32(nil, protocol)
	hello = binary.BigEndian.AppendUint64(hello, lastSeen)
	hello = binary.BigEndian.AppendUint32(hello, uint32(timeout.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, session)
	hello = binary.BigEndian.AppendUint32(hello, password)
	hello = append(hello, make([]byte, password)...)
	hello = append(hello, 1) // a read-only server will do
	reply, err := exchange(conn, hello)
	const head = 4 + 4 + 8
	switch {
	case errors.Is(err, io.EOF):
		return talk{}, errors.New("it closes the connection")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return talk{}, errors.New("it has not answered in time")
	case err != nil:
		return talk{}, err
	case len(reply) < head:
		return talk{}, fmt.Errorf("it answers with %d bytes", len(reply))
	}
	t := talk{
		conn: conn, timeout: time.Duration(binary.BigEndian.Uint32(reply[4:])) * time.Millisecond, session: int64(binary.BigEndian.Uint64(reply[8:])),
		readOnly: len(reply) > head+4+password && reply[len(reply)-1] == 1,
	}
	if t.session == 0 {
		return talk{}, errors.New("it refuses a session")
	}
	return t, nil
}

// roundTrip returns the median of several pings.
func (t talk) roundTrip() (time.Duration, error) {
	var took [5]time.Duration
	for i := range took {
		begun := time.Now()
		if err := t.request(pingID, pingCode); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took[:])
	return took[len(took)/2], nil
}

// end ends the session.
func (t talk) end() error {
	err := t.request(1, closeCode)
	if errors.Is(err, io.EOF) { // some servers hang up instead
		return nil
	}
	return err
}

// request sends a request that is only a number and a code.
func (t talk) request(id, code int32) error {
	body := binary.BigEndian.AppendUint32(nil, uint32(id))
	_, err := exchange(t.conn, binary.BigEndian.AppendUint32(body, uint32(code)))
	return err
}

// exchange sends a frame and returns the next one.
func exchange(conn net.Conn, body []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	const most = 1 << 10 // none of these answers is longer
	length := binary.BigEndian.Uint32(head[:])
	if length > most {
		return nil, fmt.Errorf("it answers with %q, which ZooKeeper does not do", strings.TrimSpace(string(head[:])))
	}
	reply := make([]byte, length)
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
