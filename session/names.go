package session

import (
	"slices"
	"strings"
)

// This file is about which nodes are a seat's own, and their names: their paths at the server, and their names in
// the machine.

// prefix is what the path of an attempt's node begins with.
func (t *Seat) prefix(id guid) string {
	var room [256]byte
	b := append(room[:0], t.dir...)
	if t.dir != "/" {
		b = append(b, '/')
	}
	return string(append(appendHead(b, t.kind, id), t.kind.Marker()...))
}

// path returns the lock's path as callers name it, for log lines.
func (t *Seat) path() string {
	at := t.dir
	if t.permits != nil {
		at = t.permits.root
	}
	return strings.TrimPrefix(at, t.session.chroot)
}

// brief reports whether a transaction of several operations may repeat the seat's path: a server takes a bounded
// number of bytes in a request.
func (t *Seat) brief() bool {
	const mostOfIt = MaxRequest / 8
	size := len(t.dir) + len(t.data) + TimeoutSize
	for _, a := range t.acl {
		size += len(a.Scheme) + len(a.ID)
	}
	return size < mostOfIt
}

// at returns the path of a node that the machine knows by this name.
func (t *Seat) at(node string) string { return t.layout.at(t, node) }

// name returns the name by which the machine knows a node. Of its permits, and of a multi-lock's nodes, the machine
// knows the first.
func (t *Seat) name(node string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.layout.several(); slices.Contains(own, node) {
		return t.layout.nameOf(own[0])
	}
	return t.layout.nameOf(node)
}

// follows reports whether the seat follows the node. It is called with mu held.
func (t *Seat) follows(node string) bool {
	return node == t.own || node == t.pred || slices.Contains(t.layout.several(), node)
}

// nodes returns the node. If it is the first of the own permits, it returns the others behind it.
func (t *Seat) nodes(node string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own := t.layout.several(); slices.Contains(own, node) {
		return slices.Clone(own)
	}
	return []string{node}
}

// under puts a path behind the chroot. Both are valid paths, or empty.
func under(chroot, p string) string {
	switch {
	case chroot == "":
		return p
	case p == "/":
		return chroot
	default:
		return chroot + p
	}
}

// below is path.Join of a valid path and a name, which may be empty, with one allocation less.
func below(dir, name string) string {
	switch {
	case name == "":
		return dir
	case dir == "/":
		return dir + name
	default:
		return dir + "/" + name
	}
}
