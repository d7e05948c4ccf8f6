package recipes

import (
	"math/bits"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about what the servers do in the world of multi-locks, and what the shell makes of that.

// execute lets a server execute a request, or a part of it.
func (e *multiEnv) execute(w *world, c, i int, part uint8) {
	cl := &w.clients[c]
	r := &cl.requests[i]
	role := e.roles[c]
	zombie := cl.conn != connUp
	done := true
	switch Op(r.op) {
	case OpCreate:
		done = e.executeCreate(w, c, r, zombie)
	case OpClaim, OpAdvance:
		about := r.mask
		if e.shell == shellClaimsOne {
			about = e.first(c, about)
		}
		x := Errand{Op: OpClaim, Layout: role.layout()}
		if in, refused := x.Means(x.Plan(View{}), e.upon(w, about, x)).In.(Refused); refused && in.Missing {
			r.flags |= reqMissing
		} else if e.leads(w, r.mask) {
			r.flags |= reqFirst
		}
	case OpDelete:
		x, there := Errand{Op: OpDelete, Layout: role.layout()}, w.past[0]&r.mask
		a := e.upon(w, r.mask, x)
		if apart := !zombie && x.Means(x.Plan(View{}), a).Then == ThenApart; there != 0 && (apart || a.Result == ResultDone) {
			w.without(there)
		}
	default: // a read
	}
	if zombie {
		if done {
			*r = request{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
		}
		return
	}
	if r.write() {
		w.raise(c)
	}
	view := w.past[cl.lag]
	switch Op(r.op) {
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
		if Op(r.op) != OpList {
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

// upon is the answer to a transaction about existing nodes: all of them exist, or it is refused.
func (e *multiEnv) upon(w *world, nodes uint8, x Errand) Answer {
	if w.past[0]&nodes != nodes || nodes == 0 {
		return Answer{Result: ResultNoNode, At: x.Plan(View{}).At(0)}
	}
	return Answer{Result: ResultDone}
}

// alone tells whether a group of nodes that has just been made is proven to be alone. All directories are ours, and their zxid is
// 1.
func (e *multiEnv) alone(w *world, c int, g uint8) (alone bool) {
	role := e.roles[c]
	x := Errand{Op: OpCreate, Layout: role.layout()}
	a := Answer{Result: ResultDone}
	for _, d := range role.dirs {
		a.Nodes, a.Known = append(a.Nodes, e.name(w, c, g, d)), append(a.Known, 1)
		a.Stats = append(a.Stats, DirectoryStat{Czxid: 1, Mzxid: 1, Children: int32(bits.OnesCount8(w.past[0] & (dirsP << d)))})
	}
	a.Node, a.Stat = a.Nodes[0], a.Stats[0]
	switch in := x.Means(x.Plan(View{Dir: DirectoryBook{czxid: 1}, Brief: true, All: true}), a).In.(type) {
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

func (e *multiEnv) executeCreate(w *world, c int, r *request, zombie bool) (done bool) {
	cl, role := &w.clients[c], e.roles[c]
	made := node{owner: uint8(c) + 1, epoch: cl.epoch, attempt: r.arg}
	if r.own != 0 { // the seeded bug: the second transaction
		r.mask = multiNode(w.join(made, r.own), role.dirs[1])
		w.commit(w.past[0]|r.mask, 0)
		return true
	}
	if w.next == maxNodes {
		panic("more groups than this world has room for")
	}
	g := w.join(made, 0)
	r.own = 1 + g
	nodes := role.nodes(g)
	if e.shell == shellOneAnew && cl.known&w.past[0] != 0 {
		rest := cl.known & w.past[0]
		old := uint8(bits.TrailingZeros8(rest)) / 2
		w.forms[2*g], w.forms[2*g+1] = form(old+1)<<inPlace, form(old+1)<<inPlace
		w.nodes[2*old].attempt, w.nodes[2*old+1].attempt = r.arg, r.arg
		for _, d := range role.dirs {
			if rest&(dirsP<<d) != 0 {
				nodes &^= dirsP << d
			}
		}
		cl.known = rest | nodes
		w.commit(w.past[0]|nodes, 0)
		return true
	}
	if e.shell == shellTwoTransactions && !zombie && len(role.dirs) > 1 {
		w.commit(w.past[0]|e.first(c, nodes), 0)
		return false
	}
	w.commit(w.past[0]|nodes, 0)
	if e.shell != shellTwoTransactions && e.alone(w, c, g) {
		r.flags |= reqStands
		if e.leads(w, nodes) {
			r.flags |= reqFirst
		}
	}
	return true
}

// answer delivers a server's answer. Whether it is fresh was noted on the way.
func (e *multiEnv) answer(w *world, c int, r request) {
	var in Input
	switch op, epoch := Op(r.op), Epoch(r.epoch); {
	case op == OpCreate:
		in = e.created(w, c, r)
	case r.flags&reqMissing != 0:
		in = Refused{Epoch: epoch, Op: op, Missing: true}
	case op == OpClaim:
		e.prove(c, r, r.mask)
		in = Claimed{Epoch: epoch}
	case op == OpAdvance:
		in = Advanced{Epoch: epoch, Stands: r.flags&reqStands != 0}
	case op == OpDelete:
		in = Deleted{Epoch: epoch}
	case op == OpList:
		in = e.listed(w, c, r)
	}
	e.feed(w, c, Judged(in, e.judge(&w.clients[c], r, in)))
	e.proof = 0
}

// prove notes which group an answer proves to be the first everywhere.
func (e *multiEnv) prove(c int, r request, nodes uint8) {
	e.proof = 0
	if r.flags&reqFirst == 0 {
		return
	}
	for g := range uint8(multiGroups) {
		if e.first(c, nodes)&(3<<(2*g)) != 0 {
			e.proof = g + 1
		}
	}
}

func (e *multiEnv) created(w *world, c int, r request) Input {
	cl, role, g := &w.clients[c], e.roles[c], r.own-1
	alone := r.flags&reqStands != 0
	var token int64
	if alone {
		token = tokenBase + int64(g)
	}
	e.prove(c, r, role.nodes(g))
	if r.epoch == cl.epoch && w.as(g) == 0 {
		cl.known = role.nodes(g)
	}
	var names []events.Name
	for i, d := range role.dirs {
		group := g
		if i == 1 && r.mask != 0 { // of the seeded bug
			group = uint8(bits.TrailingZeros8(r.mask)) / 2
			cl.known = multiNode(g, role.dirs[0]) | multiNode(group, d)
		}
		names = append(names, e.name(w, c, group, d))
	}
	if role.plain {
		return Created{Epoch: Epoch(r.epoch), Node: names[0], Alone: alone, Token: token}
	}
	return Enqueued{Epoch: Epoch(r.epoch), Nodes: names, Alone: alone, Token: token}
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
