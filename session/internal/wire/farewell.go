package wire

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// codeConnectionLoss is a farewell's answer to requests, because they were not sent
// anywhere.
const codeConnectionLoss int32 = -4

// farewell is a connection to no server, for a client that must end and has no other
// connection. The client would wait a second for an answer to the end of its session,
// even without a connection, and receive nothing else meanwhile. A farewell gives that
// answer at once, and answers everything else in the client's queue with a lost
// connection, which is the truth. No byte leaves the process.
//
// Deadlines do nothing, because there is nothing to wait for.
type farewell struct {
	timeout time.Duration

	mu      sync.Mutex
	news    *sync.Cond
	greeted bool
	out     []byte // unread answers
	over    bool   // the session was ended: nothing follows out
	closed  bool
}

var _ net.Conn = (*farewell)(nil)

func newFarewell(timeout time.Duration) *farewell {
	f := &farewell{timeout: timeout}
	f.news = sync.NewCond(&f.mu)
	return f
}

// Write answers a request.
func (f *farewell) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, net.ErrClosed
	}
	defer f.news.Broadcast()
	if !f.greeted {
		body, err := bodyOf(p, minHandshakeRequest)
		if err != nil {
			return 0, err
		}
		f.greeted = true
		f.out = append(f.out, greeting(f.timeout, int64At(body, 16))...)
		return len(p), nil
	}
	body, err := bodyOf(p, minRequest)
	if err != nil {
		return 0, err
	}
	xid, op, code := int32At(body, 0), int32At(body, 4), codeConnectionLoss
	switch op {
	case opcode.Ping, opcode.SetWatches, opcode.CloseSession: // the client expects no error for these
		code = zkerr.CodeNone
	}
	f.out = binary.BigEndian.AppendUint32(f.out, minReply)
	f.out = binary.BigEndian.AppendUint32(f.out, uint32(xid))
	f.out = binary.BigEndian.AppendUint64(f.out, 0) // the client keeps the last zxid that is not 0
	f.out = binary.BigEndian.AppendUint32(f.out, uint32(code))
	f.over = f.over || op == opcode.CloseSession
	return len(p), nil
}

// greeting returns the answer to a handshake.
func greeting(timeout time.Duration, id int64) []byte {
	const body, password = 36, 16
	if id == 0 {
		id = 1 // the client has no session, and to it 0 would mean the end of one
	}
	b := binary.BigEndian.AppendUint32(nil, body)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint32(b, password)
	return append(b, make([]byte, password)...)
}

// Read returns the answers.
func (f *farewell) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.out) == 0 && !f.over && !f.closed {
		f.news.Wait()
	}
	switch {
	case f.closed:
		return 0, net.ErrClosed
	case len(f.out) == 0:
		return 0, io.EOF
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// Close wakes a goroutine in Read.
func (f *farewell) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.news.Broadcast()
	return nil
}

// LocalAddr and RemoteAddr return a placeholder address.
func (f *farewell) LocalAddr() net.Addr  { return &net.UnixAddr{Net: "none", Name: "nowhere"} }
func (f *farewell) RemoteAddr() net.Addr { return f.LocalAddr() }

// The deadlines do nothing.
func (f *farewell) SetDeadline(time.Time) error      { return nil }
func (f *farewell) SetReadDeadline(time.Time) error  { return nil }
func (f *farewell) SetWriteDeadline(time.Time) error { return nil }
