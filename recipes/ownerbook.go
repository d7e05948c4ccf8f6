package recipes

// OwnerBook says which contender of a session has the node at one path, or may have made
// it. It is for locks that are one node, whose name does not tell its maker. S names a
// contender; its zero value is none.
//
// The session that owns the node does not tell its maker either, because two contenders
// of one session may ask for the same lock:
//
//  1. A sends its create, and B sends its own.
//  2. The connection breaks, and the outcome of both is unknown.
//  3. On the next connection both look, find a node of their own session, and take it for
//     theirs.
//
// So a session has one owner at a path at a time. Until the outcome of A's create is
// known, B's create is not sent, and B waits as if A had the lock. A node of this session
// that is found then is A's. Exception: a node that was held, and that the servers did
// not let us remove.
type OwnerBook[S comparable] struct {
	owner S
	past  int64 // the zxid that created the node of the exception
}

// Owner returns the owner, or the zero value.
func (b OwnerBook[S]) Owner() S { return b.owner }

// Enter makes a contender the owner before it sends its create, if there is no other
// owner.
func (b OwnerBook[S]) Enter(who S) (_ OwnerBook[S], entered bool) {
	if b.owner != *new(S) && b.owner != who {
		return b, false
	}
	b.owner = who
	return b, true
}

// Leave notes that a contender has no node at the path, and has no create under way.
func (b OwnerBook[S]) Leave(who S) OwnerBook[S] {
	if b.owner == who {
		b.owner = *new(S)
	}
	return b
}

// Heard takes what a contender is told about its node. The token is the zxid that created
// the node, or 0.
func (b OwnerBook[S]) Heard(who S, in Input, token int64) OwnerBook[S] {
	if b.owner != who {
		return b
	}
	switch in := in.(type) {
	case Occupied, Deleted, Gone:
		return b.Leave(who)
	case Listed:
		if in.Own == (Own{}) {
			return b.Leave(who) // it never had a node, or the node is gone
		}
	case Refused:
		switch {
		case in.Op == OpDelete:
			b.past = token
			return b.Leave(who)
		case in.Op == OpCreate, in.Op == OpClaim && in.Missing:
			return b.Leave(who)
		}
	}
	return b // the contender has the node, or may have it
}

// Owns reports whether a node of this session, created by the zxid, is the contender's.
func (b OwnerBook[S]) Owns(who S, czxid int64) bool {
	return b.owner == who && b.past != czxid
}
