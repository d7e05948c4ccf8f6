package recipes

// This file says which plan each request has, and what its answer means. A plan of one kind of lock is in the file of the kind.

// Plan returns what is to be tried. A turnover in a directory whose marker cannot be set has no plan: its two parts are made one
// after the other.
func (e Errand) Plan(v View) Plan {
	switch e.Op {
	case OpCreate:
		return e.createPlan(v)
	case OpDelete:
		return e.deletePlan(v)
	case OpClaim, OpAdvance:
		return e.claimPlan()
	case OpList:
		return barrierPlan()
	case OpEnter:
		return e.enterPlan(v)
	default:
		return Plan{}
	}
}

// Means returns what follows from the answer to a plan.
func (e Errand) Means(p Plan, a Answer) Meaning {
	switch {
	case a.Result == ResultUnknown:
		return e.unknown()
	case e.Op == OpCreate && a.Result == ResultDone:
		return e.created(p, a)
	case e.Op == OpCreate:
		return e.notCreated(p, a)
	case (e.Op == OpList || e.Doubts) && (a.Result == ResultDone || a.Result == ResultNoNode): // the quorum has answered, with or without a directory
		return e.next(ThenLook)
	case e.Op == OpList:
		return e.refused(false)
	case e.Op == OpDelete && a.Result == ResultDone:
		left := a.Stat
		left.Children++ // our own node, which went in the same transaction
		return e.deleted().seeing(left)
	case e.Op == OpDelete:
		return e.notDeleted(a)
	case e.Op == OpEnter:
		return e.entered(p, a)
	default:
		return e.claimed(a)
	}
}

// createPlan creates the own node. In a directory of ours that was empty when last seen, it also sets the marker, behind the
// create: the Stat of the directory in the answer tells whether the node is alone.
//
// A node in a writer's place is made only if the writer's node stands. Else it would take a place at the head of the queue without
// a right to it:
//
//  1. Another process deletes the write node.
//  2. The next contender is granted the lock.
//  3. The read node is made, ahead of it.
func (e Errand) createPlan(v View) Plan {
	create := Operation{Do: DoCreate, On: OnOwn}
	switch e.Layout {
	case LayoutPlace:
		return planOf(0, Operation{Do: DoCheck, On: OnWriter}, create)
	case LayoutNode:
		return e.takePlan(v, create)
	case LayoutSeveral:
		return e.enqueuePlan(v, create)
	case LayoutQueue:
	}
	marker := Operation{Do: DoSet, On: OnDirectory, With: WithMarker}
	dir := v.Dir.Markable()
	switch {
	case e.Turns && dir == 0:
		return Plan{}
	case e.Turns:
		return planOf(dir, Operation{Do: DoDelete, On: OnLeaver}, create, marker)
	case dir != 0 && v.Brief:
		return planOf(dir, create, marker)
	default:
		return planOf(0, create)
	}
}

// barrierPlan is a write through the quorum that changes nothing. Every earlier request of the session was executed by then, or
// never will be. A reading behind the barrier sees that.
func barrierPlan() Plan { return planOf(0, Operation{Do: DoCheck, On: OnDirectory}) }

// deletePlan deletes the own node. If asked to, it leaves a floor, and removes the record.
func (e Errand) deletePlan(v View) Plan {
	if e.Doubts {
		return barrierPlan()
	}
	p := planOf(0, Operation{Do: DoDelete, On: OnOwn})
	if e.Clean {
		p = p.and(Operation{Do: DoDelete, On: OnRecord})
	}
	if e.Floor && v.floor() {
		p = p.and(Operation{Do: DoSet, On: OnDirectory, With: WithFloor})
	}
	return p
}

// created takes the answer to a create that was executed. The node is proven to be alone if the Stat is of the directory that was
// known, and has one child. The Stat was taken behind the create, so the zxid of the directory's change is that of the node's
// creation.
func (e Errand) created(p Plan, a Answer) Meaning {
	created := Created{Epoch: e.Epoch, Node: a.Node}
	switch {
	case e.Layout == LayoutNode:
		return e.took(p, a)
	case e.Layout == LayoutSeveral:
		return e.enqueued(a)
	case a.Node.Text == "", p.dir != 0 && a.Stat.Czxid == 0:
		return e.unknown() // the node was made, and a look-up finds its name
	case a.Stat.alone(p.dir):
		created.Alone, created.Token = true, a.Stat.Mzxid
	}
	return tell(created).seeing(a.Stat)
}

func (e Errand) notCreated(p Plan, a Answer) Meaning {
	missing := a.Result == ResultNoNode
	switch {
	case e.Turns:
		return e.next(ThenApart) // the parts find out why
	case e.Layout == LayoutPlace:
		return e.refused(missing)
	case e.Layout == LayoutNode:
		return e.occupied(a)
	case missing && p.dir != 0: // the known directory is gone; a plain create tells more
		return e.next(ThenAgain).noting(NoteGone)
	case missing:
		return e.next(ThenMakeParents).noting(NoteGone)
	case a.At.Do == DoSet:
		return e.next(ThenAgain).noting(NoteShut)
	default:
		return e.refused(false)
	}
}

func (e Errand) deleted() Meaning {
	if e.stays {
		return e.refused(false)
	}
	return tell(Deleted{Epoch: e.Epoch})
}

func (e Errand) notDeleted(a Answer) Meaning {
	missing := a.Result == ResultNoNode
	switch {
	case e.Layout == LayoutSeveral:
		return e.next(ThenApart) // one node was gone, which has undone the transaction
	case a.At.On == OnOwn && missing:
		return e.deleted() // an earlier try has deleted it; or it was lost, and a record stays
	case a.At.Do == DoSet:
		return e.next(ThenAgain).noting(NoteShut)
	case a.At.On == OnRecord: // without a record there is nothing else to do
		e.Clean, e.stays = false, !missing
		return e.next(ThenAgain)
	default:
		return e.refused(missing)
	}
}
