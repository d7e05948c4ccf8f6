package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// expire takes locks, ends the session, and measures the time between the first and the
// last report of a loss. Only zkgrant reports losses.
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
	// A server that expires a session closes its owner's connection. This server has
	// closed the session on the connection that took it over, and may silently leave the
	// owner's open. Then the owner would notice only after two thirds of the timeout,
	// except for watched nodes.
	p.meter.cut(session)
	all.Wait()
	first, last := slices.MinFunc(told, time.Time.Compare), slices.MaxFunc(told, time.Time.Compare)
	return []int64{last.Sub(first).Nanoseconds()}, nil
}

// endSession ends the session of another connection, whose handshake was opening. To the
// owner this looks like an expiry. It returns once the server no longer knows the
// session.
//
// One attempt may fail:
//
//  1. A second connection takes the session over.
//  2. The server closes the owner's connection. The owner dials again at once and takes
//     the session back.
//  3. The server closes the second connection before it has read the request to close the
//     session.
func endSession(ctx context.Context, addr string, opening []byte) error {
	if len(opening) < handshake {
		return fmt.Errorf("of the handshake only %d bytes are known", len(opening))
	}
	for {
		if ended, err := tryToEnd(ctx, addr, opening); ended || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// tryToEnd takes the session over and closes it at once. It returns true if the session
// no longer exists.
func tryToEnd(ctx context.Context, addr string, opening []byte) (ended bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	var both []byte
	for _, frame := range [][]byte{
		// Protocol version and last zxid seen, both zero; timeout, ID, password length,
		// password.
		append(make([]byte, 4+8), opening[8:40]...),
		{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}, // request 1, operation -11: close the session
	} {
		both = append(binary.BigEndian.AppendUint32(both, uint32(len(frame))), frame...)
	}
	if _, err := conn.Write(both); err != nil {
		return false, err
	}
	// The server closes the connection in any case. A reset, or no answer, means that the
	// attempt has failed.
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return false, nil
	}
	answer := make([]byte, min(binary.BigEndian.Uint32(size[:]), handshake))
	if _, err := io.ReadFull(conn, answer); err != nil || len(answer) < 16 {
		return false, nil
	}
	_, _ = io.Copy(io.Discard, conn)
	return !bytes.Equal(answer[8:16], opening[12:20]), nil
}
