package recipes

// OwnerBook is which contender of a session has the node at one path, or may have made it. It is about locks that are one node, whose
// name does not tell who made it. S names a contender, and its zero value is nobody.
//
// The session that owns a node does not tell it either, because two contenders of one session may ask for the same
// lock: 1. A sends its create, and B does; 2. the connection breaks, and both are of unknown
// fate; 3. on the next one both look, find a node of their own session, and take it for
// theirs. So a session has one owner at a path at a time: until it is known what has become of A's
// create, B's is not sent, and B waits as if A had the lock. Whatever node of this session is
// found then is A's. Exception: a node that was held, and that the servers did not let us remove.
type OwnerBook[S comparable] struct {
	owner S
	past  int64 // the zxid that created the node of the exception
}

// Owner returns the owner, or nobody.
func (b OwnerBook[S]) Owner() S { return b.owner }

// Enter makes a contender the owner before it sends its create, unless there is another one.
func (b OwnerBook[S]) Enter(who S) (_ OwnerBook[S], entered bool) {
	if b.owner != *new(S) && b.owner != who {
		return b, false
	}
	b.owner = who
	return b, true
}

// Leave notes that a contender has no node at the path, and has sent for none.
func (b OwnerBook[S]) Leave(who S) OwnerBook[S] {
	if b.owner == who {
		b.owner = *new(S)
	}
	return b
}

// Heard takes what a contender is told, for what it says about its node. The token is the zxid that created that, or 0.
func (b OwnerBook[S]) Heard(who S, in Input, token int64) OwnerBook[S] {
	if b.owner != who {
		return b
	}
	switch in := in.(type) {
	case Occupied, Deleted, Gone:
		return b.Leave(who)
	case Listed:
		if in.Own == (Own{}) {
			return b.Leave(who) // it never came to a node, or that is gone
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
	return b // it has the node, or may have it
}

// Owns reports whether the node that the zxid created, one of this session's, is the contender's.
func (b OwnerBook[S]) Owns(who S, czxid int64) bool {
	return b.owner == who && b.past != czxid
}
