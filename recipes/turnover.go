package recipes

import "slices"

// This file is about a turnover: the same session releases a lock and asks for it again
// at once, as in a loop. The delete and the next create are one transaction, and take one
// round trip. For the two machines it is as if the create had been executed right behind
// the delete, or both were lost.

// Leads reports whether another contender's create may join the delete. A delete that
// writes more is sent alone. So is one of a lock of one node, because the session must
// know at any moment which contender has created the node.
func (e Errand) Leads(v View) bool {
	return e.Op == OpDelete && e.Layout != LayoutNode && !e.Floor && !e.Clean && v.Brief
}

// Follows reports whether the create may join a delete in its directories: they are
// known, and are expected to be empty then.
func (e Errand) Follows(v View) bool {
	shut := func(b DirectoryBook) bool { return b.Markable() == 0 }
	switch e.Layout {
	case LayoutQueue:
		return e.Op == OpCreate && v.Brief && !shut(v.Dir)
	case LayoutSeveral:
		return e.Op == OpCreate && v.Brief && !slices.ContainsFunc(v.Members, shut)
	case LayoutPlace, LayoutNode:
	}
	return false
}

// Left returns the leaving contender's part of the answer to a transaction with another
// one's create, unless the transaction was refused.
func (e Errand) Left(a Answer) Input {
	if a.Result == ResultUnknown {
		return Unknown{Epoch: e.Epoch, Op: OpDelete}
	}
	return Deleted{Epoch: e.Epoch}
}
