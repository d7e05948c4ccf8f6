// Package budget counts what the ephemeral nodes of a session take in the transaction
// that ends it, so that servers can read that transaction. It is plain data: the
// session's loop owns it.
package budget

import "github.com/zkgrant/zkgrant/session/internal/zkerr"

// Load is a number of nodes, and their bytes in the transaction that ends the session.
type Load struct{ Nodes, Bytes int64 }

// Plus returns both loads together.
func (l Load) Plus(o Load) Load { return Load{l.Nodes + o.Nodes, l.Bytes + o.Bytes} }

// Minus takes a part of a load away.
func (l Load) Minus(o Load) Load { return Load{l.Nodes - o.Nodes, l.Bytes - o.Bytes} }

// Times returns the load of n such nodes.
func (l Load) Times(n int64) Load { return Load{n * l.Nodes, n * l.Bytes} }

// Overhead is what a node is counted with beside the path of its lock. It covers the rest
// of a contender's name, `/_c_<uuid>-lock-0000000000`, and the four bytes that say how
// long the path is.
const Overhead = 60

// Node returns the load of a node of a lock. Its path has that many bytes, and the lock's
// has path bytes. A name that is longer than the overhead covers counts in full.
func Node(path, node int) Load {
	const length = 4
	return Load{1, int64(max(path+Overhead, node+length))}
}

// Budget is what the nodes of one session may take, and what they take. A node counts
// from before its create is sent until its deletion is known.
//
// Contenders take a load once and keep it beyond the end of a session: a waiter queues up
// again in the next one. Everything else is bound to its session.
type Budget struct {
	Used     Load // what counts now; only the methods change it
	limit    int64
	session  uint32 // counts the sessions
	leaving  Load   // the part of Used that contenders are about to return
	bound    Load   // the part of Used that ends with this session: not the contenders'
	removing Load   // the part of bound that is being removed
}

// New returns an empty budget.
func New(limit int) Budget { return Budget{limit: int64(limit)} }

// Limit returns how many bytes there may be.
func (b *Budget) Limit() int64 { return b.limit }

// Fits reports whether there is room for more, now.
func (b *Budget) Fits(more Load) bool { return b.Used.Bytes+more.Bytes <= b.limit }

// WillFit reports whether there is room for more once all nodes that are about to go have
// gone.
func (b *Budget) WillFit(more Load) bool {
	return b.Used.Plus(more).Minus(b.leaving).Minus(b.removing).Bytes <= b.limit
}

// Take counts the nodes of a contender. Call it only if they fit.
func (b *Budget) Take(l Load) { b.Used = b.Used.Plus(l) }

// Leaving notes that a contender is about to return its load.
func (b *Budget) Leaving(l Load) { b.leaving = b.leaving.Plus(l) }

// Return ends what a contender has taken: it has no node, or never had one. leaving says
// that Leaving was called for it.
func (b *Budget) Return(l Load, leaving bool) {
	b.Used = b.Used.Minus(l)
	if leaving {
		b.leaving = b.leaving.Minus(l)
	}
}

// Keep is Return for a contender whose nodes stay until the session ends, because a
// server has refused to delete them.
func (b *Budget) Keep(l Load, leaving bool) {
	b.Return(l, leaving)
	b.Bind(l)
}

// Debt is a load that is bound to a session. The zero Debt is none.
type Debt struct {
	load    Load
	session uint32
}

// Bind counts nodes of this session, whether there is room or not.
func (b *Budget) Bind(l Load) Debt {
	b.Used, b.bound = b.Used.Plus(l), b.bound.Plus(l)
	return Debt{l, b.session}
}

// Settle ends a debt: its nodes are known to be gone.
func (b *Budget) Settle(d Debt) {
	if d.session == b.session {
		b.Used, b.bound = b.Used.Minus(d.load), b.bound.Minus(d.load)
	}
}

// Remove is Bind for nodes that are being removed. Their removal ends with Removed.
func (b *Budget) Remove(l Load) Debt {
	b.removing = b.removing.Plus(l)
	return b.Bind(l)
}

// Removed ends a removal. gone says that the nodes are known to be gone; else they stay
// until the session ends.
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
func (b *Budget) Next() {
	b.Used = b.Used.Minus(b.bound)
	b.session, b.bound, b.removing = b.session+1, Load{}, Load{}
}

// Nodes are the ephemeral nodes of a session that its users made in transactions, by
// path. The zero value is empty, and each session begins with one. A node counts until a
// transaction of the same session is known to have deleted it. If it goes otherwise, it
// counts until the session ends: only the servers know of that.
type Nodes struct{ at map[string]*node }

// node is a path at which there may be an ephemeral node.
type node struct {
	debt    Debt
	creates int    // transactions in progress that create it
	latest  uint64 // counts those that have begun
	exists  bool   // one of them has made it, or may have
}

// Op is what one operation of a transaction does to a node.
type Op struct {
	Path    string
	Creates bool // an ephemeral node
	Numbers bool // and the server appends a number to its path
	Deletes bool
}

// Transaction is one that is in progress.
type Transaction struct {
	ops     []Op
	begun   []uint64 // of each delete: the creates at its path that had begun and ended by then; 0: it does not count
	numbers Debt     // of nodes whose names are not known yet
	session uint32
}

// digits is how long a sequence number is.
const digits = 10

// Load returns the most that a transaction adds.
func (n *Nodes) Load(ops []Op) (more Load) {
	for _, o := range ops {
		switch {
		case !o.Creates:
		case o.Numbers:
			more = more.Plus(Node(len(o.Path)+digits, 0))
		case n.at[o.Path] == nil:
			more = more.Plus(Node(len(o.Path), 0))
		}
	}
	return more
}

// Begin counts what a transaction creates. It returns nil for one that neither creates
// nor deletes a node that counts. Call it before the transaction is sent.
func (n *Nodes) Begin(b *Budget, ops []Op) *Transaction {
	t := &Transaction{session: b.session}
	for _, o := range ops {
		at := n.at[o.Path]
		switch {
		case o.Deletes && at != nil && at.creates == 0:
			t.ops, t.begun = append(t.ops, o), append(t.begun, at.latest)
		case !o.Creates:
		case o.Numbers:
			l := Node(len(o.Path)+digits, 0)
			b.Bind(l)
			t.numbers = Debt{t.numbers.load.Plus(l), b.session}
			t.ops, t.begun = append(t.ops, o), append(t.begun, 0)
		default:
			if at == nil {
				at = n.add(b, o.Path)
			}
			at.creates++
			at.latest++
			t.ops, t.begun = append(t.ops, o), append(t.begun, 0)
		}
	}
	if t.ops == nil {
		return nil
	}
	return t
}

func (n *Nodes) add(b *Budget, path string) *node {
	if n.at == nil {
		n.at = map[string]*node{}
	}
	at := &node{debt: b.Bind(Node(len(path), 0))}
	n.at[path] = at
	return at
}

// End ends a transaction. If it was executed, made are the paths that the server has
// given to the numbered nodes, in order. If that is unknown, what it would have made
// counts, and what it would have deleted.
//
// A delete ends what counts only if no create at the path can have been executed after
// it: none was in progress when the delete was sent, and none has begun since.
func (n *Nodes) End(b *Budget, t *Transaction, outcome zkerr.Outcome, made []string) {
	if t == nil || t.session != b.session {
		return
	}
	done, maybe := outcome == zkerr.Done, outcome == zkerr.Unknown
	if !maybe {
		b.Settle(t.numbers)
	}
	for i, o := range t.ops {
		at := n.at[o.Path]
		switch {
		case o.Numbers && done && len(made) == 0:
			b.Bind(Node(len(o.Path)+digits, 0)) // its name is unknown
		case o.Numbers && done:
			if at = n.at[made[0]]; at == nil {
				at = n.add(b, made[0])
			}
			at.exists = true
			made = made[1:]
		case o.Numbers:
		case o.Creates:
			at.creates--
			at.exists = at.exists || done || maybe
			if at.creates == 0 && !at.exists {
				n.drop(b, o.Path)
			}
		case done && at != nil && at.creates == 0 && at.latest == t.begun[i]:
			n.drop(b, o.Path)
		}
	}
}

func (n *Nodes) drop(b *Budget, path string) {
	b.Settle(n.at[path].debt)
	delete(n.at, path)
}
