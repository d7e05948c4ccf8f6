package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// expire takes locks, has the session end, and measures how far the news of the losses are apart. Only zkgrant tells.
func (p *player) expire(ctx context.Context, path string, n int) ([]int64, error) {
	if p.key != keyOurs {
		return nil, errNotOffered
	}
	kept, err := p.take(ctx, path, n)
	if err != nil {
		return nil, err
	}
	told := make([]time.Time, n)
	var all sync.WaitGroup
	for i, m := range kept {
		lock := m.(*ourMutex).current
		all.Go(func() {
			select {
			case <-lock.Lost():
			case <-lock.Done():
			}
			told[i] = time.Now()
		})
	}
	session := p.sessions[0].(ours).c.SessionID()
	if err := endSession(ctx, p.addr, p.meter.opening(session)); err != nil {
		return nil, err
	}
	all.Wait()
	first, last := told[0], told[0]
	for _, at := range told {
		if at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return []int64{last.Sub(first).Nanoseconds()}, nil
}

// endSession ends somebody else's session, whose connection began with the bytes: it takes part in it from a second
// connection and closes it there. To its owner that is an expiry.
func endSession(ctx context.Context, addr string, opening []byte) error {
	if len(opening) < handshake {
		return fmt.Errorf("of the handshake only %d bytes are known", len(opening))
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	var connect bytes.Buffer
	connect.Write(make([]byte, 4+8)) // version of the protocol; last zxid seen
	connect.Write(opening[8:12])     // timeout
	connect.Write(opening[12:40])    // id, length of the password, password
	if err := sendFrame(conn, connect.Bytes()); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return fmt.Errorf("taking part in the session: %w", err)
	}
	var answer bytes.Buffer
	if _, err := io.CopyN(&answer, conn, int64(binary.BigEndian.Uint32(size[:]))); err != nil {
		return fmt.Errorf("taking part in the session: %w", err)
	}
	if b := answer.Bytes(); len(b) < 16 || !bytes.Equal(b[8:16], opening[12:20]) {
		return fmt.Errorf("the server knows no session %x", opening[12:20])
	}
	closeSession := []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5} // request 1, operation -11
	if err := sendFrame(conn, closeSession); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn) // the server answers and hangs up
	return err
}

// sendFrame writes what ZooKeeper calls a packet.
func sendFrame(w io.Writer, body []byte) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	_, err := w.Write(append(frame, body...))
	return err
}
