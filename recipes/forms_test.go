package recipes

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/zkgrant/zkgrant/events"
)

// A form is what a node's name says beside its number: what its owner asks for, and in whose place it stands. The zero value is a
// lock in a place of its own.
type form uint8

const (
	formLock form = iota
	formRead
	formWrite
	_ // the forms of semaphores
	_
	formKazooLock
	formKazooRead
)

const formMask form = 0xf

// inPlace is how many bits the kind takes. Above them stands 1 + the write node whose number a read node has.
const inPlace = 4

// twinOf is the form of a read node in the place of a write node.
func twinOf(writer uint8) form { return formRead | form(writer+1)<<inPlace }

func (f form) reads() bool {
	return f&formMask == formRead || f&formMask == formKazooRead
}

// kazoo tells whether kazoo's locks see a name of this form.
func (f form) kazoo() bool { return f == formKazooLock || f == formKazooRead }

// writer returns the write node in whose place a read node stands, or noNode.
func (f form) writer() uint8 {
	if f&formMask != formRead {
		return noNode
	}
	return uint8(f>>inPlace) - 1
}

// forms are those of the nodes of a world. A node's number is its index, unless it stands in the place of another node.
type forms [maxNodes]form

// plain tells whether all nodes are locks, as in the worlds of a mutex.
func (fs *forms) plain() bool { return *fs == forms{} }

// number returns the number in a node's name.
func (fs *forms) number(id uint8) uint8 {
	if writer := fs[id&7].writer(); writer != noNode {
		return writer
	}
	return id
}

// older returns the nodes of smaller numbers, whether they exist or not.
func (fs *forms) older(id uint8) uint8 {
	if fs.plain() {
		return 1<<id - 1
	}
	if fs[id&7].permit() {
		return 0
	}
	number := fs.number(id)
	mask := uint8(1)<<number - 1
	for i, f := range fs {
		switch {
		case f.permit():
			mask &^= 1 << i
		case fs.number(uint8(i)) < number:
			mask |= 1 << i
		}
	}
	return mask
}

// blocking returns the nodes that, if they exist, keep a node's owner from the lock.
func (fs *forms) blocking(id uint8) uint8 {
	mask := fs.older(id)
	if !fs[id&7].reads() {
		return mask
	}
	for i, f := range fs {
		if f.reads() {
			mask &^= 1 << i
		}
	}
	return mask
}

// beside returns the nodes that have the same number as another one.
func (fs *forms) beside(id uint8) uint8 {
	if fs.plain() {
		return 0
	}
	var mask uint8
	for i := range fs {
		if uint8(i) != id && fs.number(uint8(i)) == fs.number(id) {
			mask |= 1 << i
		}
	}
	return mask
}

// together tells whether two nodes may hold at the same time.
func (fs *forms) together(a, b uint8) bool {
	if fs[a&7].permit() && fs[b&7].permit() {
		return true
	}
	return fs[a&7].reads() && fs[b&7].reads() || fs.beside(a)&(1<<b) != 0
}

// spread has a byte of ones for each bit of its index.
func spread(mask uint8) (wide uint64) {
	for ; mask != 0; mask &= mask - 1 {
		wide |= 0xff << (8 * bits.TrailingZeros8(mask))
	}
	return wide
}

// naming returns a number for the forms of some nodes, as a part of a machine's input.
func (it *interpreter) naming(fs *forms, nodes uint8) uint16 {
	if fs.plain() || nodes == 0 {
		return 0
	}
	var wide [maxNodes]byte
	for i, f := range fs {
		wide[i] = byte(f)
	}
	key := binary.LittleEndian.Uint64(wide[:]) & it.spread[nodes]
	if n, ok := it.numbers[key]; ok {
		return n
	}
	n := uint16(len(it.namings))
	var named forms
	binary.LittleEndian.PutUint64(wide[:], key)
	for i := range wide {
		named[i] = form(wide[i])
	}
	it.namings = append(it.namings, named)
	it.numbers[key] = n
	return n
}

// name returns the name of a node of a form. Names with the same number differ in what stands before it.
func (it *interpreter) name(id uint8, f form) events.Name {
	text := contender(it.first + int64(id)).Text
	if f.permit() {
		text = fmt.Sprintf("leases/%d", it.first+int64(id))
		it.nodes[text] = id
		return events.Name{Text: text}
	}
	switch writer := f.writer(); {
	case writer != noNode:
		text = fmt.Sprintf("%d-__READ__%010d", id, it.first+int64(writer))
	case f == formRead:
		text = fmt.Sprintf("__READ__%010d", it.first+int64(id))
	case f == formWrite:
		text = fmt.Sprintf("__WRIT__%010d", it.first+int64(id))
	case f == formKazooLock:
		text = fmt.Sprintf("__lock__%010d", it.first+int64(id))
	case f == formKazooRead:
		text = fmt.Sprintf("__rlock__%010d", it.first+int64(id))
	}
	it.nodes[text] = id
	name, ok := events.ParseName(text)
	if !ok {
		panic("no contender: " + text)
	}
	return name
}

// rename gives the nodes of an input the names that they have in a world.
func (it *interpreter) rename(fs *forms, in input) input {
	if fs.plain() {
		return in
	}
	nodes := in.mask
	switch in.kind {
	case inSurveyed:
		nodes = 0
	case inGone, inCreated, inEntered, inAskedBack:
		nodes |= 1 << in.arg
	case inListed:
		if id := in.own & 0xf; id != 0 {
			nodes |= 1 << (id - 1)
		}
	case inRefused:
		if in.own < maxNodes {
			nodes |= 1 << in.own
		}
	default:
	}
	in.names = it.naming(fs, nodes)
	return in
}
