package zktest

import "time"

// call is a decoded request. The op determines which fields are meaningful.
type call struct {
	op      Op
	path    string
	data    []byte
	acls    []acl
	flags   int32
	ttl     int64 // milliseconds
	version int32
	kind    int32 // of a watch
	watch   bool
	parts   []call // of a multi

	since                                   int64 // of setWatches: the newest zxid that the client has seen
	dataWatches, existWatches, childWatches []string

	scheme string // of auth, with the credentials in data
}

// decodeCall decodes the body of a request. It ignores bytes left over at the end,
// because newer clients append fields.
func decodeCall(op Op, d *decoder) (call, error) {
	q := call{op: op}
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		q.path = d.string()
		q.data = d.bytes()
		q.acls = d.acls()
		q.flags = d.int32()
		if op == OpCreateTTL {
			q.ttl = d.int64()
		}
	case OpDelete, OpCheck:
		q.path = d.string()
		q.version = d.int32()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		q.path = d.string()
		q.watch = d.bool()
	case OpSetData:
		q.path = d.string()
		q.data = d.bytes()
		q.version = d.int32()
	case OpGetACL, OpSync:
		q.path = d.string()
	case OpCheckWatches, OpRemoveWatches:
		q.path = d.string()
		q.kind = d.int32()
	case OpSetACL:
		q.path = d.string()
		q.acls = d.acls()
		q.version = d.int32()
	case OpSetWatches:
		q.since = d.int64()
		q.dataWatches = d.strings()
		q.existWatches = d.strings()
		q.childWatches = d.strings()
	case OpSASL:
		q.data = d.bytes()
	case OpAuth:
		d.int32() // the type, which has no meaning
		q.scheme = d.string()
		q.data = d.bytes()
	case OpMulti:
		q.parts = d.parts()
	}
	return q, d.err
}

// parts decodes the operations of a multi. Each has a header; a header with the flag done
// ends the list.
func (d *decoder) parts() []call {
	list := make([]call, 0, 4)
	for d.err == nil {
		op, done := Op(d.int32()), d.bool()
		d.int32() // the error code, which has a meaning only in answers
		if done {
			break
		}
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck:
		default:
			d.err = errMalformed
			return nil
		}
		// An error stays in d and ends the loop.
		part, _ := decodeCall(op, d)
		list = append(list, part)
	}
	return list
}

// answer is the result of a request.
type answer struct {
	code   Code
	reply  []byte // as made by newReply, plus the body; nil if there is none
	hangUp bool   // close the connection after the answer
	silent bool   // close the connection instead of answering
	stamp  stamp
}

// stamp is the zxid of an answer.
type stamp uint8

const (
	stampLast stamp = iota // the zero stamp: the last transaction that the client can see
	stampZero              // 0, not in the order of transactions
	stampNone              // -1: the request failed
)

// execute executes one request of a connection that has a session. It is called with the
// server's lock held.
func (s *Server) execute(c *conn, q call) answer {
	if q.op != OpAuth && q.op != OpSASL {
		s.touch(c)
	}
	if s.dialect.lacks(q.op) {
		return answer{code: Unimplemented, hangUp: true, silent: s.dialect == clickHouseKeeper, stamp: stampNone}
	}
	if needsLeader(q.op) && c.replica != nil {
		s.thaw(c)
		defer func() { // the replica was up to date for one request
			if !c.gone {
				s.freeze(c)
			}
		}()
	}
	switch q.op {
	case OpPing:
		return answer{}
	case OpAuth:
		return s.authenticate(c, q)
	case OpSASL:
		return s.negotiate(c, q)
	case OpClose:
		s.endSession(c.session)
		return answer{hangUp: true}
	case OpSync:
		return answer{reply: appendString(newReply(), q.path)}
	case OpSetWatches:
		s.rearm(c, q)
		return answer{}
	case OpCheckWatches, OpRemoveWatches:
		return s.unwatch(c, q)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2, OpGetACL:
		return s.read(c, q)
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpCheck:
		return s.write(c, q)
	case OpMulti:
		return s.multi(c, q)
	}
	if knownElsewhere(q.op) {
		return answer{code: Unimplemented}
	}
	return answer{code: Unimplemented, hangUp: true, stamp: stampNone}
}

// changes reports whether the request is a transaction.
func changes(op Op) bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpCheck, OpMulti:
		return true
	}
	return false
}

func (s *Server) read(c *conn, q call) answer {
	v := s.view(c)
	n := v.tree.nodes[q.path]
	if q.path == "" {
		n = v.tree.nodes["/"] // a real server has the root under both names
	}
	if n == nil {
		// Only exists arms a watch on a missing node.
		if q.op == OpExists && q.watch {
			v.dataWatches.add(q.path, c)
		}
		return answer{code: NoNode}
	}
	who := c.caller()
	perm := permRead
	if q.op == OpGetACL {
		perm |= permAdmin
	}
	if q.op != OpExists && !who.may(n.acl, perm) {
		return answer{code: NoAuth}
	}
	if q.watch {
		if q.op == OpGetChildren || q.op == OpGetChildren2 {
			v.childWatches.add(q.path, c)
		} else {
			v.dataWatches.add(q.path, c)
		}
	}
	switch q.op {
	case OpGetData:
		return answer{reply: appendStat(appendBytes(newReply(), n.data), n.stat())}
	case OpGetChildren:
		return answer{reply: appendStrings(newReply(), n.names())}
	case OpGetChildren2:
		return answer{reply: appendStat(appendStrings(newReply(), n.names()), n.stat())}
	case OpGetACL:
		list := n.acl
		if !who.may(list, permAdmin) {
			list = masked(list)
		}
		return answer{reply: appendStat(appendACLs(newReply(), list), n.stat())}
	}
	return answer{reply: appendStat(newReply(), n.stat())}
}

// begin starts a transaction with the next zxid. The zxid is used up even if the
// transaction fails, because real servers log failures, too. A transaction must end
// before the next one begins, which reuses its memory.
func (s *Server) begin(by caller) *txn {
	s.zxid++
	clear(s.txn.undo)
	clear(s.txn.changes)
	s.txn = txn{
		tree: s.tree, zxid: s.zxid, now: time.Now().UnixMilli(), by: by,
		quotas: s.quotas && !by.trusted, long: s.extendedTypes,
		undo: s.txn.undo[:0], changes: s.txn.changes[:0],
	}
	return &s.txn
}

// write executes a single request that changes something.
func (s *Server) write(c *conn, q call) answer {
	t := s.begin(c.caller())
	n, code := t.apply(q)
	if code != ok {
		return answer{code: code}
	}
	s.notify(t.changes)
	return answer{reply: appendResult(newReply(), q.op, n)}
}

// apply executes one operation, and returns the node that its answer shows.
func (t *txn) apply(q call) (*node, Code) {
	switch q.op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		return t.create(creation{
			path: q.path, data: q.data, acls: q.acls, flags: q.flags,
			ttl: q.ttl, container: q.op == OpCreateContainer,
		})
	case OpDelete:
		return nil, t.delete(q.path, q.version)
	case OpCheck:
		return nil, t.check(q.path, q.version)
	case OpSetData:
		return t.setData(q.path, q.data, q.version)
	case OpSetACL:
		return t.setACL(q.path, q.acls, q.version)
	}
	return nil, Unimplemented
}

// appendResult appends the part of a node that the answer to an operation shows.
func appendResult(b []byte, op Op, n *node) []byte {
	switch op {
	case OpCreate:
		return appendString(b, n.path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return appendStat(appendString(b, n.path), n.stat())
	case OpSetData, OpSetACL:
		return appendStat(b, n.stat())
	}
	return b
}

// multi executes all parts or none. After a failure, every part is answered with an error
// record. Its code is zero for the parts before the failed one, that part's own code, and
// RuntimeInconsistency for the parts after it. The request itself succeeds in both cases.
func (s *Server) multi(c *conn, q call) answer {
	t := s.begin(c.caller())
	reply := newReply()
	failed, why := -1, ok
	for i, part := range q.parts {
		n, code := t.apply(part)
		if code != ok {
			failed, why = i, code
			break
		}
		kind := part.op
		switch kind {
		case OpCreate2:
			kind = OpCreate // real servers omit the Stat inside a multi
		case OpCreateContainer, OpCreateTTL:
			kind = OpCreate2
		}
		reply = appendResult(appendPart(reply, kind, false, 0), kind, n)
	}
	if failed >= 0 {
		t.rollback()
		reply = reply[:replyHead]
		for i := range q.parts {
			code := ok
			switch {
			case i == failed:
				code = why
			case i > failed:
				code = RuntimeInconsistency
			}
			reply = appendInt32(appendPart(reply, opError, false, code), int32(code))
		}
	}
	s.notify(t.changes)
	return answer{reply: appendPart(reply, opError, true, -1)}
}

func appendPart(b []byte, kind Op, done bool, code Code) []byte {
	return appendInt32(appendBool(appendInt32(b, int32(kind)), done), int32(code))
}

// authenticate adds a proven identity to the connection. A scheme that this server does
// not have costs the client its connection.
func (s *Server) authenticate(c *conn, q call) answer {
	who, ok := identity{"ip", c.host}, q.scheme == "ip"
	if q.scheme == "digest" {
		who, ok = proven(q.data)
	}
	if !ok {
		return answer{code: AuthFailed, hangUp: true, stamp: stampZero}
	}
	c.addIdentity(who)
	return answer{stamp: stampZero}
}
