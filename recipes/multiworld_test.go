package recipes

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// This file adds two directories, p and q, to the world of the explorer. A step of the
// leader creates or removes nodes of both at once. A create makes a group: a node in each
// of the directories that its client needs, all with the group's number. A node's index
// is twice that number, and one more in the second directory.
const dirsP = 0x55 // the nodes in the first directory

func multiNode(group, dir uint8) uint8 { return 1 << (2*group + dir) }

// A multiRole is what a client of the world requests: places in directories, in order.
type multiRole struct {
	dirs  []uint8
	kinds []events.Kind
	plain bool // the machine is that of a mutex, reader or writer in one directory, not of a multi-lock
	flags uint8
}

func (r multiRole) rule() Rule {
	if r.plain {
		return Multi([]byte{byte(r.kinds[0])}).rule(0)
	}
	return MultiOf(r.kinds...)
}

func (r multiRole) nodes(group uint8) (mask uint8) {
	for _, d := range r.dirs {
		mask |= multiNode(group, d)
	}
	return mask
}

func (r multiRole) kind(dir uint8) events.Kind { return r.kinds[slices.Index(r.dirs, dir)] }

// A multiEnv is what servers and shells of multi-locks do in the worlds of an
// environment, and what must hold in each world.
type multiEnv struct {
	*environment

	roles []multiRole
	names map[[4]uint8]events.Name
}

// inDirectories gives the clients of a world their places in several directories.
func inDirectories(e *environment, w *world, roles []multiRole) {
	e.several = &multiEnv{environment: e, roles: roles, names: map[[4]uint8]events.Name{}}
	e.dir, e.keepOrder = dirNone, true
	for c, role := range roles {
		cl := &w.clients[c]
		cl.machine, cl.flags = e.intern(NewMachine(role.rule())), role.flags
	}
}

// openWriter makes a foreign writer hold the first directory. The second group is the
// read node in its place.
func (e *multiEnv) openWriter(w *world) {
	w.next, w.past[0] = 4, multiNode(0, 0)
	for id := range w.next {
		w.nodes[id].owner = foreign
	}
}

// join makes a group. None of its nodes exists yet.
func (w *world) join(n node) (group uint8) {
	group = w.next / 2
	w.next += 2
	w.nodes[2*group], w.nodes[2*group+1] = n, n
	return group
}

// seq returns a group's number in each of its directories. The read node that takes a
// writer's place has the writer's number.
func (e *multiEnv) seq(group uint8) int64 {
	if e.writer && group == 1 {
		return 0
	}
	return int64(group)
}

// kindOf returns the kind in a node's name.
func (e *multiEnv) kindOf(w *world, group, dir uint8) events.Kind {
	switch o := w.nodes[2*group].owner; {
	case o == foreign && group == 0:
		return events.KindWrite
	case o == foreign:
		return events.KindRead
	default:
		return e.roles[o-1].kind(dir)
	}
}

func (e *multiEnv) name(w *world, c int, group, dir uint8) events.Name {
	kind := e.kindOf(w, group, dir)
	key := [4]uint8{uint8(c), group, dir, uint8(kind)}
	if n, ok := e.names[key]; ok {
		return n
	}
	n := events.Name{Text: fmt.Sprintf("_c_g%d-%s%010d", group, kind.Marker(), e.seq(group)), Kind: kind, Seq: e.seq(group)}
	if !e.roles[c].plain {
		n.Member = int32(slices.Index(e.roles[c].dirs, dir))
	}
	e.names[key] = n
	return n
}

// node finds a node by a client's name for it.
func (e *multiEnv) node(c int, name events.Name) (group, dir uint8, ok bool) {
	n, ok := events.ParseName(name.Text)
	group = uint8(n.Seq)
	if e.writer && n.Kind.Reads() && n.Seq == 0 {
		group = 1
	}
	return group, e.roles[c].dirs[name.Member], ok
}

// blocking returns the nodes at the leader that keep a node from being the first in its
// queue.
func (e *multiEnv) blocking(w *world, group, dir uint8) (mask uint8) {
	mine := e.kindOf(w, group, dir)
	for g := range w.next / 2 {
		bit := multiNode(g, dir)
		older := e.seq(g) < e.seq(group)
		if w.past[0]&bit != 0 && older && g != group && (!mine.Reads() || !e.kindOf(w, g, dir).Reads()) {
			mask |= bit
		}
	}
	return mask
}

// leads reports whether all nodes of a group exist and are the first in their queues.
func (e *multiEnv) leads(w *world, nodes uint8) bool {
	for m := nodes; m != 0; m &= m - 1 {
		id := uint8(bits.TrailingZeros8(m))
		if e.blocking(w, id/2, id%2) != 0 {
			return false
		}
	}
	return w.past[0]&nodes == nodes
}

func (cl *client) arm(nodes, view uint8) {
	cl.armed |= nodes & view
	cl.fired |= nodes &^ view &^ cl.armed
}

// This part is about what must not happen in the world of multi-locks, and what can be
// forgotten.

func (e *multiEnv) granted(w *world, c int, grant Grant) violation {
	cl := &w.clients[c]
	told := cl.told
	cl.told |= toldGrant
	g, _, ok := e.node(c, events.Name{Text: grant.Node})
	switch {
	case told&(toldGrant|toldWithdrawn|toldFinish|toldStart) != toldStart || !ok:
		return outOfOrder
	case e.proof != g+1:
		return unproven
	case grant.Token != tokenBase+int64(g):
		return tokenOrder
	}
	for _, d := range e.roles[c].dirs {
		if e.roles[c].kind(d).Reads() {
			continue
		}
		if w.token[d] <= g+1 {
			w.token[d] = g + 1
		} else if w.byHand&multiNode(g, d) == 0 {
			return tokenOrder
		}
	}
	cl.arm(e.roles[c].nodes(g), w.past[cl.lag]) // the shell watches its nodes
	return ""
}

// check is called in every world: in each directory, the clients that believe that they
// hold may hold together, and all of their nodes exist, unless one was deleted by hand.
func (e *multiEnv) check(w *world) violation {
	for c := range e.roles {
		switch cl := &w.clients[c]; {
		case cl.told&toldLost != 0 && cl.hold&holdProven != 0:
			return unlost
		case cl.holds() && cl.hold&holdProven == 0:
			return unnoted
		}
	}
	for d := range uint8(2) {
		holders, alone := 0, false
		if d == 0 && e.writer && w.outsiders() != 0 {
			holders, alone = 1, w.past[0]&multiNode(0, 0) != 0
		}
		for c, role := range e.roles {
			cl := &w.clients[c]
			if !cl.holds() || !slices.Contains(role.dirs, d) || w.byHand&cl.known != 0 {
				continue
			}
			holders++
			alone = alone || !role.kind(d).Reads()
			if w.past[0]&cl.known&(dirsP<<d) == 0 {
				return noHold
			}
		}
		if alone && holders > 1 {
			return twoHolders
		}
	}
	return ""
}

func (e *multiEnv) normalise(w *world) {
	need := uint8(0)
	var named uint8
	for c := range e.roles {
		cl := &w.clients[c]
		cl.discard &= w.past[0]
		state := e.traits[cl.machine].state
		e.unheard(cl, &e.traits[cl.machine])
		if state == Releasing || state == Over {
			cl.lag, cl.seen = 0, 0
		}
		if state == Over {
			cl.known = 0
		}
		if state == Over && cl.requests[0].op == 0 && cl.discard == 0 {
			*cl = cl.ended()
		}
		if cl.conn == connUp && w.left.cut == 0 {
			cl.seen = 0
		}
		if w.left.lapse == 0 && w.left.expire == 0 && !cl.stale() {
			cl.lease = true
		}
		need = max(need, cl.lag, cl.seen)
		named |= cl.known | cl.armed | cl.fired
		for _, r := range cl.requests {
			named |= r.mask
			switch r.op {
			case OpWatch:
				named |= 1 << r.arg
			case OpAdvance:
				named |= 1 << r.own
			case OpCreate:
				if r.own != 0 {
					named |= 3 << (2 * (r.own - 1))
				}
			default:
			}
		}
	}
	exist := named
	for _, p := range w.past {
		exist |= p
	}
	for id := range w.nodes {
		if exist&(3<<(id&^1)) == 0 && w.nodes[id].owner != foreign {
			w.nodes[id] = node{}
		}
	}
	w.byHand &= named
	for i := range w.past {
		if uint8(i) > need {
			w.past[i] = 0
		}
	}
}
