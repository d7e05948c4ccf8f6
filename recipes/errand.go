package recipes

import (
	"path"
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// This file has the plan of each request, what its answer means, and which release and
// acquire may share a transaction. Plans for one kind of lock are in that kind's file.

// Plan returns the transaction to try next, or none if the request has no plan.
func (e *Errand) Plan(v View) Plan {
	switch e.Op {
	case OpCreate:
		return e.createPlan(v)
	case OpDelete:
		return e.deletePlan(v)
	case OpClaim, OpAdvance:
		return e.claimPlan()
	case OpList:
		return e.barrierPlan()
	case OpEnter:
		return e.enterPlan(v)
	default:
		return nil
	}
}

// Means returns the meaning of the answer to a plan.
func (e *Errand) Means(p Plan, a Answer) Meaning {
	switch {
	case a.Result == ResultUnknown:
		return e.unknown()
	case e.Op == OpCreate && a.Result == ResultDone:
		return e.created(p, a)
	case e.Op == OpCreate:
		return e.notCreated(p, a)
	case (e.Op == OpList || e.Doubts) && (a.Result == ResultDone || a.Result == ResultNoNode): // the quorum has answered, with or without a directory
		return Meaning{Then: ThenLook}
	case e.Op == OpList:
		return e.refused(false)
	case e.Op == OpDelete && a.Result == ResultDone:
		m := e.deleted()
		if left := a.stat(); left.Czxid != 0 {
			left.Children++ // our own node, deleted in the same transaction
			m.Note, m.Dir, m.stat = NoteSeen, e.Dir, left
		}
		return m
	case e.Op == OpDelete:
		return e.notDeleted(a, p.Refused(a))
	case e.Op == OpEnter:
		return e.entered(p, a)
	default:
		return e.claimed(p, a)
	}
}

// createPlan creates the contender's nodes. After the creates, it also sets the markers
// of directories of ours that were empty when last seen: the answer then has the Stat of
// each directory, which shows whether the node is alone. In a turnover, the nodes of the
// contender that leaves are deleted first.
//
// A node in a writer's place is created only if the writer's node exists. Otherwise it
// could jump to the head of the queue:
//
//  1. Another process deletes the write node.
//  2. The next contender is granted the lock.
//  3. The read node is created ahead of that contender.
func (e *Errand) createPlan(v View) Plan {
	switch e.Layout {
	case LayoutPlace:
		return Plan{check(OnWriter, e.Writer), create(OnOwn, e.Nodes[0], e.Data, Ephemeral)}
	case LayoutNode:
		return e.takePlan(v)
	case LayoutQueue, LayoutSeveral:
	}
	p := make(Plan, 0, len(e.Leavers)+2*len(e.Nodes))
	for _, node := range e.Leavers {
		p = append(p, remove(OnLeaver, node))
	}
	if e.Permits > 0 && e.fitsAtOnce(v) {
		return e.atOncePlan(v, p)
	}
	for i, node := range e.Nodes {
		p = append(p, Operation{
			Do: DoCreate, On: OnOwn, Member: i, Path: node, Data: e.Data, Flags: Ephemeral | Numbered,
		})
	}
	// All directories are marked, or none: a contender has to be alone in each of them.
	plain := p
	for i, node := range e.Nodes {
		dir, book := e.Dir, v.Dir
		if v.Members != nil {
			dir, book = path.Dir(node), v.Members[i]
		}
		czxid := book.markable()
		if czxid == 0 || !v.Brief {
			p = plain
			break
		}
		p = append(p, Operation{
			Do: DoSet, On: OnDirectory, Path: dir, Data: marker, Version: AnyVersion, dir: czxid,
		})
	}
	return p
}

// barrierPlan is a write through the quorum that changes nothing. By then, every earlier
// request of the session was executed or never will be, and a read after the barrier sees
// the result.
func (e *Errand) barrierPlan() Plan { return Plan{check(OnDirectory, e.Dir)} }

// deletePlan deletes the contender's nodes. If the errand says so, it also leaves a floor
// and removes the record.
func (e *Errand) deletePlan(v View) Plan {
	if e.Doubts {
		return e.barrierPlan()
	}
	p := make(Plan, 0, 2+len(e.Nodes))
	for _, node := range e.Nodes {
		p = append(p, remove(OnOwn, node))
	}
	if e.Clean {
		p = append(p, remove(OnRecord, e.Holder))
	}
	return e.leavingFloor(p, v)
}

// leavingFloor adds the operation that leaves a floor in the directory, if the errand
// leaves one and the session can: no contender older than this one remains.
func (e *Errand) leavingFloor(p Plan, v View) Plan {
	if e.Floor && v.Token != 0 && v.Brief && v.Dir.Writable() != 0 {
		p = append(p, set(OnDirectory, e.Dir, floorData(v.Token)))
	}
	return p
}

// created handles the answer to a create that was executed. The node is proven to be
// alone if the Stat is that of the known directory and counts one child. The directory
// was written in the same transaction as the create, so its Mzxid is the zxid that
// created the node.
//
// A node in a writer's place has no older contender either: the writer's node existed,
// and the writer holds or has held the lock with it.
//
// If the session has just made the directory, and the node is the first ever created in
// it, every other contender came later: servers number the nodes of each directory from
// 0. That holds even if the directory was deleted and created again in between.
func (e *Errand) created(p Plan, a Answer) Meaning {
	switch e.Layout {
	case LayoutNode:
		return e.took(p, a)
	case LayoutSeveral:
		return e.enqueued(p, a)
	case LayoutQueue, LayoutPlace:
	}
	if e.Permits > 0 && p.atOnce() {
		return e.enteredAtOnce(p, a)
	}
	created, stat, last := Created{Epoch: e.Epoch}, a.stat(), p[len(p)-1]
	if len(a.Nodes) > 0 {
		created.Node, _ = events.ParseName(path.Base(a.Nodes[0]))
	}
	switch {
	case created.Node.Text == "", last.Do == DoSet && stat.Czxid == 0:
		return e.unknown() // the node was created; a look-up finds its name
	case e.Layout == LayoutPlace:
		created.Alone, created.Token = e.Lent != 0, e.Lent
		return Meaning{In: created}
	case e.Made && last.Do == DoCreate:
		if created.Node.Seq == 0 && stat.Czxid != 0 {
			created.Alone, created.Token = true, stat.Czxid
		}
		return Meaning{In: created}
	case stat.alone(last.dir):
		created.Alone, created.Token = true, stat.Mzxid
	}
	m := Meaning{In: created}
	if stat.Czxid != 0 {
		m.Note, m.Dir, m.stat = NoteSeen, e.Dir, stat
	}
	return m
}

func (e *Errand) notCreated(p Plan, a Answer) Meaning {
	missing, at := a.Result == ResultNoNode, p.Refused(a)
	switch {
	case len(e.Leavers) > 0:
		return Meaning{Then: ThenApart} // executed separately, each part shows why
	case p.atOnce():
		return e.notAtOnce(a, at)
	case e.Layout == LayoutPlace:
		return e.refused(missing)
	case e.Layout == LayoutNode:
		return e.occupied(a, at)
	case missing && e.Layout == LayoutQueue && len(p) > 1: // the known directory is gone; a plain create says more
		return Meaning{Then: ThenAgain}.noting(NoteGone, at)
	case missing:
		return Meaning{Then: ThenMakeParents}.noting(NoteGone, at)
	case at.Do == DoSet:
		return Meaning{Then: ThenAgain}.noting(NoteShut, at)
	default:
		return e.refused(false)
	}
}

func (e *Errand) deleted() Meaning {
	if e.stays {
		return e.refused(false)
	}
	return Meaning{In: Deleted{Epoch: e.Epoch}}
}

func (e *Errand) notDeleted(a Answer, at Operation) Meaning {
	missing := a.Result == ResultNoNode
	switch {
	case e.Layout == LayoutSeveral:
		return Meaning{Then: ThenApart} // one node was gone, so the transaction was rolled back
	case at.On == OnOwn && missing:
		return e.deleted() // an earlier try deleted it; or it was lost, and a record stays
	case at.Do == DoSet:
		return Meaning{Then: ThenAgain}.noting(NoteShut, at)
	case at.On == OnRecord: // without a record there is nothing to clean
		e.Clean, e.stays = false, !missing
		return Meaning{Then: ThenAgain}
	default:
		return e.refused(missing)
	}
}

// Leads reports whether another contender's create may join this delete in a turnover:
// the session releases a lock and requests it again at once, as in a loop. Delete and
// create are then one transaction, in one round trip. For the two machines, the create
// was executed right after the delete, or both were lost.
//
// A delete that also writes something is sent alone. So is the delete of a lock's single
// node, because the session must know at any moment which contender created the node.
func (e Delete) Leads(l Layout, v View) bool {
	return l != LayoutNode && !e.Floor && !e.Clean && v.Brief
}

// Follows reports whether this create may join a delete in its directories: they are
// known, and expected to be empty after the delete. A create with Back deletes permits
// itself.
func (e Create) Follows(l Layout, v View) bool {
	shut := func(b DirectoryBook) bool { return b.markable() == 0 }
	switch l {
	case LayoutQueue:
		return v.Brief && e.Back.Text == "" && !shut(v.Dir)
	case LayoutSeveral:
		return v.Brief && !slices.ContainsFunc(v.Members, shut)
	case LayoutPlace, LayoutNode:
	}
	return false
}

// Left returns what the answer to a turnover means for the contender that leaves. The
// transaction must not have been refused.
func (e *Errand) Left(a Answer) Input {
	if a.Result == ResultUnknown {
		return Unknown{Epoch: e.Epoch, Op: OpDelete}
	}
	return Deleted{Epoch: e.Epoch}
}
