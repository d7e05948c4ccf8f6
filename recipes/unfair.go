package recipes

import (
	"path"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about a lock that is a single node: what its requests mean on the wire,
// and which of a session's contenders owns the node.

// takePlan creates the node and writes its data once more, so that the answer has the
// node's Stat and zxid. If the ACL does not allow the write, the plan is a plain create,
// and a listing finds the zxid.
func (e *Errand) takePlan(v View) Plan {
	p := Plan{create(OnOwn, e.Nodes[0], e.Data, Ephemeral)}
	if !v.Plain && v.Brief {
		p = append(p, set(OnOwn, e.Nodes[0], e.Data))
	}
	return p
}

// TheNode returns the name of a lock's single node.
func TheNode(node string) events.Name {
	return events.Name{Text: path.Base(node), Kind: events.KindUnfair}
}

func (e *Errand) took(p Plan, a Answer) Meaning {
	created, stat := Created{Epoch: e.Epoch, Node: TheNode(e.Nodes[0])}, a.stat()
	switch {
	case len(p) == 1:
		return Meaning{In: created}
	case stat.Czxid == 0:
		return e.unknown() // the node was created; a look-up finds its zxid
	default:
		created.Alone, created.Token = true, stat.Czxid
		return Meaning{In: created}
	}
}

func (e *Errand) occupied(a Answer, at Operation) Meaning {
	switch {
	case a.Result == ResultNodeExists:
		return Meaning{In: Occupied{Epoch: e.Epoch}}
	case a.Result == ResultNoNode:
		return Meaning{Then: ThenMakeParents}.noting(NoteNothing, at)
	case at.Do == DoSet:
		return Meaning{Then: ThenAgain}.noting(NoteShut, at)
	default:
		return e.refused(false)
	}
}

// Looked handles a read of the single node; own reports whether it is the contender's.
// The read followed a transaction, so it saw the state of that transaction or a later
// one. For a claim, own means that the contender created the node: if it exists now, it
// existed then. For a delete in doubt, own means that the session owns the node. Only one
// of its contenders at a time may have created it; see [OwnerBook].
func (e *Errand) Looked(own bool) Meaning {
	switch {
	case e.Op == OpClaim && own:
		return Meaning{In: Claimed{Epoch: e.Epoch}}
	case e.Op == OpClaim:
		return e.refused(true)
	case own:
		e.Doubts = false
		return Meaning{Then: ThenAgain}
	default:
		return e.deleted()
	}
}

// OwnerBook records which contender of a session owns the node at one path, or may have
// created it. It is for locks with a single node, whose name does not identify its
// creator. S identifies a contender; its zero value means none.
//
// The session that owns the node does not identify its creator either, because two
// contenders of one session may request the same lock:
//
//  1. A sends its create, and B sends its own.
//  2. The connection breaks, and the outcome of both is unknown.
//  3. On the next connection both look, find a node of their own session, and believe
//     that it is theirs.
//
// So a session has one owner per path at a time. Until the outcome of A's create is
// known, B's create is not sent, and B waits as if A held the lock. A node of this
// session that is found then is A's, unless the servers refused to delete it for a former
// holder.
type OwnerBook[S comparable] struct {
	Owner S     // zero: none
	past  int64 // the zxid that created a node which the servers refused to delete
}

// Enter makes a contender the owner, unless there is another one. It is called before the
// create is sent.
func (b OwnerBook[S]) Enter(who S) (_ OwnerBook[S], entered bool) {
	if b.Owner != *new(S) && b.Owner != who {
		return b, false
	}
	b.Owner = who
	return b, true
}

// Leave notes that a contender has neither a node at the path nor a create in progress.
func (b OwnerBook[S]) Leave(who S) OwnerBook[S] {
	if b.Owner == who {
		b.Owner = *new(S)
	}
	return b
}

// Heard processes a contender's input about its node. token is the zxid that created the
// node, or 0.
func (b OwnerBook[S]) Heard(who S, in Input, token int64) OwnerBook[S] {
	if b.Owner != who {
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
	return b // the contender has or may have the node
}

// Owns reports whether the contender owns the node of this session that the zxid created.
func (b OwnerBook[S]) Owns(who S, czxid int64) bool {
	return b.Owner == who && b.past != czxid
}
