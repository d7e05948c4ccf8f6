package recipes

import (
	"fmt"
	"math/bits"
)

// This file is about what the servers do in the world of multi-locks, and how the shell
// handles it.

// transact executes the writes of a request.
func (e *multiEnv) transact(w *world, c int, r *request) {
	role := e.roles[c]
	switch r.op {
	case OpCreate:
		if w.next == maxNodes {
			panic("more groups than this world has room for")
		}
		g := w.join(node{owner: uint8(c) + 1, epoch: w.clients[c].epoch, attempt: r.arg})
		r.own = 1 + g
		nodes := role.nodes(g)
		w.commit(w.past[0]|nodes, 0)
		alone := role.alone(w)
		r.flag(alone, reqStands)
		r.flag(alone && e.leads(w, nodes), reqFirst)
	case OpClaim, OpAdvance:
		if in, refused := role.upon(w, r.mask, OpClaim).In.(Refused); refused && in.Missing {
			r.flags |= reqMissing
		} else if e.leads(w, r.mask) {
			r.flags |= reqFirst
		}
	case OpDelete:
		there, then := w.past[0]&r.mask, role.upon(w, r.mask, OpDelete).Then
		if there != 0 && (there == r.mask || w.clients[c].conn == connUp && then == ThenApart) {
			w.without(there)
		}
	default: // a read
	}
}

// look reads a directory for a listing, and watches the next node for an advance. It
// reports whether the request is done.
func (e *multiEnv) look(w *world, c int, r *request, part, view uint8) (done bool) {
	cl := &w.clients[c]
	switch {
	case r.op == OpAdvance && view&(1<<r.own) != 0:
		cl.armed |= 1 << r.own
		r.flags |= reqStands
		return true
	case r.op != OpList:
		return true
	}
	r.own |= 1 << part
	r.mask |= view & (dirsP << part)
	if r.own == 1 { // only the first directory was read
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
	for _, d := range e.roles[c].dirs {
		if r.own&(1<<d) == 0 {
			return false
		}
	}
	return true
}

func (r multiRole) layout() Layout {
	if r.plain {
		return LayoutQueue
	}
	return LayoutSeveral
}

// paths returns the paths of a client's nodes, or their beginnings.
func (r multiRole) paths() (nodes []string) {
	for _, d := range r.dirs {
		nodes = append(nodes, fmt.Sprintf("/%d/lock-", d))
	}
	return nodes
}

// upon returns the meaning of a transaction about existing nodes: it is refused unless
// all of them exist.
func (r multiRole) upon(w *world, nodes uint8, op Op) Meaning {
	x, a := Errand{Op: op, Layout: r.layout(), Nodes: r.paths()}, Answer{Result: ResultDone}
	if w.past[0]&nodes != nodes || nodes == 0 {
		a.Result = ResultNoNode
	}
	return x.Means(x.Plan(View{}), a)
}

// alone reports whether a group of nodes that was just created is proven to be alone. All
// directories are ours, and their zxid is 1.
func (r multiRole) alone(w *world) bool {
	x, ours := Errand{Op: OpCreate, Layout: r.layout(), Nodes: r.paths()}, DirectoryBook{czxid: 1}
	p, a := x.Plan(View{Dir: ours, Members: []DirectoryBook{ours, ours}, Brief: true}), Answer{Result: ResultDone}
	for i, o := range p {
		if o.Do == DoCreate {
			a.Nodes = append(a.Nodes, o.Path+"0000000000")
			continue
		}
		dir := r.dirs[i-len(r.dirs)]
		children := bits.OnesCount8(w.past[0] & (dirsP << dir))
		a.Stats = append(a.Stats, Stat{Czxid: 1, Mzxid: 1, Children: int32(children)})
	}
	in := x.Means(p, a).In
	one, _ := in.(Created)
	several, _ := in.(Enqueued)
	return one.Alone || several.Alone
}

// first returns the node among these that comes first in the client's order.
func (e *multiEnv) first(c int, nodes uint8) uint8 {
	for _, d := range e.roles[c].dirs {
		if n := nodes & (dirsP << d); n != 0 {
			return n
		}
	}
	return 0
}

// created returns the answer to a create, from which the shell learns its nodes.
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
