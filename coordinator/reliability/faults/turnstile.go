package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// turnstile is what a coordinator dials through so that its session can be ended from outside, as a server ends it
// when it expires: a client with the session's id and password can close it. Both are in the answer to the handshake.
type turnstile struct {
	mu      sync.Mutex
	session []byte // id and password, as in the answer; nil between two sessions
	conn    net.Conn
	made    time.Time     // when the session was made or resumed
	shut    chan struct{} // not nil: no connection passes until it is closed
}

// Parts of the answer to a handshake: length, protocol, timeout, id, length of the password, password.
const (
	answerSession = 4 + 4 + 4
	answerLength  = answerSession + 8 + 4 + 16
)

func (s *turnstile) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		shut := s.enter(conn)
		if shut == nil {
			return &overheard{Conn: conn, by: s}, nil
		}
		_ = conn.Close() // nothing was said on it
		select {
		case <-shut:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// enter takes the connection, or returns the channel to wait for.
func (s *turnstile) enter(conn net.Conn) (shut chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut == nil {
		s.conn = conn
	}
	return s.shut
}

// answered takes note of a session's id and password. Both are zero if the server says that the session has ended; to
// close a session with those would ask for a new one.
func (s *turnstile) answered(session []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.made = nil, time.Now()
	if binary.BigEndian.Uint64(session) != 0 {
		s.session = session
	}
}

// age is how long ago the connection's handshake was answered.
func (s *turnstile) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.made)
}

// overheard is a connection of which the first answer is read along.
type overheard struct {
	net.Conn
	by  *turnstile
	got []byte
}

func (c *overheard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if missing := answerLength - len(c.got); missing > 0 {
		c.got = append(c.got, p[:min(n, missing)]...)
		if len(c.got) == answerLength {
			c.by.answered(c.got[answerSession:])
		}
	}
	return n, err
}

// expire ends the session at the server, and returns its id. Its owner is kept away meanwhile: otherwise the two
// would take the session, and the connection that goes with it, from each other.
func (s *turnstile) expire(t *testing.T, addr string) int64 {
	t.Helper()
	var session []byte
	shut := make(chan struct{})
	if !happens(t, "there is a session", func() bool { session = s.close(shut); return session != nil }) {
		return 0
	}
	var last error
	if !happens(t, "a session ends", func() bool {
		last = sayGoodbye(addr, session)
		return errors.Is(last, errEnded)
	}) {
		t.Error(last)
	}
	s.mu.Lock()
	s.shut = nil
	s.mu.Unlock()
	close(shut)
	return int64(binary.BigEndian.Uint64(session))
}

// close keeps the owner away from then on if it has a session. It returns the session.
func (s *turnstile) close(shut chan struct{}) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		s.shut = shut
		_ = s.conn.Close() // the owner may have given it up already
	}
	return s.session
}

// errEnded is the answer for a session that does not exist.
var errEnded = errors.New("the session has ended")

// sayGoodbye resumes the session and closes it.
func sayGoodbye(addr string, session []byte) error {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	hello := make([]byte, 16, 64) // protocol, last zxid seen, timeout
	binary.BigEndian.PutUint32(hello[12:], 4000)
	if err := sendFrame(conn, append(hello, session...)); err != nil {
		return err
	}
	answer := make([]byte, answerLength)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("the handshake: %w", err)
	}
	if binary.BigEndian.Uint64(answer[answerSession:]) == 0 {
		return errEnded
	}
	var operation int32 = -11 // close the session
	goodbye := make([]byte, 8)
	binary.BigEndian.PutUint32(goodbye, 1) // xid
	binary.BigEndian.PutUint32(goodbye[4:], uint32(operation))
	if err := sendFrame(conn, goodbye); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn) // the answer, if there is one, and the end
	return err
}

func sendFrame(w io.Writer, body []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}
