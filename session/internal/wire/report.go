package wire

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about what the hooks of a program hear of requests. Without hooks it costs a comparison with nil.

// Request says what became of a request.
type Request struct {
	Op       string // as the protocol has it
	Server   string // host:port
	Bytes    int    // of the request, and of the answer if there is one
	Duration time.Duration
	Err      error // nil if it was executed
}

// errTransaction is a hook's error for a transaction that was refused.
var errTransaction = errors.New("zkgrant: transaction refused")

const (
	// opError is the operation of the first result of a transaction that was refused.
	opError int32 = -1
	// prefixLength is the number of bytes of a frame's length.
	prefixLength = 4
)

// answer tells a hook of an answered request.
func (w *wire) answer(s sent, now time.Time, code int32) {
	if w.link.Events.OnRequest == nil || s.told {
		return
	}
	err := zkerr.ErrorOf(code)
	if s.op == opcode.Multi && err == nil && w.back.length >= headSize && w.back.int32At(minReply) == opError {
		err = errTransaction
	}
	w.link.Events.OnRequest(Request{
		Op: opcode.Name(s.op), Server: w.server, Bytes: 2*prefixLength + s.length + w.back.length, Duration: now.Sub(s.at), Err: err,
	})
}

// cutOff returns the requests that will not be answered, if there is a hook. If an answer comes all the same the hook does not hear
// of it. It is called once, with mu held.
func (w *wire) cutOff() (left []sent) {
	if w.link.Events.OnRequest == nil {
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

// unanswered tells the hook of these requests.
func (w *wire) unanswered(left []sent) {
	for _, s := range left {
		w.link.Events.OnRequest(Request{
			Op: opcode.Name(s.op), Server: w.server, Bytes: prefixLength + s.length,
			Duration: w.link.Events.Now().Sub(s.at), Err: zk.ErrConnectionClosed,
		})
	}
}
