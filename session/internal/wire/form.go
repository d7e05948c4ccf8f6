package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// This file checks the form of each answer. The client trusts what a frame says about
// itself:
//
//   - A frame that ends before a flag makes it panic, and one that ends before anything
//     else has it read what is left of an earlier frame.
//   - It allocates as much as a length or a count in the frame asks for.
//   - A transaction with more results than operations reaches its caller as it is.
//
// An answer of the wrong form ends the connection, so nobody knows what became of its
// request.

// errForm: a frame does not have the form that its request or its event asks for.
var errForm = errors.New("malformed answer")

// What has a fixed length in a frame.
const (
	lengthSize = 4 // of the length before a text or data, of a count, and of an error
	statSize   = 68
	// A result, and an operation of a transaction's request, begin with a kind, a flag
	// that marks the end, and an error.
	resultSize = 9
	eventSize  = 8 // the kind of an event and a state, before the path
)

// part is a piece of a frame that says how it continues.
type part uint8

const (
	partNone   part = iota // the rest has no form
	partText               // the length of a text, which is the last piece
	partData               // the length of data, before a Stat
	partCount              // the number of names in a list
	partName               // the length of one of them; a Stat follows the last one
	partEvent              // what comes before the path of an event
	partResult             // the beginning of a transaction's result
	partPath               // the length of the path in the result of a create
	partCode               // the error in the result of an operation that was refused
)

// form follows one frame, in pieces of any size, and needs no memory for that. The client
// decodes a frame when it has all of it, so it is early enough to find an error before
// the last byte is handed out.
type form struct {
	left  int              // bytes of the frame that are yet to come
	skip  int              // bytes to pass over before the next part
	next  part             // what follows then
	field [resultSize]byte // the next part, as far as it has come
	have  int              // so many bytes of it

	names   int        // of a list, those that are yet to come
	asked   operations // of a transaction
	results operations
	refused bool // one of the results is an error
}

// formOf returns the form of a frame with so many bytes after its length, from its first
// byte on. The client decodes the answer only to a request that was executed.
func formOf(length int, xid, code int32, s sent) (form, error) {
	f := form{left: prefixLength + length, skip: prefixLength + minReply}
	switch {
	case xid == xidEvent:
		f.next = partEvent
	case xid < 0 || code != 0:
		return f, nil
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
	return f, f.fits()
}

// size returns how many bytes a part has.
func (p part) size() int {
	switch p {
	case partNone:
		return 0
	case partEvent:
		return eventSize
	case partResult:
		return resultSize
	default:
		return lengthSize
	}
}

// fits checks that the frame has room for what has to follow.
func (f *form) fits() error {
	if f.skip > f.left-f.next.size() {
		return fmt.Errorf("%w: it is cut short", errForm)
	}
	return nil
}

// take follows the next bytes of the frame.
func (f *form) take(p []byte) error {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip, f.left, p = f.skip-n, f.left-n, p[n:]
			continue
		}
		if f.next == partNone { // a later server may have more to say
			return nil
		}
		n := copy(f.field[f.have:f.next.size()], p)
		f.have, f.left, p = f.have+n, f.left-n, p[n:]
		if f.have < f.next.size() {
			return nil
		}
		f.have = 0
		if err := f.read(); err != nil {
			return err
		}
		if err := f.fits(); err != nil {
			return err
		}
	}
	return nil
}

// read takes a whole part, and notes what follows it.
func (f *form) read() error {
	number := int(int32At(f.field[:], 0))
	switch f.next {
	case partText, partPath, partName, partData:
		if number > f.left || number < 0 && f.next != partData { // -1 is no data
			return fmt.Errorf("%w: it announces %d bytes, and has %d more", errForm, number, f.left)
		}
	case partEvent:
		// The client's own events have kinds below 0, and would look the same.
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
	case partCount: // if there are not so many names, the frame ends before the last one
		f.names = number
		f.awaitName()
	case partName:
		f.skip = number
		f.names--
		f.awaitName()
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
	return nil
}

// awaitName notes what follows a name, or the count before the first one.
func (f *form) awaitName() {
	if f.next = partName; f.names == 0 {
		f.skip, f.next = f.skip+statSize, partNone
	}
}

// result takes the beginning of a transaction's result. If the transaction was executed
// there is one for each operation, of the same kind. If it was refused, one of them is an
// error.
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

// operations is the number of a transaction's operations, or of its results, and a sum of
// their kinds in that order. Two that are equal are of the same kinds if there are not
// many, and other ones are at least as many.
type operations struct {
	count int
	kinds uint64
}

func (o operations) with(kind int32) operations {
	return operations{o.count + 1, o.kinds*31 + uint64(uint32(kind))}
}

// operationsIn reads which operations a transaction's request has.
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

// rest is what is left of a request of the client's.
type rest []byte

// pass goes on by so many bytes.
func (r *rest) pass(n int) { *r = (*r)[min(max(n, 0), len(*r)):] }

// int32 passes over a number, and returns it.
func (r *rest) int32() (n int32) {
	if len(*r) >= lengthSize {
		n = int32(binary.BigEndian.Uint32(*r))
	}
	r.pass(lengthSize)
	return n
}

// text passes over a length and as many bytes.
func (r *rest) text() { r.pass(int(r.int32())) }
