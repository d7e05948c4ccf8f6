package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// handshake is the length of a ZooKeeper server's answer to a new session, up to and
// including the password.
const handshake = 4 + 4 + 4 + 8 + 4 + 16

// meter dials, and counts the bytes on its connections, in both directions. It is safe
// for concurrent use.
type meter struct {
	bytes         atomic.Int64
	reads, writes atomic.Int64 // calls

	mu       sync.Mutex
	openings map[int64][]byte   // the first bytes of a server's answer, by session
	carriers map[int64]net.Conn // the newest connection of each session
}

func (m *meter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &meteredConn{Conn: conn, meter: m}, nil
}

// dialWithin is dial with the signature that the ZooKeeper client needs.
func (m *meter) dialWithin(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.dial(ctx, network, addr)
}

// opening returns the first bytes that a connection of the session received, or nil. The
// caller must not modify them. They are kept by session, because a closing client may
// dial once more, so the newest connection may belong to another session.
func (m *meter) opening(session int64) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.openings[session]
}

// cut ends the connection that carries the session.
func (m *meter) cut(session int64) {
	m.mu.Lock()
	conn := m.carriers[session]
	m.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // the client notices in any case
	}
}

type meteredConn struct {
	net.Conn
	meter *meter
	head  []byte // the part of the handshake that was read so far; only used by the reader
}

// Read counts.
func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.meter.reads.Add(1)
	c.meter.bytes.Add(int64(n))
	if more := min(n, handshake-len(c.head)); more > 0 {
		c.head = append(c.head, b[:more]...)
		if len(c.head) == handshake {
			c.meter.mu.Lock()
			if c.meter.openings == nil {
				c.meter.openings, c.meter.carriers = make(map[int64][]byte), make(map[int64]net.Conn)
			}
			session := int64(binary.BigEndian.Uint64(c.head[12:]))
			c.meter.openings[session], c.meter.carriers[session] = c.head, c.Conn
			c.meter.mu.Unlock()
		}
	}
	return n, err
}

// Write counts.
func (c *meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.meter.writes.Add(1)
	c.meter.bytes.Add(int64(n))
	return n, err
}
