package recipes

import "math/bits"

// What multi-locks do in the world.

// enabledOutside appends what others than the clients may do next.
func (e *multiEnv) enabledOutside(w *world, steps []step) []step {
	for m := w.outsiders(); m != 0; m &= m - 1 {
		if id := uint8(bits.TrailingZeros8(m)); id != 2 || w.past[0]&1 == 0 { // its reader leaves behind its writer
			steps = append(steps, step{kind: stepLeaves, node: id})
		}
	}
	if w.left.trade > 0 && w.past[0]&1 != 0 {
		steps = append(steps, step{kind: stepDowngrade})
	}
	return steps
}

// told is the name by which a client's machine is told of a node: of its own ones that of the first.
func (e *multiEnv) told(w *world, c int, id uint8) string {
	if own := w.clients[c].known; own&(1<<id) != 0 {
		id = uint8(bits.TrailingZeros8(e.first(c, own)))
	}
	return e.name(w, c, id/2, id%2).Text
}

// feed lets a client's machine take an input, and carries its effects out.
func (e *multiEnv) feed(w *world, c int, in Input) {
	cl := &w.clients[c]
	before := cl.machine
	next, effects := e.step(e.machines[before], in)
	cl.machine = e.intern(next)
	if e.log != nil {
		e.log(c, e.describe(before, in, 0))
	}
	for _, ef := range effects {
		if v := e.perform(w, c, ef); v != "" && e.bad == "" {
			e.bad = v
		}
	}
	e.over(w, c)
}

// perform does what the shell promises to do.
func (e *multiEnv) perform(w *world, c int, ef Effect) violation {
	cl := &w.clients[c]
	about := func(name string) uint8 {
		g, d, ok := e.node(c, name)
		switch bit := multiNode(g, d); {
		case !ok:
			return 0
		case cl.known&bit != 0:
			return cl.known
		default:
			return bit
		}
	}
	switch ef := ef.(type) {
	case Create:
		if e.shell != shellOneAnew {
			cl.known = 0
		}
		return e.send(w, c, request{op: uint8(OpCreate), epoch: uint8(ef.Epoch), arg: uint8(ef.Attempt)})
	case Cancel:
		cl.unwant(uint8(ef.Epoch))
		return ""
	case List:
		r := request{op: uint8(OpList), epoch: uint8(ef.Epoch), arg: uint8(ef.Attempt)}
		if ef.Barrier {
			r.flags = reqBarrier
		}
		return e.send(w, c, r)
	case Watch:
		g, d, ok := e.node(c, ef.Node)
		if !ok {
			return nameless
		}
		return e.send(w, c, request{op: uint8(OpWatch), epoch: uint8(ef.Epoch), arg: 2*g + d})
	case Claim:
		nodes := about(ef.Node)
		if !e.whole(c, nodes) && e.shell != shellTakenForWhole {
			nodes = 0 // the shell knows that some are missing
		}
		return e.send(w, c, request{op: uint8(OpClaim), epoch: uint8(ef.Epoch), mask: nodes})
	case Advance:
		g, d, _ := e.node(c, ef.Next)
		return e.send(w, c, request{op: uint8(OpAdvance), epoch: uint8(ef.Epoch), mask: about(ef.Node), own: 2*g + d, flags: reqWhole})
	case Delete:
		if cl.flags&flagKeep != 0 && cl.told&(toldLost|toldWithdrawn) == toldLost {
			return letIn
		}
		return e.send(w, c, request{op: uint8(OpDelete), epoch: uint8(ef.Epoch), mask: about(ef.Node)})
	case Discard:
		if e.shell == shellOneAnew {
			return ""
		}
		cl.discard |= about(ef.Node)
		return ""
	default:
		return e.tell(w, c, ef)
	}
}

// send puts a request on its way.
func (e *multiEnv) send(w *world, c int, r request) violation {
	cl := &w.clients[c]
	r.status = sent
	switch {
	case cl.conn == connNone || r.epoch != cl.epoch:
		r = request{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
	case cl.conn == connDown:
		r.status = parked
	}
	if Op(r.op) == OpWatch && r.status != sent {
		return ""
	}
	if !cl.push(r) || cl.requests[maxRequests-1].op != 0 { // which has one less under way than others
		return overflow
	}
	return ""
}
