package session

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is what the hooks of a program hear of requests and of the lease. Without hooks it costs a comparison with nil.

// Request says what became of a request.
type Request struct {
	Op       string // as the protocol has it
	Server   string // host:port
	Bytes    int    // of the request, and of the answer if there is one
	Duration time.Duration
	Err      error // nil if it was executed
}

// Lease says until when what the session holds can be relied on.
type Lease struct {
	Session  int64
	Deadline time.Time // in ordinary time
	RanOut   bool      // the deadline has come, and what was held is lost
}

// errTransaction is what a hook hears of a transaction that was refused.
var errTransaction = errors.New("zkgrant: transaction refused")

const (
	// opError is the operation of the first result of a transaction that was refused.
	opError int32 = -1
	// prefixLength is how many bytes say how long a frame is.
	prefixLength = 4
)

// answer has a hook hear of an answered request.
func (w *wire) answer(s sent, now time.Time, code int32) {
	if w.link.events.onRequest == nil || s.told {
		return
	}
	err := zkerr.ErrorOf(code)
	if s.op == opcode.Multi && err == nil && w.back.length >= headSize && w.back.int32At(minReply) == opError {
		err = errTransaction
	}
	w.link.events.onRequest(Request{
		Op: opcode.Name(s.op), Server: w.server, Bytes: 2*prefixLength + s.length + w.back.length, Duration: now.Sub(s.at), Err: err,
	})
}

// cutOff returns the requests that will not be answered, if a hook wants to hear of them. Of an answer that comes
// all the same nobody hears. It is called once, with mu held.
func (w *wire) cutOff() (left []sent) {
	if w.link.events.onRequest == nil {
		return nil
	}
	w.cut = true
	if w.handshaking && w.requested {
		left = append(left, sent{at: w.askedAt, op: opcode.Connect, length: w.askedLength})
	}
	for _, at := range w.pings {
		left = append(left, sent{at: at, op: opcode.Ping, length: minRequest})
	}
	for _, s := range w.pending {
		left = append(left, s)
	}
	return left
}

// unanswered has the hook hear of them.
func (w *wire) unanswered(left []sent) {
	for _, s := range left {
		w.link.events.onRequest(Request{
			Op: opcode.Name(s.op), Server: w.server, Bytes: prefixLength + s.length,
			Duration: w.link.events.now().Sub(s.at), Err: zk.ErrConnectionClosed,
		})
	}
}

// tellLease has a hook hear of another deadline.
func (c *client) tellLease(f func(Lease)) {
	if deadline, moved := c.lease.Moved(); moved {
		f(Lease{Session: c.link.session(), Deadline: c.clock.ordinary(deadline)})
	}
}
