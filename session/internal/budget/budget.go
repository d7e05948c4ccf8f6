// Package budget counts the bytes that a session's ephemeral nodes take in the
// transaction that ends it, so that servers can read that transaction. It is plain data,
// owned by the session's loop.
package budget

import "github.com/zkgrant/zkgrant/session/internal/zkerr"

// Load is a number of nodes and their bytes in the transaction that ends the session.
type Load struct{ Nodes, Bytes int64 }

// Plus returns the sum of both loads.
func (l Load) Plus(o Load) Load { return Load{l.Nodes + o.Nodes, l.Bytes + o.Bytes} }

// Minus returns the difference of both loads.
func (l Load) Minus(o Load) Load { return Load{l.Nodes - o.Nodes, l.Bytes - o.Bytes} }

// Times returns the load of n such nodes.
func (l Load) Times(n int64) Load { return Load{n * l.Nodes, n * l.Bytes} }

// overhead is what a node counts in addition to the path of its lock. It covers a
// contender's name, `/_c_<uuid>-lock-0000000000`, and the four bytes of the path's
// length.
const overhead = 60

// Node returns the load of a lock's node. node and path are the lengths of the node's
// path and the lock's, in bytes. A name that is longer than overhead covers counts in
// full.
func Node(path, node int) Load {
	const length = 4
	return Load{1, int64(max(path+overhead, node+length))}
}

// Budget is what the nodes of one session may take, and what they do take. A node counts
// from before its create is sent until it is known to be deleted.
//
// A contender takes its load once, and keeps it beyond the end of a session, because a
// waiter queues up again in the next one. Everything else is bound to its session.
type Budget struct {
	Used     Load // the current load; only the methods change it
	limit    int64
	session  uint32 // counts the sessions
	leaving  Load   // the part of Used that contenders are about to return
	bound    Load   // the part of Used that ends with this session, which is not the contenders'
	removing Load   // the part of bound that is being deleted
}

// New returns an empty budget.
func New(limit int) Budget { return Budget{limit: int64(limit)} }

// Fits reports whether there is room for more now.
func (b *Budget) Fits(more Load) bool { return b.Used.Bytes+more.Bytes <= b.limit }

// WillFit reports whether there will be room for more once all nodes that are being given
// up are gone.
func (b *Budget) WillFit(more Load) bool {
	return b.Used.Plus(more).Minus(b.leaving).Minus(b.removing).Bytes <= b.limit
}

// Take counts the nodes of a contender. Call it only if they fit.
func (b *Budget) Take(l Load) { b.Used = b.Used.Plus(l) }

// Leaving notes that a contender is about to return its load.
func (b *Budget) Leaving(l Load) { b.leaving = b.leaving.Plus(l) }

// Return returns the load of a contender that no longer has nodes, or never had any.
// leaving means that Leaving was called for it.
func (b *Budget) Return(l Load, leaving bool) {
	b.Used = b.Used.Minus(l)
	if leaving {
		b.leaving = b.leaving.Minus(l)
	}
}

// Keep is like Return, for a contender whose nodes stay until the session ends because a
// server refused to delete them.
func (b *Budget) Keep(l Load, leaving bool) {
	b.Return(l, leaving)
	b.bind(l)
}

// Debt is a load bound to a session. The zero Debt has no load.
type Debt struct {
	load    Load
	session uint32
}

// bind counts nodes of this session, even if there is no room.
func (b *Budget) bind(l Load) Debt {
	b.Used, b.bound = b.Used.Plus(l), b.bound.Plus(l)
	return Debt{l, b.session}
}

// settle ends a debt: its nodes are known to be gone.
func (b *Budget) settle(d Debt) {
	if d.session == b.session {
		b.Used, b.bound = b.Used.Minus(d.load), b.bound.Minus(d.load)
	}
}

// Remove is like bind, for nodes that are being deleted. Removed must follow.
func (b *Budget) Remove(l Load) Debt {
	b.removing = b.removing.Plus(l)
	return b.bind(l)
}

// Removed ends a removal. gone means that the nodes are known to be gone; otherwise they
// stay until the session ends.
func (b *Budget) Removed(d Debt, gone bool) {
	if d.session != b.session {
		return
	}
	b.removing = b.removing.Minus(d.load)
	if gone {
		b.settle(d)
	}
}

// Next starts the next session, which has no nodes.
func (b *Budget) Next() {
	b.Used = b.Used.Minus(b.bound)
	b.session, b.bound, b.removing = b.session+1, Load{}, Load{}
}

// Nodes are a session's ephemeral nodes that its users created in transactions, by path.
// The zero value is empty, and each session starts with one. A node counts until a
// transaction of the same session is known to have deleted it. If it is deleted in any
// other way, it counts until the session ends, because only the servers know.
type Nodes struct{ at map[string]*node }

// node is a path at which there may be an ephemeral node.
type node struct {
	debt    Debt
	creates int    // transactions in progress that create it
	latest  uint64 // counts such transactions, ended ones included
	exists  bool   // one of them has created it, or may have
}

// Op is what one operation of a transaction does to a node.
type Op struct {
	Path    string
	Creates bool // an ephemeral node
	Numbers bool // a sequential one: the server appends a number to its path
	Deletes bool

	undone bool // of a create: the same transaction deletes the node again
}

// Transaction is a transaction in progress.
type Transaction struct {
	ops     []Op
	begun   []uint64 // for each delete: the value of latest when it began; 0 otherwise
	numbers Debt     // for nodes whose names are not known yet
	session uint32
}

// digits is the length of a sequence number.
const digits = 10

// Load returns the maximum load that a transaction adds.
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

// Begin counts what a transaction creates. It returns nil if the transaction neither
// creates nor deletes a node that counts. Call it before the transaction is sent.
func (n *Nodes) Begin(b *Budget, ops []Op) *Transaction {
	t := &Transaction{session: b.session}
	for _, o := range ops {
		at := n.at[o.Path]
		if o.Deletes {
			for i := range t.ops {
				t.ops[i].undone = t.ops[i].undone || t.ops[i].Creates && t.ops[i].Path == o.Path
			}
		}
		switch {
		case o.Deletes && at != nil && at.creates == 0:
			t.ops, t.begun = append(t.ops, o), append(t.begun, at.latest)
		case !o.Creates:
		case o.Numbers:
			l := Node(len(o.Path)+digits, 0)
			b.bind(l)
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
	at := &node{debt: b.bind(Node(len(path), 0))}
	n.at[path] = at
	return at
}

// End ends a transaction. If it was executed, made has the paths of its sequential nodes,
// in order. If the outcome is unknown, the nodes that it would have created and those
// that it would have deleted all count.
//
// A delete counts only if no create at the path can have been executed after it: none was
// in progress when the delete was sent, and none has begun since.
func (n *Nodes) End(b *Budget, t *Transaction, outcome zkerr.Outcome, made []string) {
	if t == nil || t.session != b.session {
		return
	}
	done, maybe := outcome == zkerr.Done, outcome == zkerr.Unknown
	if !maybe {
		b.settle(t.numbers)
	}
	for i, o := range t.ops {
		at := n.at[o.Path]
		switch {
		case o.Numbers && done && len(made) == 0:
			b.bind(Node(len(o.Path)+digits, 0)) // its name is unknown
		case o.Numbers && done:
			if at = n.at[made[0]]; at == nil {
				at = n.add(b, made[0])
			}
			at.exists = true
			made = made[1:]
		case o.Numbers:
		case o.Creates:
			at.creates--
			at.exists = at.exists || done && !o.undone || maybe
			if at.creates == 0 && !at.exists {
				n.drop(b, o.Path)
			}
		case done && at != nil && at.creates == 0 && at.latest == t.begun[i]:
			n.drop(b, o.Path)
		}
	}
}

func (n *Nodes) drop(b *Budget, path string) {
	b.settle(n.at[path].debt)
	delete(n.at, path)
}
