package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// This file checks the form of each answer, because the client trusts what a frame says
// about itself:
//
//   - If a frame ends before a flag, the client panics. If it ends before any other
//     field, the client reads leftover bytes of an earlier frame.
//   - The client allocates as much as a length or a count in the frame asks for.
//   - The client returns the results of a transaction even if there are more results than
//     operations.
//
// A malformed answer ends the connection, and the outcome of its request is unknown.

// errForm: a frame does not have the form that its request or its event requires.
var errForm = errors.New("malformed answer")

// The sizes of the fields that the checks depend on.
const (
	lengthSize = 4 // a length, a count or an error code
	statSize   = 68
	// resultSize is the size of what precedes each result of a transaction, and each
	// operation in its request: a kind, a flag that marks the end, and an error code.
	resultSize = 9
	eventSize  = 8 // the kind and the state of an event, before its path
)

// part is a field of a frame that determines what follows it.
type part uint8

const (
	partNone   part = iota // nothing that follows is checked
	partText               // the length of a text, after which nothing is checked
	partData               // the length of data; a Stat follows the data
	partCount              // the number of names in a list
	partName               // the length of a name; a Stat follows the last name
	partEvent              // the fields of an event before its path
	partResult             // the fields before a transaction's result
	partPath               // the length of the path in the result of a create
	partCode               // the error code in the result of a failed operation
)

// sizes are the sizes of the parts.
//
//nolint:gochecknoglobals // a table that is only read
var sizes = [...]int{
	partNone: 0, partText: lengthSize, partData: lengthSize, partCount: lengthSize, partName: lengthSize,
	partEvent: eventSize, partResult: resultSize, partPath: lengthSize, partCode: lengthSize,
}

// form checks one frame as it arrives, in pieces of any size, and does not allocate. The
// client decodes a frame when it has all of it, so an error is in time if it is found
// before the last byte is passed on.
type form struct {
	left  int              // bytes of the frame that have not arrived
	skip  int              // bytes before the next part
	next  part             // what follows them
	field [resultSize]byte // the bytes of the next part that have arrived
	have  int              // how many bytes that is

	names   int        // of a list: how many have not arrived
	asked   operations // of a transaction
	results operations // of a transaction: those that have arrived
	refused bool       // one of the results is an error
}

// formOfHead returns the form of the frame whose head was read, from its first byte on.
// The client decodes an answer only if the request was executed.
func (w *wire) formOfHead() (form, error) {
	xid, code := int32At(w.head[:], 0), int32At(w.head[:], minReply-lengthSize)
	w.mu.Lock()
	s, asked := w.pending[xid]
	w.mu.Unlock()
	f := form{left: prefixLength + w.length, skip: prefixLength + minReply}
	switch {
	case xid == xidEvent:
		f.next = partEvent
	case xid >= 0 && !asked:
		// The client would look for the request only after the last byte, and may have
		// made it by then.
		return f, fmt.Errorf("%w: it answers no request", errForm)
	case xid < 0 || code != 0:
	case s.standsIn: // for a create, which was not sent
		return f, fmt.Errorf("%w: there is a node at the path of a create", errForm)
	default:
		switch s.op {
		case opcode.Exists, opcode.SetData:
			f.skip += statSize
		case opcode.Create, opcode.CreateContainer:
			f.next = partText
		case opcode.GetData:
			f.next = partData
		case opcode.GetChildren2:
			f.next = partCount
		case opcode.Multi:
			f.next, f.asked = partResult, s.operations
		}
	}
	return f, nil
}

// take checks the next bytes of the frame.
func (f *form) take(p []byte) error {
	for {
		missing := sizes[f.next] - f.have // bytes of the next part
		switch {
		case f.skip > f.left-missing:
			return fmt.Errorf("%w: it is cut short", errForm)
		case len(p) == 0:
			return nil
		case f.skip > 0:
			n := min(f.skip, len(p))
			f.skip, f.left, p = f.skip-n, f.left-n, p[n:]
			continue
		case f.next == partNone: // a newer server may append fields
			return nil
		}
		n := copy(f.field[f.have:f.have+missing], p)
		f.have, f.left, p = f.have+n, f.left-n, p[n:]
		if n == missing {
			f.have = 0
			if err := f.read(); err != nil {
				return err
			}
		}
	}
}

// read decodes a part that has arrived, and determines the next one.
func (f *form) read() error {
	number := int(int32At(f.field[:], 0))
	switch f.next {
	case partText, partPath, partName, partData:
		if number > f.left || number < 0 && f.next != partData { // -1 means no data
			return fmt.Errorf("%w: it announces %d bytes, and has %d more", errForm, number, f.left)
		}
	case partEvent:
		// The kinds of the client's own events are negative. It would take this event for
		// one of them.
		if number <= 0 {
			return fmt.Errorf("%w: an event of kind %d", errForm, number)
		}
	case partNone, partCount, partResult, partCode:
	}
	switch f.next {
	case partNone:
	case partText:
		f.skip, f.next = number, partNone
	case partData:
		f.skip, f.next = max(number, 0)+statSize, partNone
	case partCount: // if it is too high or negative, the frame ends before the last name
		f.names, f.next = number, partName
	case partName:
		f.skip, f.names = number, f.names-1
	case partEvent:
		f.next = partText
	case partResult:
		return f.result(int32(number), f.field[lengthSize] != 0)
	case partPath:
		f.skip, f.next = number, partResult
	case partCode:
		f.refused = f.refused || number != 0
		f.next = partResult
	}
	if f.next == partName && f.names == 0 {
		f.skip, f.next = f.skip+statSize, partNone
	}
	return nil
}

// result checks the fields before a transaction's result, and determines the next part.
// An executed transaction has one result for each operation, of the same kind. A refused
// one has at least one error among its results.
func (f *form) result(kind int32, last bool) error {
	if last {
		if !f.refused && f.results != f.asked {
			return fmt.Errorf("%w: %d results for a transaction of %d operations, or of other kinds",
				errForm, f.results.count, f.asked.count)
		}
		f.next = partNone
		return nil
	}
	if f.results = f.results.with(kind); f.results.count > f.asked.count {
		return fmt.Errorf("%w: more than %d results", errForm, f.asked.count)
	}
	switch kind {
	case opError:
		f.next = partCode
	case opcode.Create:
		f.next = partPath
	case opcode.SetData:
		f.skip = statSize
	case opcode.Delete, opcode.Check:
	default:
		return fmt.Errorf("%w: a result of kind %d", errForm, kind)
	}
	return nil
}

// operations is the number of a transaction's operations, or of its results, and a hash
// of their kinds in order. For short transactions, equal hashes mean equal kinds.
type operations struct {
	count int
	kinds uint64
}

// with adds an operation.
func (o operations) with(kind int32) operations {
	return operations{o.count + 1, o.kinds*31 + uint64(uint32(kind))}
}

// operationsIn returns the operations in a transaction's request.
func operationsIn(body []byte) (o operations) {
	r := rest(body[minRequest:])
	for len(r) >= resultSize && r[lengthSize] == 0 {
		kind := r.int32()
		o = o.with(kind)
		r.pass(resultSize - lengthSize)
		r.text() // the path
		switch kind {
		case opcode.Create:
			r.text() // the data
			for entries := r.int32(); entries > 0 && len(r) > 0; entries-- {
				r.pass(4) // the permissions
				r.text()
				r.text()
			}
		case opcode.SetData:
			r.text()
		}
		r.pass(4) // flags, or a version
	}
	return o
}

// rest is the unread part of a request.
type rest []byte

// pass skips n bytes.
func (r *rest) pass(n int) { *r = (*r)[min(max(n, 0), len(*r)):] }

// int32 reads a number.
func (r *rest) int32() (n int32) {
	if len(*r) >= lengthSize {
		n = int32(binary.BigEndian.Uint32(*r))
	}
	r.pass(lengthSize)
	return n
}

// text skips a length and that many bytes.
func (r *rest) text() { r.pass(int(r.int32())) }
