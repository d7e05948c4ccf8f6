package recipes

import "slices"

// What must not happen in the world of multi-locks, and what of it matters no more.

// tell notes what a caller hears.
func (e *multiEnv) tell(w *world, c int, ef Effect) violation {
	cl := &w.clients[c]
	grant, ok := ef.(Grant)
	if !ok {
		return e.environment.tell(w, c, e.effect(ef))
	}
	told := cl.told
	cl.told |= toldGrant
	g, _, ok := e.node(c, grant.Node)
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
		} else if w.byHand&multiNode(g, d) == 0 && e.shell != shellOneAnew { // which has worse in store
			return tokenOrder
		}
	}
	cl.arm(e.roles[c].nodes(g), w.past[cl.lag]) // the shell watches them
	return ""
}

// check holds in every world: in each directory those who believe that they hold may hold together, and all of their
// nodes exist, unless somebody has taken one away by hand.
func (e *multiEnv) check(w *world) {
	for d := range uint8(2) {
		holders, alone := 0, false
		if d == 0 && e.writer {
			if w.past[0]&multiNode(0, 0) != 0 {
				holders, alone = 1, true
			} else if w.past[0]&multiNode(1, 0) != 0 {
				holders = 1
			}
		}
		for c, role := range e.roles {
			if cl := &w.clients[c]; !cl.holds() || !slices.Contains(role.dirs, d) || w.byHand&cl.known != 0 {
				continue
			}
			holders++
			alone = alone || !role.kind(d).Reads()
			if w.past[0]&w.clients[c].known&(dirsP<<d) == 0 {
				e.bad = noHold
				return
			}
		}
		if alone && holders > 1 {
			e.bad = twoHolders
			return
		}
	}
}

// normalise forgets what can have no influence any more.
func (e *multiEnv) normalise(w *world) {
	need := uint8(0)
	var named uint8
	for c := range e.roles {
		cl := &w.clients[c]
		cl.discard &= w.past[0]
		e.unheard(cl)
		if e.traits[cl.machine].state == Over && cl.requests[0].op == 0 && cl.discard == 0 {
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
			switch Op(r.op) {
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
			w.nodes[id], w.forms[id] = node{}, 0
		}
	}
	w.byHand &= named
	for i := range w.past {
		if uint8(i) > need {
			w.past[i] = 0
		}
	}
}

// unheard drops watches that a machine will not listen to, and news of requests of past epochs.
func (e *multiEnv) unheard(cl *client) {
	m := &e.traits[cl.machine]
	hears := uint8(0xff)
	switch m.state {
	case Releasing, Over:
		hears = 0
	case Held, Lapsed:
		hears = cl.known
	default:
	}
	cl.armed &= hears
	cl.fired &= hears
	for i := len(cl.requests) - 1; i >= 0; i-- {
		r := cl.requests[i]
		switch {
		case r.op == 0:
		case r.status == lost && r.epoch != m.epoch, Op(r.op) == OpWatch && hears&(1<<r.arg) == 0:
			cl.drop(i)
		}
	}
	if hears == 0 {
		cl.lag, cl.seen = 0, 0
		if m.state == Over {
			cl.known = 0
		}
	}
}
