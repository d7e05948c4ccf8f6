package recipes

// This file is about what the requests of a lock that is one node mean on the wire.

// takePlan creates the node and writes its data once more: the answer has the node's Stat, and so the zxid. If the list of
// permissions does not allow the write, it is a plain create, and a listing tells the rest.
func (e Errand) takePlan(v View, create Operation) Plan {
	if v.Plain || !v.Brief {
		return planOf(0, create)
	}
	return planOf(0, create, Operation{Do: DoSet, On: OnOwn})
}

func (e Errand) took(p Plan, a Answer) Meaning {
	created := Created{Epoch: e.Epoch, Node: a.Node}
	switch {
	case p.Len() == 1:
		return tell(created)
	case a.Stat.Czxid == 0:
		return e.unknown() // the node was made, and a look-up finds its zxid
	default:
		created.Alone, created.Token = true, a.Stat.Czxid
		return tell(created)
	}
}

func (e Errand) occupied(a Answer) Meaning {
	switch {
	case a.Result == ResultNodeExists:
		return tell(Occupied{Epoch: e.Epoch})
	case a.Result == ResultNoNode:
		return e.next(ThenMakeParents)
	case a.At.Do == DoSet:
		return e.next(ThenAgain).noting(NoteShut)
	default:
		return e.refused(false)
	}
}

// Looked takes whether the one node is the contender's own. The look came behind a transaction, so it saw the state of that
// transaction or a later one. For a claim, own says that the contender made the node: if it is there now, it was there then. For a
// delete in doubt, own says that the node is of the session, which has one contender at a time that may have made it; see
// [OwnerBook].
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
