package faultnet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// Direction is the direction of a frame.
type Direction uint8

// The directions.
const (
	// Up is from the client to the server.
	Up Direction = iota + 1
	// Down is from the server to the client.
	Down
)

// String returns the name of the direction.
func (d Direction) String() string {
	if d == Up {
		return "up"
	}
	return "down"
}

// OpEvent is the operation of a watch event, which answers no request. The protocol uses
// the same number.
const OpEvent zktest.Op = 0

// OpUnknown is the operation of an answer that matches no request of its connection.
const OpUnknown zktest.Op = -1 << 31

// OpWord is the operation of a four-letter word, which a client sends instead of its
// first frame, and of each part of the answer.
const OpWord zktest.Op = -1<<31 + 1

// Frame is one message: a request, the answer to one, or a watch event.
type Frame struct {
	Direction Direction
	// Op is the operation that is requested or answered: OpConnect for both frames of a
	// handshake, [OpEvent] for a watch event.
	Op zktest.Op
	// Conn numbers the connections of the network, from 1. Nth numbers the frames of this
	// direction on this connection.
	Conn, Nth int
	// Xid matches an answer to its request; 0 for a handshake.
	Xid int32
	// Code is the error code in an answer's header. It is 0 for success, and for frames
	// that are not answers.
	Code int32
	// Size is the length in bytes, including the four of the length field.
	Size int
}

// String describes the frame in a trace.
func (f Frame) String() string {
	names := map[zktest.Op]string{OpEvent: "event", OpUnknown: "answer to nothing", OpWord: "four-letter word"}
	name, special := names[f.Op]
	if !special {
		name = f.Op.String()
	}
	if f.Code != 0 {
		name = fmt.Sprintf("%s (%d)", name, f.Code)
	}
	return fmt.Sprintf("%s %d/%d %s", f.Direction, f.Conn, f.Nth, name)
}

const (
	prefixSize = 4
	// longest is more than the length of any frame of a server or client.
	longest = 64 << 20
)

// errNoFrame is the error that ends a connection that carries anything except the
// protocol.
var errNoFrame = errors.New("faultnet: this is not the ZooKeeper protocol")

// isWord reports whether a connection begins with a four-letter word.
func isWord(start []byte) bool {
	if len(start) < prefixSize {
		return false
	}
	for _, b := range start[:prefixSize] {
		if b < 'a' || b > 'z' {
			return false
		}
	}
	return true
}

// cutter splits a stream into frames.
type cutter struct{ rest []byte }

// all returns everything that has arrived, without looking for frames.
func (c *cutter) all() (rest []byte) {
	rest, c.rest = c.rest, nil
	return rest
}

// next returns the next complete frame with its length field, or nil if there is none
// yet.
func (c *cutter) next() ([]byte, error) {
	if len(c.rest) < prefixSize {
		return nil, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(c.rest)))
	if length < 0 || length > longest {
		return nil, fmt.Errorf("%w: a frame of %d bytes", errNoFrame, length)
	}
	size := prefixSize + int(length)
	if len(c.rest) < size {
		return nil, nil
	}
	frame := c.rest[:size:size]
	c.rest = c.rest[size:]
	return frame, nil
}

// add appends bytes that have arrived. It copies them.
func (c *cutter) add(p []byte) { c.rest = append(c.rest, p...) }

// int32At reads a field of a frame, at an offset after the length field. It returns 0 if
// the frame is too short.
func int32At(frame []byte, offset int) int32 {
	if len(frame) < prefixSize+offset+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(frame[prefixSize+offset:]))
}

const xidEvent = -1

// asked has the unanswered requests of a connection, by xid. Some xids are used
// repeatedly, above all by pings; their requests are answered in order.
type asked map[int32][]zktest.Op

func (a asked) note(xid int32, op zktest.Op) { a[xid] = append(a[xid], op) }

func (a asked) answered(xid int32) zktest.Op {
	ops := a[xid]
	switch len(ops) {
	case 0:
		return OpUnknown
	case 1:
		delete(a, xid)
	default:
		a[xid] = ops[1:]
	}
	return ops[0]
}
