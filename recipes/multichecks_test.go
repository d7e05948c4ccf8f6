package recipes

import "slices"

// What must not happen in the world of multi-locks, and what of it matters no more.

// tell notes what a caller hears.
func (e *multiEnv) tell(w *multiWorld, c int, ef Effect) violation {
	cl := &w.clients[c]
	told := cl.told
	if told&toldFinish != 0 {
		return outOfOrder
	}
	switch ef := ef.(type) {
	case Grant:
		cl.told |= toldGrant
		g, _, ok := e.node(c, ef.Node)
		switch {
		case told&(toldGrant|toldWithdrawn|toldStart) != toldStart || !ok:
			return outOfOrder
		case e.proof != g+1:
			return unproven
		case ef.Token != tokenBase+int64(g):
			return tokenOrder
		}
		for _, d := range e.roles[c].dirs {
			if e.roles[c].kind(d).Reads() {
				continue
			}
			if w.token[d] > g+1 && w.byHand&multiNode(g, d) == 0 && e.shell != shellOneAnew { // which has worse in store
				return tokenOrder
			}
			w.token[d] = max(w.token[d], g+1)
		}
		cl.arm(e.roles[c].nodes(g), w.past[cl.lag]) // the shell watches them
	case Lose:
		cl.told |= toldLost
		if told&(toldGrant|toldLost|toldWithdrawn) != toldGrant {
			return outOfOrder
		}
	case Queue, Requeue:
		if told&(toldGrant|toldWithdrawn) != 0 {
			return outOfOrder
		}
	case Finish:
		cl.told |= toldFinish
		held := told&toldGrant != 0
		switch {
		case held && told&(toldLost|toldWithdrawn) == 0, ef.Why == WhyLost != (told&toldLost != 0), ef.Why == 0:
			return outOfOrder
		case ef.Why == WhySequenceEnd, ef.Why == WhyMixed:
			return unfounded
		}
	default:
	}
	return ""
}

// check holds in every world: in each directory those who believe that they hold may hold together, and all of their
// nodes exist, unless somebody has taken one away by hand.
func (e *multiEnv) check(w *multiWorld) {
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

// Goal tells whether all is over and nothing left.
func (e *multiEnv) Goal(w *multiWorld) bool {
	for c := range e.roles {
		if cl := &w.clients[c]; e.known[cl.machine].state != Over || cl.discard&w.past[0] != 0 {
			return false
		}
	}
	return w.past[0] == 0
}

// normalise forgets what can have no influence any more.
func (e *multiEnv) normalise(w *multiWorld) {
	need := uint8(0)
	var named uint16
	for c := range e.roles {
		cl := &w.clients[c]
		cl.discard &= w.past[0]
		e.unheard(cl)
		if e.known[cl.machine].state == Over {
			if cl.requests[0].op == 0 && cl.discard == 0 {
				*cl = multiClient{machine: e.over(), told: toldFinish, lease: true}
			}
		}
		if cl.conn == connUp && w.left.cut == 0 {
			cl.seen = 0
		}
		if w.left.lapse == 0 && w.left.expire == 0 && !slices.ContainsFunc(cl.requests[:], func(r multiRequest) bool { return r.flags&reqStale != 0 }) {
			cl.lease = true
		}
		need = max(need, cl.lag, cl.seen)
		named |= cl.known | cl.armed | cl.fired
		for _, r := range cl.requests {
			named |= r.view
			if Op(r.op) == OpWatch || Op(r.op) == OpAdvance {
				named |= 1 << r.node
			}
			if Op(r.op) == OpCreate && r.node != 0 {
				named |= 3 << (2 * r.node)
			}
			if r.own != 0 {
				named |= 3 << (2 * (r.own - 1))
			}
		}
	}
	exist := named
	for _, p := range w.past {
		exist |= p
	}
	for g := range w.groups {
		if exist&(3<<(2*g)) == 0 && w.groups[g].owner != multiOutside {
			w.groups[g] = multiGroup{}
		}
	}
	w.byHand &= named
	for i := range w.past {
		if uint8(i) > need {
			w.past[i] = 0
		}
	}
}

// unheard drops what a machine will not listen to, as that of the other explorer does.
func (e *multiEnv) unheard(cl *multiClient) {
	m := &e.known[cl.machine]
	hears := uint16(0xffff)
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
		case r.status == lost && r.epoch != uint8(m.epoch), Op(r.op) == OpWatch && hears&(1<<r.node) == 0:
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

// over is the machine of everybody who is done.
func (e *multiEnv) over() uint32 {
	over, _ := NewMachine(Mutex{}).Step(Withdrawn{Why: WhyReleased})
	return e.intern(over)
}
