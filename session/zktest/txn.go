package zktest

import "fmt"

// The create flags of the protocol.
const (
	flagEphemeral  = 1
	flagSequential = 2
	flagContainer  = 4
	flagLast       = 6 // 5 and 6 are the two forms with a time to live
)

// txn applies writes to a tree under one zxid. Each step is applied at once, so
// the next one sees it; rollback undoes them all. The events are held back until
// the caller knows that the transaction stands.
type txn struct {
	tree   *tree
	zxid   int64
	now    int64 // milliseconds since 1970
	by     caller
	undo   []func()
	events []event
}

func (t *txn) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.undo, t.events = nil, nil
}

// create adds a node and returns it under the name it got. container makes it
// one whatever the flags say, as the request of that name does.
func (t *txn) create(p string, data []byte, list []acl, flags int32, container bool) (*node, Code) {
	if flags < 0 || flags > flagLast {
		return nil, BadArguments
	}
	if flags > flagContainer {
		return nil, Unimplemented // like a real server without extended types
	}
	sequential := flags&flagSequential != 0
	dir, valid := parentPath(p)
	if !valid {
		return nil, BadArguments
	}
	list, code := t.by.resolve(list)
	if code != ok {
		return nil, code
	}
	parent := t.tree.nodes[dir]
	if parent == nil {
		return nil, NoNode
	}
	if !t.by.may(parent.acl, permCreate) {
		return nil, NoAuth
	}
	if sequential {
		p += fmt.Sprintf("%010d", parent.created)
	}
	if !validPath(p) {
		return nil, BadArguments
	}
	if t.tree.nodes[p] != nil {
		return nil, NodeExists
	}
	if parent.ephemeral() {
		return nil, NoChildrenForEphemerals
	}
	n := &node{
		path: p, parent: parent, data: data, acl: list,
		czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctime: t.now, mtime: t.now,
	}
	switch {
	case container:
		n.owner = containerOwner
	case flags&flagEphemeral != 0:
		n.owner = t.by.session
	}
	created, pzxid := parent.created, parent.pzxid
	// A real server only ever raises the counter. After 2^31-1 it would become
	// negative, so it stays, and the number is handed out again and again.
	if next := parent.created + 1; next > parent.created {
		parent.created, parent.pzxid = next, t.zxid
	}
	t.tree.attach(n)
	t.undo = append(t.undo, func() {
		t.tree.detach(n)
		parent.created, parent.pzxid = created, pzxid
	})
	t.events = append(t.events, event{nodeCreated, p}, event{childrenChanged, dir})
	return n, ok
}

func (t *txn) delete(p string, version int32) Code {
	dir, valid := parentPath(p)
	if !valid || reserved(p) {
		return BadArguments
	}
	parent := t.tree.nodes[dir]
	if parent == nil {
		return NoNode
	}
	if !t.by.may(parent.acl, permDelete) {
		return NoAuth
	}
	n := t.tree.nodes[p]
	switch {
	case n == nil:
		return NoNode
	case version != -1 && version != n.version:
		return BadVersion
	case len(n.children) > 0:
		return NotEmpty
	}
	t.remove(n)
	return ok
}

// remove deletes a node that may be deleted.
func (t *txn) remove(n *node) {
	parent, pzxid := n.parent, n.parent.pzxid
	t.tree.detach(n)
	parent.pzxid = t.zxid
	t.undo = append(t.undo, func() {
		t.tree.attach(n)
		parent.pzxid = pzxid
	})
	t.events = append(t.events, event{nodeDeleted, n.path}, event{childrenChanged, parent.path})
}

func (t *txn) setData(p string, data []byte, version int32) (*node, Code) {
	n, code := t.target(p, permWrite)
	if code != ok {
		return nil, code
	}
	if version != -1 && version != n.version {
		return nil, BadVersion
	}
	before := *n
	n.data, n.mzxid, n.mtime = data, t.zxid, t.now
	n.version++
	t.undo = append(t.undo, func() {
		n.data, n.mzxid, n.mtime, n.version = before.data, before.mzxid, before.mtime, before.version
	})
	t.events = append(t.events, event{dataChanged, p})
	return n, ok
}

func (t *txn) setACL(p string, list []acl, version int32) (*node, Code) {
	if !validPath(p) {
		return nil, BadArguments
	}
	list, code := t.by.resolve(list)
	if code != ok {
		return nil, code
	}
	n, code := t.target(p, permAdmin)
	if code != ok {
		return nil, code
	}
	if version != -1 && version != n.aversion {
		return nil, BadVersion
	}
	n.acl = list
	n.aversion++
	return n, ok
}

// check is the read-only part of a multi, and a request of its own.
func (t *txn) check(p string, version int32) Code {
	n, code := t.target(p, permRead)
	if code != ok {
		return code
	}
	if version != -1 && version != n.version {
		return BadVersion
	}
	return ok
}

// target finds the node a request is about and asks for its permission.
func (t *txn) target(p string, perm int32) (*node, Code) {
	if !validPath(p) {
		return nil, BadArguments
	}
	n := t.tree.nodes[p]
	if n == nil {
		return nil, NoNode
	}
	if !t.by.may(n.acl, perm) {
		return nil, NoAuth
	}
	return n, ok
}
