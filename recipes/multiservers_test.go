package recipes

import (
	"fmt"
	"math/bits"
)

// This file is about what the servers do in the world of multi-locks, and what the shell makes of that.

// execute lets a server execute a request, or a part of it.
func (e *multiEnv) execute(w *world, c, i int, part uint8) {
	cl := &w.clients[c]
	r := &cl.requests[i]
	role := e.roles[c]
	zombie := cl.conn != connUp
	done := true
	switch r.op {
	case OpCreate:
		e.executeCreate(w, c, r)
	case OpClaim, OpAdvance:
		x := Errand{Op: OpClaim, Layout: role.layout(), Nodes: role.paths()}
		if in, refused := x.Means(x.Plan(View{}), e.upon(w, r.mask, x)).In.(Refused); refused && in.Missing {
			r.flags |= reqMissing
		} else if e.leads(w, r.mask) {
			r.flags |= reqFirst
		}
	case OpDelete:
		x, there := Errand{Op: OpDelete, Layout: role.layout(), Nodes: role.paths()}, w.past[0]&r.mask
		a := e.upon(w, r.mask, x)
		if apart := !zombie && x.Means(x.Plan(View{}), a).Then == ThenApart; there != 0 && (apart || a.Result == ResultDone) {
			w.without(there)
		}
	default: // a read
	}
	if zombie {
		*r = r.gone()
		return
	}
	if r.write() {
		w.raise(c)
	}
	view := w.past[cl.lag]
	switch r.op {
	case OpList:
		r.own |= 1 << part
		r.mask |= view & (dirsP << part)
		if r.own == 1 { // the first, whether barred or not
			r.age = cl.lag
		}
		r.age = max(r.age, cl.lag)
		for g := range w.next / 2 { // the shell watches its own nodes
			if o := w.nodes[2*g]; o.owner == uint8(c)+1 && r.arg != 0 && o.attempt == r.arg {
				cl.armed |= multiNode(g, part) & view
				if r.epoch == cl.epoch {
					cl.known |= multiNode(g, part) & view
				}
			}
		}
		for _, d := range role.dirs {
			done = done && r.own&(1<<d) != 0
		}
	case OpWatch:
		cl.arm(1<<r.arg, view)
		cl.drop(i)
		return
	case OpAdvance:
		if view&(1<<r.own) != 0 {
			cl.armed |= 1 << r.own
			r.flags |= reqStands
		}
	default:
	}
	if done {
		r.status = executed
		if r.op != OpList {
			r.age = cl.lag
		}
	}
}

// layout is how the nodes of a client stand.
func (r multiRole) layout() Layout {
	if r.plain {
		return LayoutQueue
	}
	return LayoutSeveral
}

// paths are the paths that a client's nodes have, or begin with.
func (r multiRole) paths() (nodes []string) {
	for _, d := range r.dirs {
		nodes = append(nodes, fmt.Sprintf("/%d/lock-", d))
	}
	return nodes
}

// upon is the answer to a transaction about existing nodes: all of them exist, or it is refused.
func (e *multiEnv) upon(w *world, nodes uint8, x Errand) Answer {
	if w.past[0]&nodes != nodes || nodes == 0 {
		return Answer{Result: ResultNoNode}
	}
	return Answer{Result: ResultDone}
}

// alone reports whether a group of nodes that has just been made is proven to be alone. All directories are ours, and their zxid is
// 1.
func (e *multiEnv) alone(w *world, c int, g uint8) (alone bool) {
	role := e.roles[c]
	x, ours := Errand{Op: OpCreate, Layout: role.layout(), Nodes: role.paths()}, DirectoryBook{czxid: 1}
	p, a := x.Plan(View{Dir: ours, Members: []DirectoryBook{ours, ours}, Brief: true}), Answer{Result: ResultDone}
	for i, o := range p {
		if o.Do == DoCreate {
			a.Nodes = append(a.Nodes, o.Path+"0000000000")
			continue
		}
		dir := role.dirs[i-len(role.dirs)]
		children := bits.OnesCount8(w.past[0] & (dirsP << dir))
		a.Stats = append(a.Stats, Stat{Czxid: 1, Mzxid: 1, Children: int32(children)})
	}
	switch in := x.Means(p, a).In.(type) {
	case Created:
		alone = in.Alone
	case Enqueued:
		alone = in.Alone
	}
	return alone
}

// first returns the node, of some, that the client names first.
func (e *multiEnv) first(c int, nodes uint8) uint8 {
	for _, d := range e.roles[c].dirs {
		if n := nodes & (dirsP << d); n != 0 {
			return n
		}
	}
	return 0
}

func (e *multiEnv) executeCreate(w *world, c int, r *request) {
	if w.next == maxNodes {
		panic("more groups than this world has room for")
	}
	g := w.join(node{owner: uint8(c) + 1, epoch: w.clients[c].epoch, attempt: r.arg})
	r.own = 1 + g
	nodes := e.roles[c].nodes(g)
	w.commit(w.past[0]|nodes, 0)
	if e.alone(w, c, g) {
		r.flags |= reqStands
		if e.leads(w, nodes) {
			r.flags |= reqFirst
		}
	}
}

// reply is a server's answer. From the answer to a create the shell knows its nodes.
func (e *multiEnv) reply(w *world, c int, r request) Input {
	switch op, epoch := r.op, Epoch(r.epoch); {
	case op == OpCreate:
		return e.created(w, c, r)
	case r.flags&reqMissing != 0:
		return Refused{Epoch: epoch, Op: op, Missing: true}
	case op == OpClaim:
		return Claimed{Epoch: epoch}
	case op == OpAdvance:
		return Advanced{Epoch: epoch, Stands: r.flags&reqStands != 0}
	case op == OpDelete:
		return Deleted{Epoch: epoch}
	default:
		return e.listed(w, c, r)
	}
}

func (e *multiEnv) created(w *world, c int, r request) Input {
	role, g := e.roles[c], r.own-1
	if r.epoch == w.clients[c].epoch {
		w.clients[c].known = role.nodes(g)
	}
	made := Enqueued{Epoch: Epoch(r.epoch), Alone: r.flags&reqStands != 0}
	if made.Alone {
		made.Token = tokenBase + int64(g)
	}
	for _, d := range role.dirs {
		made.Nodes = append(made.Nodes, e.name(w, c, g, d))
	}
	if role.plain {
		return Created{Epoch: made.Epoch, Node: made.Nodes[0], Alone: made.Alone, Token: made.Token}
	}
	return made
}

func (e *multiEnv) listed(w *world, c int, r request) Input {
	role := e.roles[c]
	in, own := Listed{Epoch: Epoch(r.epoch)}, make([]Own, len(role.dirs))
	for i, d := range role.dirs {
		for g := range w.next / 2 {
			if r.mask&multiNode(g, d) == 0 {
				continue
			}
			name := e.name(w, c, g, d)
			in.Queue = append(in.Queue, name)
			if o := w.nodes[2*g]; o.owner == uint8(c)+1 && r.arg != 0 && o.attempt == r.arg {
				own[i] = Own{Name: name, Owner: sessionID(o.epoch), Token: tokenBase + int64(g)}
			}
		}
	}
	return in.WithMembers(own)
}
