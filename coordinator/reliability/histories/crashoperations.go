package histories

import (
	"fmt"
	"path"

	"github.com/zkgrant/zkgrant/events"
)

// What the servers have executed: a release that returns without an error need not have reached them, and a session may end
// between a claim and the Grant. But a session that lives on has done all it was asked to:
//
//  1. Acquisition A of session S has released, or given up without a Grant. If it had a node, the node is to be removed.
//  2. Another acquisition of S is granted the lock. It claims the lock when A's node is gone.
//  3. Hence S lives then. It did not end before, and A's node did not go with it. The node was removed, and the record with
//     it.
//
// So an acquisition with a later Grant of its session on the same lock is not excused.

// operations returns the history of all locks for the search.
func (c *chronicle) operations() (ops []crashOperation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byWho := map[string]*episode{}
	for _, e := range c.episodes {
		byWho[e.who] = e
	}
	unseen := map[holding]bool{}
	for _, e := range c.episodes {
		if e.read == 0 {
			continue
		}
		op := e.operation(crashGranted)
		op.Told, op.Call, op.Return = toldBy(e.grant.Abandoned), e.asked, e.read
		ops = append(ops, op)
		if !e.shares {
			ops = append(ops, c.endOf(e))
		}
		// If no Grant names an unseen claim, that makes no difference to any caller.
		of, known := byWho[op.Told.Who]
		if known && op.Told.Token != of.grant.Token && !unseen[op.Told] && c.excused(of, e.path) {
			unseen[op.Told] = true
			claim := of.operation(crashUnseen)
			claim.Holder, claim.Call, claim.Return = op.Told, of.asked, never
			ops = append(ops, claim)
		}
	}
	return ops
}

// operation is what the operations of an acquisition have in common.
func (e *episode) operation(k crashKind) crashOperation {
	return crashOperation{
		Path: e.path, Kind: k, Worker: e.worker, Who: e.who, Shares: e.shares,
		Holder: holding{Token: e.grant.Token, Node: path.Base(e.grant.Node), Who: e.who},
	}
}

func toldBy(a *events.Abandoned) holding {
	if a == nil {
		return holding{}
	}
	return holding{Token: a.Token, Node: path.Base(a.Node), Who: string(a.Data)}
}

// endOf is the end of an acquisition of which the Grant was read. A crash may have come at any moment.
func (c *chronicle) endOf(e *episode) crashOperation {
	op := e.operation(crashUnheard)
	op.Call, op.Return = e.asked, never
	switch {
	case e.crashed():
		op.Kind = crashCrashed
	case e.err == nil:
		op.Call = e.left
		if c.livesOn(e.path, e.grant.Session, func(later *episode) bool { return later.grant.Token > e.grant.Token }) {
			op.Kind = crashReleased
		}
	}
	if forced, ok := c.history.ended[e.grant.Session]; ok {
		op.Call = min(op.Call, forced)
	}
	return op
}

// livesOn tells whether the session was granted the lock at the path once more.
func (c *chronicle) livesOn(at string, session int64, isLater func(*episode) bool) bool {
	for _, e := range c.episodes {
		if e.path == at && e.read != 0 && e.grant.Session == session && isLater(e) {
			return true
		}
	}
	return false
}

// excused tells whether an acquisition may have held the lock in a session that ended before it heard so. An acquisition has
// one node in a session. An acquisition that has heard only of the loss is excused as well: a Grant that is lost before it was
// taken, because the lease ran out or the connection was suspended, leaves its record, though the session may live on.
func (c *chronicle) excused(e *episode, at string) bool {
	switch {
	case e.path != at || e.shares:
		return false
	case e.began == 0 || e.began != e.ended:
		return true
	case e.read != 0:
		return false
	case e.crashed():
		return true
	default:
		return !c.livesOn(e.path, e.began, func(later *episode) bool { return later.asked > e.done })
	}
}

// crashTally counts what the operations show.
type crashTally struct{ grants, readers, told, readersTold, crashes, releases, unheard, unseen int }

func (n *crashTally) count(ops []crashOperation) {
	for _, op := range ops {
		switch op.Kind {
		case crashGranted:
			told := 0
			if op.Told != (holding{}) {
				told = 1
			}
			n.grants++
			n.told += told
			if op.Shares {
				n.readers++
				n.readersTold += told
			}
		case crashReleased:
			n.releases++
		case crashUnheard:
			n.unheard++
		case crashCrashed:
			n.crashes++
		case crashUnseen:
			n.unseen++
		}
	}
}

// missing names what did not occur: a history without it proves nothing about it.
func (n *crashTally) missing() (what []string) {
	for name, count := range map[string]int{
		"grants": n.grants, "grants that tell of a crash": n.told, "readers that are told": n.readersTold, "crashes": n.crashes,
		"releases": n.releases, "grants that tell of none": n.grants - n.told,
	} {
		if count == 0 {
			what = append(what, name)
		}
	}
	return what
}

func (n *crashTally) String() string {
	return fmt.Sprintf("%d grants, %d of them to readers; %d told of a crash, %d of them readers; %d crashes, "+
		"%d releases, %d perhaps unheard, %d claims of which no Grant was read",
		n.grants, n.readers, n.told, n.readersTold, n.crashes, n.releases, n.unheard, n.unseen)
}
