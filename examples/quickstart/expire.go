package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A session can be ended from outside by whoever knows its id and password: one
// resumes it on a second connection, and closes it there. That is what the server
// takes for the client's own wish, so it deletes the session's nodes at once; the
// real client is disconnected and learns, when it comes back, that its session is
// no more. (Deleting the node would end the lock but not the session; a client
// that is only cut off keeps both until its timeout.)
//
// Nobody is told a session's password but its client, so the contender's
// connections are overheard. The bytes are those of ZooKeeper's client protocol:
// frames of a length and that many bytes, big-endian.

// errSessionOver is the server's answer to whoever resumes a session that is none.
var errSessionOver = errors.New("the session is over")

// identity is what resuming a session takes.
type identity struct {
	network, address string // the server that knows it
	session          int64
	password         []byte
}

// sniffer makes connections and overhears which session the latest of them got.
// Its methods may be called from any goroutine.
type sniffer struct {
	mu    sync.Mutex
	known identity
}

// DialContext connects as net.Dialer does.
func (s *sniffer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &overheard{Conn: conn, learn: func(session int64, password []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known = identity{network, address, session, password}
	}}, nil
}

func (s *sniffer) identity() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

func (s *sniffer) session() int64 { return s.identity().session }

// overheard is a connection whose first answer is read along.
type overheard struct {
	net.Conn
	learn func(session int64, password []byte) // nil once done
	head  []byte                               // the reader's: what has come so far
}

// Read is for one goroutine at a time.
func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if o.learn == nil {
		return n, err
	}
	o.head = append(o.head, p[:n]...)
	if len(o.head) < 4 {
		return n, err
	}
	if size := int(binary.BigEndian.Uint32(o.head)); len(o.head) >= 4+size {
		// A refused session has number 0: there is nothing to learn then.
		if session, password, err := parseHandshake(o.head[4 : 4+size]); err == nil {
			o.learn(session, password)
		}
		o.learn, o.head = nil, nil
	}
	return n, err
}

// parseHandshake takes the server's first answer apart: version, timeout in
// milliseconds, session, password and, from most servers, one byte more.
func parseHandshake(frame []byte) (session int64, password []byte, err error) {
	const fixed = 4 + 4 + 8 + 4
	if len(frame) < fixed {
		return 0, nil, io.ErrUnexpectedEOF
	}
	session = int64(binary.BigEndian.Uint64(frame[8:]))
	size := int(binary.BigEndian.Uint32(frame[16:]))
	if size > len(frame)-fixed {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if timeout := binary.BigEndian.Uint32(frame[4:]); session == 0 || timeout == 0 {
		return 0, nil, errSessionOver
	}
	return session, append([]byte(nil), frame[fixed:fixed+size]...), nil
}

// expire ends the session whose client's connections are overheard. It returns
// nil when the session is over. It tries until ctx ends, for two reasons: the
// server may be gone at the moment, and there is a race. 1. Our handshake makes the
// server drop the client's connection; 2. the client comes back at once; 3. if it
// is quicker than our request to close the session, it is our connection that is
// dropped.
func expire(ctx context.Context, s *sniffer) error {
	session := s.session()
	for {
		who := s.identity()
		if who.session != session {
			return nil // its client has got another one already
		}
		err := closeSession(ctx, who)
		if err == nil || errors.Is(err, errSessionOver) {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("could not end session %#x: %w (%w)", session, context.Cause(ctx), err)
		}
	}
}

// closeSession resumes the session on a connection of its own and closes it.
func closeSession(ctx context.Context, who identity) error {
	conn, err := new(net.Dialer).DialContext(ctx, who.network, who.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // which ends whatever waits below

	// Both requests go out together, to give the client little time to come back.
	if _, err := conn.Write(append(handshake(who), goodbye()...)); err != nil {
		return err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return err
	}
	if _, _, err := parseHandshake(answer); err != nil {
		return err
	}
	// The answer to a request: its number, the transaction's, an error code.
	if answer, err = readFrame(conn); err != nil {
		return err
	}
	if len(answer) < 4+8+4 {
		return io.ErrUnexpectedEOF
	}
	if code := int32(binary.BigEndian.Uint32(answer[12:])); code != 0 {
		return fmt.Errorf("server refused with code %d", code)
	}
	return nil
}

// handshake is the first frame of a client that wants to go on with a session.
func handshake(who identity) []byte {
	const timeout = 10_000 // milliseconds; it will not matter for long
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint64(b, 0) // the latest transaction we know of: none
	b = binary.BigEndian.AppendUint32(b, timeout)
	b = binary.BigEndian.AppendUint64(b, uint64(who.session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(who.password)))
	b = append(b, who.password...)
	b = append(b, 0) // a server that can only be read from will not do
	return framed(b)
}

// goodbye is the request to close the session.
func goodbye() []byte {
	const number, opClose = 1, -11
	b := binary.BigEndian.AppendUint32(nil, number)
	op := int32(opClose)
	return framed(binary.BigEndian.AppendUint32(b, uint32(op)))
}

func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func readFrame(r io.Reader) ([]byte, error) {
	const most = 1 << 10 // both answers are a few bytes
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}
