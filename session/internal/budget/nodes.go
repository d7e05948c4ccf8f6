package budget

// Nodes are the ephemeral nodes of a session that its users made in transactions, by path. The zero value is
// empty. A node counts until a transaction of the same session is known to have deleted it. If it goes
// otherwise, it counts until the session ends: only the servers know of that.
type Nodes struct{ at map[string]*node }

// node is a path at which there may be an ephemeral node.
type node struct {
	debt    Debt
	creates int    // transactions under way that create it
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

// Transaction is one that is under way.
type Transaction struct {
	ops     []Op
	begun   []uint64 // of each delete: the creates at its path that had begun and ended by then; 0: it does not count
	numbers Debt     // of nodes whose names are not known yet
	session uint32
}

// digits is how long a sequence number is.
const digits = 10

// Load returns what a transaction adds at the most.
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

// Begin counts what a transaction creates. It returns nil for one that neither creates nor deletes a node
// that counts. Call it before the transaction is sent.
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

// Done ends a transaction that was executed. made are the paths that the server has given to the numbered
// nodes, in order.
//
// A delete ends what counts only if no create at the path can have been executed after it: none was under
// way when the delete was sent, and none has begun since.
func (n *Nodes) Done(b *Budget, t *Transaction, made []string) {
	if t == nil || t.session != b.session {
		return
	}
	b.Settle(t.numbers)
	for i, o := range t.ops {
		switch at := n.at[o.Path]; {
		case o.Numbers:
			if len(made) == 0 {
				b.Bind(Node(len(o.Path)+digits, 0)) // its name is unknown
				continue
			}
			if n.at[made[0]] == nil {
				n.add(b, made[0])
			}
			n.at[made[0]].exists = true
			made = made[1:]
		case o.Creates:
			at.creates--
			at.exists = true
		case at != nil && at.creates == 0 && at.latest == t.begun[i]:
			n.drop(b, o.Path)
		}
	}
}

// Refused ends a transaction that was not executed.
func (n *Nodes) Refused(b *Budget, t *Transaction) {
	if t == nil || t.session != b.session {
		return
	}
	b.Settle(t.numbers)
	for _, o := range t.ops {
		if !o.Creates || o.Numbers {
			continue
		}
		at := n.at[o.Path]
		if at.creates--; at.creates == 0 && !at.exists {
			n.drop(b, o.Path)
		}
	}
}

// Unknown ends a transaction that may have been executed. What it would have made counts, and what it would
// have deleted.
func (n *Nodes) Unknown(b *Budget, t *Transaction) {
	if t == nil || t.session != b.session {
		return
	}
	for _, o := range t.ops {
		if o.Creates && !o.Numbers {
			at := n.at[o.Path]
			at.creates--
			at.exists = true
		}
	}
}

func (n *Nodes) drop(b *Budget, path string) {
	b.Settle(n.at[path].debt)
	delete(n.at, path)
}

// Next begins the next session.
func (n *Nodes) Next() { n.at = nil }
