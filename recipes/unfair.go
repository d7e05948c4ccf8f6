package recipes

import (
	"path"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about what the requests of a lock that is one node mean on the wire.

// takePlan creates the node and writes its data once more: the answer has the node's
// Stat, and so the zxid. If the list of permissions does not allow the write, it is a
// plain create, and a listing shows the rest.
func (e Errand) takePlan(v View) Plan {
	p := Plan{create(OnOwn, e.Nodes[0], e.Data, Ephemeral)}
	if !v.Plain && v.Brief {
		p = append(p, set(OnOwn, e.Nodes[0], e.Data))
	}
	return p
}

// TheNode returns the name of the one node of a lock.
func TheNode(node string) events.Name {
	return events.Name{Text: path.Base(node), Kind: events.KindUnfair}
}

func (e Errand) took(p Plan, a Answer) Meaning {
	created, stat := Created{Epoch: e.Epoch, Node: TheNode(e.Nodes[0])}, a.stat()
	switch {
	case len(p) == 1:
		return tell(created)
	case stat.Czxid == 0:
		return e.unknown() // the node was made, and a look-up finds its zxid
	default:
		created.Alone, created.Token = true, stat.Czxid
		return tell(created)
	}
}

func (e Errand) occupied(a Answer, at Operation) Meaning {
	switch {
	case a.Result == ResultNodeExists:
		return tell(Occupied{Epoch: e.Epoch})
	case a.Result == ResultNoNode:
		return e.next(ThenMakeParents).noting(NoteNothing, at)
	case at.Do == DoSet:
		return e.next(ThenAgain).noting(NoteShut, at)
	default:
		return e.refused(false)
	}
}

// Looked takes whether the one node is the contender's own. The read followed a
// transaction, so it saw the state of that transaction or a later one. For a claim, own
// means that the contender created the node: if it exists now, it existed then. For a
// delete in doubt, own means that the node is the session's, in which only one contender
// at a time may have created it; see [OwnerBook].
func (e Errand) Looked(own bool) Meaning {
	switch {
	case e.Op == OpClaim && own:
		return tell(Claimed{Epoch: e.Epoch})
	case e.Op == OpClaim:
		return e.refused(true)
	case own:
		e.Doubts = false
		return e.next(ThenAgain)
	default:
		return e.deleted()
	}
}
