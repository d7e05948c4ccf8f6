package zktest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is one client connection: a reader that executes requests in order and a writer
// that sends queued frames. The queue is unbounded, so a goroutine that holds the
// server's lock can always put an event into it.
type conn struct {
	server *Server
	nc     net.Conn
	number int64  // counts connections, for a stable order
	host   string // the peer's address, without the port

	// Guarded by the server's lock.
	claimed int64 // the session that the client requested, later the one that it got
	session *session
	timeout time.Duration
	ids     []identity
	nonce   string // of a SASL exchange in progress
	gone    bool   // no longer takes part in anything
	// unreported: it has shown a sign of life that was not reported to the leader.
	unreported bool
	// What the connection sees instead of the current state, if not nil.
	replica           *replica
	lagging, stranded bool
	// asked: the leader asks for live sessions, but the question has not reached the
	// follower, which has lost the leader.
	asked bool

	// The outgoing side. This lock may be taken while the server's lock is held, but not
	// the other way round.
	mu      sync.Mutex
	changed sync.Cond
	queue   []outgoing
	waiting int // bytes in the queue
	muted   bool
	held    bool // requests that need the leader must wait
	ending  bool // the last frame was queued or sent
	closed  bool
	alarm   *time.Timer
}

// outgoing is one frame of the queue, or the end of the queue.
type outgoing struct {
	frame []byte
	due   time.Time // earliest time to send it; later frames wait, too
	last  bool
}

func newConn(s *Server, nc net.Conn, number int64, muted bool) *conn {
	c := &conn{server: s, nc: nc, number: number, muted: muted}
	c.changed.L = &c.mu
	if host, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
		c.host = host
	}
	c.ids = []identity{{"ip", c.host}}
	return c
}

func (c *conn) caller() caller {
	return caller{session: c.session.id, ids: c.ids}
}

func (c *conn) addIdentity(id identity) {
	if !slices.Contains(c.ids, id) {
		c.ids = append(c.ids, id)
	}
}

// send queues a frame. It never blocks.
func (c *conn) send(frame []byte) { c.push(outgoing{frame: frame}) }

func (c *conn) push(o outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.ending {
		return
	}
	c.ending = o.last
	c.queue = append(c.queue, o)
	c.waiting += len(o.frame)
	c.changed.Broadcast()
}

// hangUp closes the connection once all queued frames are sent.
func (c *conn) hangUp() { c.push(outgoing{last: true}) }

// kill closes the connection now, and drops queued frames.
func (c *conn) kill() {
	c.mu.Lock()
	c.closed = true
	c.queue, c.waiting = nil, 0
	if c.alarm != nil {
		c.alarm.Stop()
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	// The only possible error is that it is closed already.
	_ = c.nc.Close()
}

// fade closes the connection at the time at which the peer can notice that: now, or when
// the server stops being mute. A mute server represents a broken network, which does not
// carry the end of a connection either.
func (c *conn) fade() {
	c.mu.Lock()
	muted := c.muted
	if muted {
		c.queue, c.waiting, c.ending = []outgoing{{last: true}}, 0, true
		c.changed.Broadcast()
	}
	c.mu.Unlock()
	if !muted {
		c.kill()
	}
}

// finish is fade for a connection whose reader has ended. If the connection is hanging
// up, frames that are queued or already with the writer may still be sent.
func (c *conn) finish() {
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if !ending {
		c.fade()
	}
}

// change changes a condition that a goroutine of the connection may wait for.
func (c *conn) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.changed.Broadcast()
}

func (c *conn) mute(on bool) { c.change(func() { c.muted = on }) }

// hold blocks requests that need the leader, or unblocks them.
func (c *conn) hold(on bool) { c.change(func() { c.held = on }) }

// waits waits until blocked returns false. It returns false if the connection was closed
// meanwhile.
func (c *conn) waits(blocked func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for blocked() && !c.closed {
		c.changed.Wait()
	}
	return !c.closed
}

// released waits while requests that need the leader are held.
func (c *conn) released() bool { return c.waits(func() bool { return c.held }) }

// audible waits while the connection is muted.
func (c *conn) audible() bool { return c.waits(func() bool { return c.muted }) }

// enoughWaiting is the number of bytes waiting for a client above which the server stops
// reading from it: a client that sends requests without reading the answers must not fill
// the memory. Events are queued anyway; they are limited by the client's armed watches.
const enoughWaiting = 4 * maxFrame

// heard waits while too many bytes wait to be sent.
func (c *conn) heard() bool { return c.waits(func() bool { return c.waiting > enoughWaiting }) }

// writeLoop sends queued frames until the connection is closed or must be closed.
func (c *conn) writeLoop() {
	var batch []byte
	for last := false; !last; {
		batch, last = c.next(batch[:0])
		if len(batch) > 0 {
			if _, err := c.nc.Write(batch); err != nil {
				return // the peer is gone; the reader will notice
			}
		}
	}
}

// next waits for frames that may be sent now, and appends some of them to batch, which is
// empty. The second result is true if nothing follows.
func (c *conn) next(batch []byte) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed {
			return nil, true
		}
		if !c.muted && len(c.queue) > 0 {
			wait := time.Until(c.queue[0].due)
			if c.queue[0].due.IsZero() || wait <= 0 {
				break
			}
			c.wakeIn(wait)
		}
		c.changed.Wait()
	}
	taken, last := 0, false
	for taken < len(c.queue) && len(batch) < pipeBuffer && !last {
		o := c.queue[taken]
		if !o.due.IsZero() && time.Until(o.due) > 0 {
			break
		}
		taken++
		if last = o.last; !last {
			batch = append(batch, o.frame...)
			c.server.sent.Add(1)
		}
	}
	c.queue = slices.Delete(c.queue, 0, taken)
	c.waiting -= len(batch)
	c.changed.Broadcast()
	return batch, last
}

func (c *conn) wakeIn(d time.Duration) {
	if c.alarm != nil {
		c.alarm.Reset(d)
		return
	}
	c.alarm = time.AfterFunc(d, func() { c.change(func() {}) })
}

var errFrameLength = errors.New("zktest: frame length out of range")

// readLoop executes the client's requests until the client or the server ends the
// connection.
func (c *conn) readLoop() {
	in := &frameReader{r: bufio.NewReader(c.nc)}
	if c.server.handshake(c, in) {
		c.serve(in)
	}
	c.server.mu.Lock()
	c.server.leave(c)
	c.server.mu.Unlock()
	c.finish()
}

// serve executes requests one after another.
func (c *conn) serve(in *frameReader) {
	for {
		body, err := in.next()
		if err != nil || !c.audible() || !c.heard() {
			return
		}
		d := &decoder{buf: string(body)}
		xid, op := d.int32(), Op(d.int32())
		if d.err != nil {
			return
		}
		q, err := decodeCall(op, d)
		if needsLeader(op) && !c.released() {
			return
		}
		act := c.server.consult(c, q)
		if !c.server.run(c, xid, q, err, act) {
			return
		}
	}
}

// frameReader splits a byte stream into frames. The result of next is valid until the
// next call.
type frameReader struct {
	r    *bufio.Reader
	head [4]byte
	buf  []byte
}

func (f *frameReader) length() (int, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return 0, err
	}
	return int(int32(binary.BigEndian.Uint32(f.head[:]))), nil
}

func (f *frameReader) body(n int) ([]byte, error) {
	if n < 0 || n > maxFrame {
		return nil, errFrameLength
	}
	f.buf = slices.Grow(f.buf[:0], n)[:n]
	_, err := io.ReadFull(f.r, f.buf)
	return f.buf, err
}

func (f *frameReader) next() ([]byte, error) {
	n, err := f.length()
	if err != nil {
		return nil, err
	}
	return f.body(n)
}
