package faultnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// errCut is the error that both ends of a cut connection get.
var errCut = syscall.ECONNRESET

// conn is the client's end of a connection. Two goroutines carry what may pass.
//
// Up: Write splits its bytes into frames, asks the rule about each, and puts them into
// the lane; a goroutine takes them from the lane and writes to the socket. Down: a
// goroutine reads from the socket and does the same; Read takes from the lane. Both
// goroutines end with the connection.
type conn struct {
	network  *Network
	socket   net.Conn
	number   int
	up, down *lane

	writing sync.Mutex // one Write at a time
	sending cutter
	sent    int         // frames
	word    atomic.Bool // it carries a four-letter word and its answer

	reading sync.Mutex // one Read at a time
	rest    []byte
	ending  error

	mu      sync.Mutex
	pending asked

	once sync.Once // the end of the connection
}

// start is called once the network has registered the connection.
func (c *conn) start() {
	go c.carryUp()
	go c.carryDown()
}

// Write accepts p as a socket does; that does not mean that p will ever arrive.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.up.ready(); err != nil {
		return 0, c.failed("write", err)
	}
	c.sending.add(p)
	if c.sent == 0 && isWord(c.sending.rest) {
		c.sent++
		c.word.Store(true)
		word := c.sending.all()
		c.up.put(word, c.network.judge(Frame{Direction: Up, Op: OpWord, Conn: c.number, Nth: c.sent, Size: len(word)}))
		return len(p), nil
	}
	for {
		frame, err := c.sending.next()
		if err != nil {
			c.fail(err)
			return 0, c.failed("write", err)
		}
		if frame == nil {
			return len(p), nil
		}
		c.up.put(frame, c.network.judge(c.describeRequest(frame)))
	}
}

func (c *conn) describeRequest(frame []byte) Frame {
	c.sent++
	f := Frame{Direction: Up, Op: zktest.OpConnect, Conn: c.number, Nth: c.sent, Size: len(frame)}
	if c.sent > 1 {
		f.Xid, f.Op = int32At(frame, 0), zktest.Op(int32At(frame, 4))
		c.mu.Lock()
		c.pending.note(f.Xid, f.Op)
		c.mu.Unlock()
	}
	return f
}

func (c *conn) describeReply(frame []byte, nth int) Frame {
	f := Frame{Direction: Down, Op: zktest.OpConnect, Conn: c.number, Nth: nth, Size: len(frame)}
	if c.word.Load() {
		f.Op = OpWord
		return f
	}
	if nth == 1 {
		return f
	}
	f.Xid, f.Code = int32At(frame, 0), int32At(frame, 12)
	if f.Xid == xidEvent {
		f.Op = OpEvent
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Op = c.pending.answered(f.Xid)
	return f
}

// arrived returns the next frame from the server, or a part of the answer to a
// four-letter word.
func (c *conn) arrived(from *cutter) ([]byte, error) {
	if c.word.Load() {
		return from.all(), nil
	}
	return from.next()
}

func (c *conn) carryUp() {
	for {
		bytes, end, err := c.up.take()
		if err != nil {
			return
		}
		if len(bytes) > 0 {
			if _, err := c.socket.Write(bytes); err != nil {
				// Read reports that the server is gone, after its last bytes.
				c.up.close(err)
				return
			}
		}
		if end != nil {
			c.fail(end)
			return
		}
	}
}

func (c *conn) carryDown() {
	buf := make([]byte, 32<<10)
	var arriving cutter
	nth := 0
	for {
		if c.down.ready() != nil {
			return
		}
		n, err := c.socket.Read(buf)
		if err != nil {
			c.down.end(err)
			return
		}
		arriving.add(buf[:n])
		for {
			frame, err := c.arrived(&arriving)
			if err != nil {
				c.fail(err)
				return
			}
			if len(frame) == 0 {
				break
			}
			nth++
			if c.down.put(frame, c.network.judge(c.describeReply(frame, nth))) {
				continue
			}
			// The server is cut off now. The client is cut off once it has read
			// everything before the cut.
			c.up.close(errCut)
			c.hangUp()
			return
		}
	}
}

// Read returns what has passed.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for len(c.rest) == 0 {
		if c.ending != nil {
			return 0, c.failed("read", c.ending)
		}
		bytes, end, err := c.down.take()
		if err != nil {
			return 0, c.failed("read", err)
		}
		c.rest = bytes
		if end != nil {
			c.ending = end
			c.hangUp()
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// fail ends the connection for both ends.
func (c *conn) fail(reason error) {
	c.up.close(reason)
	c.down.close(reason)
	c.hangUp()
}

func (c *conn) hangUp() {
	c.once.Do(func() {
		c.network.forget(c)
		// Nothing can be done if closing a socket fails.
		_ = c.socket.Close()
	})
}

// Close ends the connection. It is idempotent. The server sees the end unless a partition
// hides it.
func (c *conn) Close() error {
	silent := c.up.isSilent()
	left := c.up.close(net.ErrClosed)
	c.down.close(net.ErrClosed)
	if !silent {
		c.hangUp()
		return nil
	}
	c.once.Do(func() {
		// This ends the goroutine that reads, and no reader is left to notice.
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		c.network.linger(c, left)
	})
	return nil
}

func (c *conn) failed(op string, err error) error {
	var already *net.OpError
	if errors.As(err, &already) || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "faultnet", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr returns the address of the underlying connection, and so does RemoteAddr for
// the other end.
func (c *conn) LocalAddr() net.Addr { return c.socket.LocalAddr() }

func (c *conn) RemoteAddr() net.Addr { return c.socket.RemoteAddr() }

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline also applies to a Read that is already waiting.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.down.setDeadline(receiver, t)
	return nil
}

// SetWriteDeadline applies to a Write that waits for room.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.up.setDeadline(sender, t)
	return nil
}
