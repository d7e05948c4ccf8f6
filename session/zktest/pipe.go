package zktest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBuffer is how many bytes may be in transit in one direction before a writer waits,
// about as many as the socket buffers of a loopback connection hold.
const pipeBuffer = 256 << 10

// newPipe returns the two ends of an in-memory connection. Unlike net.Pipe, it is
// buffered. So a peer that does not read blocks no writer until the buffer is full, and
// what was written before Close can still be read after it.
func newPipe(client, server net.Addr) (net.Conn, net.Conn) {
	up, down := newStream(), newStream()
	return &pipeConn{in: down, out: up, local: client, remote: server},
		&pipeConn{in: up, out: down, local: server, remote: client}
}

// stream is one direction of a pipe. It waits only on a condition variable, which inside
// a synctest bubble counts as durably blocked.
type stream struct {
	mu          sync.Mutex
	changed     sync.Cond
	buf         bytes.Buffer
	readClosed  bool
	writeClosed bool
	read, write deadline
}

func newStream() *stream {
	st := &stream{}
	st.changed.L = &st.mu
	return st
}

func (st *stream) change(f func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	f()
	st.changed.Broadcast()
}

// deadline wakes the waiters of a stream when it passes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool {
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

// set changes a deadline of st. It is called with st locked.
func (d *deadline) set(st *stream, at time.Time) {
	d.at = at
	switch {
	case at.IsZero() || d.passed():
		if d.timer != nil {
			d.timer.Stop()
		}
	case d.timer != nil:
		d.timer.Reset(time.Until(at))
	default:
		d.timer = time.AfterFunc(time.Until(at), func() {
			st.change(func() {
				// The timer uses the monotonic clock, and the deadline may be on the wall
				// clock. If they disagree, wait for the rest.
				if !d.at.IsZero() && !d.passed() {
					d.timer.Reset(time.Until(d.at))
				}
			})
		})
	}
	st.changed.Broadcast()
}

// pipeConn is one end of a pipe.
type pipeConn struct {
	in, out       *stream
	local, remote net.Addr
}

// Read reports the end of the stream only after everything that the peer wrote before it
// closed.
func (p *pipeConn) Read(b []byte) (int, error) {
	st := p.in
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		switch {
		case st.readClosed:
			return 0, p.fail("read", net.ErrClosed)
		case st.read.passed():
			return 0, p.fail("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case st.buf.Len() > 0:
			st.changed.Broadcast()
			return st.buf.Read(b)
		case st.writeClosed:
			return 0, io.EOF
		}
		st.changed.Wait()
	}
}

// Write waits while the buffer is full.
func (p *pipeConn) Write(b []byte) (int, error) {
	st := p.out
	st.mu.Lock()
	defer st.mu.Unlock()
	written := 0
	for {
		switch {
		case st.writeClosed:
			return written, p.fail("write", net.ErrClosed)
		case st.write.passed():
			return written, p.fail("write", os.ErrDeadlineExceeded)
		case st.readClosed:
			return written, p.fail("write", syscall.EPIPE)
		}
		if n := min(pipeBuffer-st.buf.Len(), len(b)-written); n > 0 {
			st.buf.Write(b[written : written+n])
			written += n
			st.changed.Broadcast()
		}
		if written == len(b) {
			return written, nil
		}
		st.changed.Wait()
	}
}

// Close ends both directions. It is idempotent.
func (p *pipeConn) Close() error {
	p.in.change(func() {
		p.in.readClosed = true
		p.in.buf = bytes.Buffer{}
		p.in.read.set(p.in, time.Time{})
	})
	p.out.change(func() {
		p.out.writeClosed = true
		p.out.write.set(p.out, time.Time{})
	})
	return nil
}

func (p *pipeConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "pipe", Source: p.local, Addr: p.remote, Err: err}
}

// LocalAddr returns the address that this end was given.
func (p *pipeConn) LocalAddr() net.Addr { return p.local }

// RemoteAddr returns the address that the other end was given.
func (p *pipeConn) RemoteAddr() net.Addr { return p.remote }

// SetDeadline sets both deadlines.
func (p *pipeConn) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline makes reads fail with os.ErrDeadlineExceeded from t on; the zero time
// removes the deadline. It also applies to a read that is already waiting.
func (p *pipeConn) SetReadDeadline(t time.Time) error { return p.set(p.in, &p.in.read, t) }

// SetWriteDeadline is SetReadDeadline for writes.
func (p *pipeConn) SetWriteDeadline(t time.Time) error { return p.set(p.out, &p.out.write, t) }

// set sets a deadline of a stream, unless this end is closed.
func (p *pipeConn) set(st *stream, d *deadline, t time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st == p.in && st.readClosed || st == p.out && st.writeClosed {
		return p.fail("set", net.ErrClosed)
	}
	d.set(st, t)
	return nil
}
