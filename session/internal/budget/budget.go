// Package budget counts what the ephemeral nodes of a session take in the transaction that ends it, so that
// servers can read that transaction. It is plain data: the session's loop owns it.
package budget

// Load is a number of nodes, and their bytes in the transaction that ends the session.
type Load struct{ Nodes, Bytes int64 }

// Plus returns both loads together.
func (l Load) Plus(o Load) Load { return Load{l.Nodes + o.Nodes, l.Bytes + o.Bytes} }

// Minus takes a part of a load away.
func (l Load) Minus(o Load) Load { return Load{l.Nodes - o.Nodes, l.Bytes - o.Bytes} }

// Times returns the load of n such nodes.
func (l Load) Times(n int64) Load { return Load{n * l.Nodes, n * l.Bytes} }

// Overhead is what a node is counted with beside the path of its lock. It covers the rest of a contender's
// name, `/_c_<uuid>-lock-0000000000`, and the four bytes that say how long the path is.
const Overhead = 60

// Node returns the load of a node of a lock. Its path has so many bytes, and the lock's has path bytes. A
// name that is longer than the overhead covers counts in full.
func Node(path, node int) Load {
	const length = 4
	return Load{1, int64(max(path+Overhead, node+length))}
}

// Budget is what the nodes of one session may take, and what they take. A node counts from before its
// create is sent until its deletion is known.
//
// Contenders take a load once and keep it beyond the end of a session: a waiter queues up again in the next
// one. Everything else is bound to its session.
type Budget struct {
	limit    int64
	session  uint32 // counts the sessions
	taken    Load   // by contenders
	leaving  Load   // the part of it that contenders are about to return
	bound    Load   // by nodes that end with this session, beside the contenders'
	removing Load   // the part of it that is being removed
}

// New returns an empty budget.
func New(limit int) Budget { return Budget{limit: int64(limit)} }

// Used returns what counts now.
func (b *Budget) Used() Load { return b.taken.Plus(b.bound) }

// Limit returns how many bytes there may be.
func (b *Budget) Limit() int64 { return b.limit }

// Fits reports whether there is room for more, now.
func (b *Budget) Fits(more Load) bool { return b.Used().Plus(more).Bytes <= b.limit }

// WillFit reports whether there is room for more once all nodes that are about to go have gone.
func (b *Budget) WillFit(more Load) bool {
	return b.Used().Plus(more).Minus(b.leaving).Minus(b.removing).Bytes <= b.limit
}

// Take counts the nodes of a contender. Call it only if they fit.
func (b *Budget) Take(l Load) { b.taken = b.taken.Plus(l) }

// Leaving notes that a contender is about to return its load.
func (b *Budget) Leaving(l Load) { b.leaving = b.leaving.Plus(l) }

// Return ends what a contender has taken: it has no node, or never had one. leaving says that Leaving was
// called for it.
func (b *Budget) Return(l Load, leaving bool) {
	b.taken = b.taken.Minus(l)
	if leaving {
		b.leaving = b.leaving.Minus(l)
	}
}

// Keep is Return for a contender whose nodes stay until the session ends, because a server has refused to
// delete them.
func (b *Budget) Keep(l Load, leaving bool) {
	b.Return(l, leaving)
	b.bound = b.bound.Plus(l)
}

// Debt is a load that is bound to a session. The zero Debt is none.
type Debt struct {
	load    Load
	session uint32
}

// Bind counts nodes of this session, whether there is room or not.
func (b *Budget) Bind(l Load) Debt {
	b.bound = b.bound.Plus(l)
	return Debt{l, b.session}
}

// Settle ends a debt: its nodes are known to be gone.
func (b *Budget) Settle(d Debt) {
	if d.session == b.session {
		b.bound = b.bound.Minus(d.load)
	}
}

// Remove is Bind for nodes that are being removed. Their removal ends with Removed.
func (b *Budget) Remove(l Load) Debt {
	b.removing = b.removing.Plus(l)
	return b.Bind(l)
}

// Removed ends a removal. gone says that the nodes are known to be gone; else they stay until the session
// ends.
func (b *Budget) Removed(d Debt, gone bool) {
	if d.session != b.session {
		return
	}
	b.removing = b.removing.Minus(d.load)
	if gone {
		b.Settle(d)
	}
}

// Next begins the next session, which has no nodes.
func (b *Budget) Next() { b.session, b.bound, b.removing = b.session+1, Load{}, Load{} }
