package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/zkgrant/zkgrant/session"
)

// A server's answer to a handshake begins with a length, a version, the timeout, the
// session's ID, and a password of 16 bytes.
const (
	answerLength  = 4 + 4 + 4 + 8 + 4 + 16
	timeoutOffset = 4 + 4
	idOffset      = timeoutOffset + 4
)

// handshake keeps the latest handshake answer on a contender's connections. It is all
// that is needed to end the session.
type handshake struct{ answer atomic.Pointer[[]byte] }

// overhear wraps dial so that the handshake answers are kept.
func (h *handshake) overhear(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &overheard{Conn: conn, shake: h}, nil
	}
}

// overheard is a connection that keeps the first bytes it reads.
type overheard struct {
	net.Conn

	shake *handshake
	begin []byte
}

// Read keeps the answer to the handshake. A refused session has the ID 0.
func (c *overheard) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if len(c.begin) < answerLength {
		c.begin = append(c.begin, p[:n]...)
		if len(c.begin) >= answerLength && !bytes.Equal(c.begin[idOffset:idOffset+8], make([]byte, 8)) {
			answer := c.begin[:answerLength]
			c.shake.answer.Store(&answer)
		}
	}
	return n, err
}

// end ends the session as its owner could: it moves the session to a connection of its
// own and closes it there.
func (h *handshake) end(ctx context.Context, where *servers) error {
	answer := h.answer.Load()
	if answer == nil {
		return fmt.Errorf("%w: there is no session", errRefused)
	}
	servers, err := session.ParseConnectString(where.zk.Servers)
	if err != nil {
		return err
	}
	var errs []error
	for _, address := range servers.Hosts {
		conn, err := where.zk.NewGate().DialContext(ctx, "tcp", address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return errors.Join(closeSession(ctx, conn, *answer), conn.Close())
	}
	return errors.Join(errs...)
}

// closeSession sends the handshake and a close request, and waits for the server to hang
// up.
func closeSession(ctx context.Context, conn net.Conn, answer []byte) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var sent []byte
	for _, frame := range [][]byte{
		append(make([]byte, 4+8), answer[timeoutOffset:]...), // version and last zxid seen: 0; timeout, ID, password
		{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5},                 // request 1, operation -11: close
	} {
		sent = append(binary.BigEndian.AppendUint32(sent, uint32(len(frame))), frame...)
	}
	if _, err := conn.Write(sent); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, conn) // the server hangs up after its last answer, perhaps with a reset
	return context.Cause(ctx)
}
