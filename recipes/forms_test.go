package recipes

import (
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

// A form is what a node's name says besides its number: what its owner requests, and
// whether it has the number of another node. The zero value is a lock with its own
// number.
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

// inPlace is how many bits the kind takes. The bits above are 1 + the write node whose
// number a read node has.
const inPlace = 4

func twinOf(writer uint8) form { return formRead | form(writer+1)<<inPlace }

func (f form) reads() bool { return f&formMask == formRead || f&formMask == formKazooRead }

// writer returns the write node whose number a read node has, or noNode.
func (f form) writer() uint8 {
	if f&formMask != formRead {
		return noNode
	}
	return uint8(f>>inPlace) - 1
}

// forms are the forms of a world's nodes. A node's number is its index, unless it has the
// number of another node.
type forms [maxNodes]form

// plain reports whether all nodes are locks, as in the worlds of a mutex.
func (fs *forms) plain() bool { return *fs == forms{} }

func (fs *forms) number(id uint8) uint8 {
	if writer := fs[id&7].writer(); writer != noNode {
		return writer
	}
	return id
}

// older returns the nodes with smaller numbers, whether or not they exist.
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

// blocking returns the nodes that block a node's owner if they exist.
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

// beside returns the other nodes with the same number.
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

func (fs *forms) together(a, b uint8) bool {
	if fs[a&7].permit() && fs[b&7].permit() {
		return true
	}
	return fs[a&7].reads() && fs[b&7].reads() || fs.beside(a)&(1<<b) != 0
}

// formKinds are the kinds in the names of nodes that are no permits.
var formKinds = [...]events.Kind{
	formLock: events.KindLock, formRead: events.KindRead, formWrite: events.KindWrite,
	formKazooLock: events.KindKazooLock, formKazooRead: events.KindKazooRead,
}

// name returns the name of a node with the form. Names with the same number differ in the
// text before it.
func (it *interpreter) name(id uint8, f form) events.Name {
	name := &it.names[id][f]
	if name.Text != "" {
		return *name
	}
	switch writer := f.writer(); {
	case f.permit():
		name.Text = fmt.Sprintf("leases/%d", it.first+int64(id))
	case writer != noNode:
		*name = named(events.KindRead, it.first+int64(writer))
		name.Text = fmt.Sprintf("%d-%s", id, name.Text)
	default:
		*name = named(formKinds[f], it.first+int64(id))
	}
	it.nodes[name.Text] = id
	return *name
}

func (e *environment) nameOf(w *world, id uint8) events.Name { return e.name(id, w.forms[id]) }
