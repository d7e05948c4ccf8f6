package zktest

import "fmt"

// The create flags of the protocol.
const (
	flagEphemeral  = 1
	flagSequential = 2
	flagContainer  = 4
	// The two with a TTL are plain numbers, not combinations of bits.
	flagTTL           = 5
	flagSequentialTTL = 6
)

// maxTTL is the longest TTL in milliseconds: a real server has 40 bits for it.
const maxTTL = 1<<40 - 1

// txn applies writes to a tree with one zxid. Each step is applied at once, so the next
// one sees it; rollback undoes all of them. Events are held back until the caller knows
// that the transaction has succeeded.
type txn struct {
	tree    *tree
	zxid    int64
	now     int64 // milliseconds since 1970
	by      caller
	quotas  bool // whether they are enforced
	long    bool // whether nodes may have a TTL
	undo    []func()
	changes []change
}

func (t *txn) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.undo, t.changes = t.undo[:0], t.changes[:0]
}

// creation has the parameters of a create.
type creation struct {
	path      string
	data      []byte
	acls      []acl
	flags     int32
	ttl       int64 // milliseconds
	container bool  // make a container, regardless of the flags
}

// validate checks the flags and the TTL, and reports whether the server appends a number
// to the name.
func (t *txn) validate(q creation) (sequential bool, code Code) {
	if q.flags < 0 || q.flags > flagSequentialTTL {
		return false, BadArguments
	}
	if q.flags <= flagContainer {
		return q.flags&flagSequential != 0, ok
	}
	if !t.long {
		return false, Unimplemented
	}
	if q.ttl <= 0 || q.ttl > maxTTL {
		return false, BadArguments
	}
	return q.flags == flagSequentialTTL, ok
}

// create creates a node, and returns it with the name that it got.
func (t *txn) create(q creation) (*node, Code) {
	sequential, code := t.validate(q)
	if code != ok {
		return nil, code
	}
	dir, valid := parentPath(q.path)
	if !valid {
		return nil, BadArguments
	}
	list, code := t.by.resolve(q.acls)
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
	name := append(make([]byte, 0, 128), q.path...)
	if sequential {
		name = fmt.Appendf(name, "%010d", parent.created)
	}
	p := string(name) // a copy: q.path may be part of a frame
	if !validPath(p) {
		return nil, BadArguments
	}
	if t.tree.nodes[p] != nil {
		return nil, NodeExists
	}
	if parent.ephemeral() {
		return nil, NoChildrenForEphemerals
	}
	if t.quotas && !t.hasRoom(p) {
		return nil, QuotaExceeded
	}
	n := &node{
		path: p, parent: parent, data: q.data, acl: list,
		czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctime: t.now, mtime: t.now,
	}
	switch {
	case q.container:
		n.owner = containerOwner
	case q.flags >= flagTTL:
		n.ttl = q.ttl
	case q.flags&flagEphemeral != 0:
		n.owner = t.by.session
	}
	created, pzxid := parent.created, parent.pzxid
	// Like a real server, never lower the counter. After 2^31-1 it would become negative,
	// so it stays, and the same number is handed out again and again.
	if next := parent.created + 1; next > parent.created {
		parent.created, parent.pzxid = next, t.zxid
	}
	t.tree.attach(n)
	t.undo = append(t.undo, func() {
		t.tree.detach(n)
		parent.created, parent.pzxid = created, pzxid
	})
	t.changed(nodeCreated, n)
	t.changed(childrenChanged, parent)
	return n, ok
}

// changed records a change for the watchers.
func (t *txn) changed(kind eventKind, n *node) {
	t.changes = append(t.changes, change{event{kind, n.path}, n.acl})
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
	t.changed(nodeDeleted, n)
	t.changed(childrenChanged, parent)
}

func (t *txn) setData(p string, data []byte, version int32) (*node, Code) {
	n, code := t.target(p, permWrite)
	if code != ok {
		return nil, code
	}
	if version != -1 && version != n.version {
		return nil, BadVersion
	}
	replaced, mzxid, mtime := n.data, n.mzxid, n.mtime
	n.data, n.mzxid, n.mtime = data, t.zxid, t.now
	n.version++
	t.undo = append(t.undo, func() {
		n.data, n.mzxid, n.mtime = replaced, mzxid, mtime
		n.version--
	})
	t.changed(dataChanged, n)
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

// check is the read-only part of a multi, and a request by itself.
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

// target returns the node of a request, if the caller has the permission.
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
