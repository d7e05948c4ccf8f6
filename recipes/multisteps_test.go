package recipes

import (
	"fmt"
	"math/bits"
	"strings"
)

// What may happen in the world of multi-locks.

// Enabled appends every step that may come next.
func (e *multiEnv) Enabled(w *multiWorld, steps []step) []step {
	for c := range e.roles {
		cl := &w.clients[c]
		add := func(may bool, kind stepKind, arg uint8) {
			if may {
				steps = append(steps, step{kind, uint8(c), arg})
			}
		}
		up, down := cl.conn == connUp, cl.conn == connDown
		add(cl.told&toldStart == 0, stepStart, 0)
		// Without a connection, what was sent may still be on its way.
		if i := cl.find(sent); i >= 0 && cl.closed == 0 && (up || down && cl.requests[i].write() && Op(cl.requests[i].op) != OpAdvance && Op(cl.requests[i].op) != OpList) {
			r := cl.requests[i]
			for _, d := range e.roles[c].dirs {
				add(Op(r.op) == OpList && r.parts&(1<<d) == 0, stepExecute, d)
			}
			add(Op(r.op) != OpList, stepExecute, 0)
		}
		add((up || down && e.late) && cl.find(executed) >= 0, stepAnswer, 0)
		add(cl.find(lost) >= 0 || down && cl.find(sent) >= 0, stepFail, 0)
		for m := cl.fired; m != 0; m &= m - 1 {
			add(true, stepGone, uint8(bits.TrailingZeros16(m)))
		}
		add(up && cl.closed == 0 && cl.discard != 0, stepDiscard, 0)
		add(cl.told&(toldGrant|toldWithdrawn|toldFinish) == toldGrant, stepRelease, 0)
		add(cl.told&(toldStart|toldGrant|toldWithdrawn|toldFinish) == toldStart && w.left.withdraw > 0, stepWithdraw, 0)
		add(up && cl.lag > 0, stepCatchUp, 0)
		add(down && cl.closed == 0, stepReconnect, 0)
		add(up && cl.closed != 0 && cl.lag <= cl.closed-1, stepDropDead, 0)
		add(down && cl.closed != 0, stepExpired, 0)
		add(cl.conn == connNone, stepOpen, 0)
		live := cl.conn != connNone && cl.told&toldFinish == 0
		add(up && w.left.cut > 0 && live, stepCut, 0)
		add(w.left.lapse > 0 && live && cl.lease, stepLapse, 0)
		add(up && cl.closed == 0 && !cl.lease, stepRenew, 0)
		add(w.left.expire > 0 && live && cl.closed == 0, stepExpire, 0)
		add(w.left.kill > 0 && live && cl.closed == 0, stepKill, 0)
	}
	for m := w.past[0]; m != 0; m &= m - 1 {
		id := uint8(bits.TrailingZeros16(m))
		outside := w.groups[id/2].owner == multiOutside
		if outside && (id != 2 || w.past[0]&1 == 0) { // its reader leaves behind its writer
			steps = append(steps, step{kind: stepLeaves, node: id})
		}
		if !outside && w.left.remove > 0 {
			steps = append(steps, step{kind: stepRemove, node: id})
		}
	}
	if w.left.trade > 0 && w.past[0]&1 != 0 {
		steps = append(steps, step{kind: stepDowngrade})
	}
	return steps
}

// Take carries a step out.
func (e *multiEnv) Take(w *multiWorld, s step) violation {
	e.bad = ""
	c := int(s.client)
	cl := &w.clients[c]
	switch s.kind {
	case stepStart:
		cl.told |= toldStart
		f := e.roles[c].flags
		e.feed(w, c, Started{Try: f&flagTry != 0, Keep: f&flagKeep != 0, Strict: f&flagStrict != 0})
	case stepExecute:
		e.execute(w, c, cl.find(sent), s.node)
	case stepAnswer:
		e.answer(w, c, cl.find(executed))
	case stepFail:
		i := cl.find(lost)
		if i < 0 {
			i = cl.find(sent)
		}
		r := cl.requests[i]
		cl.drop(i)
		if Op(r.op) != OpWatch {
			e.feed(w, c, Unknown{Epoch: Epoch(r.epoch), Op: Op(r.op)})
		}
	case stepGone:
		cl.fired &^= 1 << s.node
		e.feed(w, c, Gone{Epoch: Epoch(cl.epoch), Node: e.told(w, c, s.node)})
	case stepDiscard:
		w.raise(c)
		bit := cl.discard & -cl.discard
		cl.discard &^= bit
		if w.past[0]&bit != 0 {
			w.commit(w.past[0] &^ bit)
		}
		w.raise(c)
	case stepRelease, stepWithdraw:
		why := WhyReleased
		if s.kind == stepWithdraw {
			w.left.withdraw--
			why = WhyContext
		}
		cl.told |= toldWithdrawn
		e.feed(w, c, Withdrawn{Why: why})
	case stepCatchUp:
		w.catchUp(c)
	case stepRenew:
		cl.lease = true
	case stepRemove:
		w.left.remove--
		w.byHand |= 1 << s.node
		w.commit(w.past[0] &^ (1 << s.node))
	case stepLeaves:
		w.commit(w.past[0] &^ (1 << s.node))
	case stepDowngrade:
		w.left.trade--
		w.commit(w.past[0] | multiNode(1, 0))
	default:
		e.connection(w, c, s.kind)
	}
	if e.bad == "" {
		e.check(w)
	}
	e.normalise(w)
	return e.bad
}

// told is the name by which a client's machine is told of a node: of its own ones that of the first.
func (e *multiEnv) told(w *multiWorld, c int, id uint8) string {
	if own := w.clients[c].known; own&(1<<id) != 0 {
		id = uint8(bits.TrailingZeros16(e.first(c, own)))
	}
	return e.name(w, c, id/2, id%2).Text
}

// Progress reports whether a step happens by itself.
func (*multiEnv) Progress(s step) bool { return s.kind <= stepChanged }

// connection is what happens to a session.
func (e *multiEnv) connection(w *multiWorld, c int, kind stepKind) {
	cl := &w.clients[c]
	switch kind {
	case stepCut, stepDropDead:
		if kind == stepCut {
			w.left.cut--
		}
		cl.conn, cl.lag, cl.armed, cl.fired = connDown, 0, 0, 0
		for i := len(cl.requests) - 1; i >= 0; i-- {
			if Op(cl.requests[i].op) == OpWatch {
				cl.drop(i)
			}
		}
		for i := range cl.requests {
			if r := &cl.requests[i]; r.status == executed && !e.late {
				*r = multiRequest{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
			} else if r.status == executed {
				cl.seen = min(cl.seen, r.age)
			}
		}
		e.feed(w, c, Suspended{})
	case stepReconnect:
		for i := range cl.requests {
			switch r := &cl.requests[i]; r.status {
			case sent:
				*r = multiRequest{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
			case parked:
				r.status = sent
			case executed, lost:
			}
		}
		cl.conn, cl.lag, cl.lease = connUp, cl.seen, true
		e.feed(w, c, Reconnected{})
	case stepLapse:
		w.left.lapse--
		e.lapse(w, c)
	case stepExpire, stepKill:
		var mine uint16
		for g, o := range w.groups {
			if o.owner == uint8(c)+1 && o.epoch == cl.epoch {
				mine |= 3 << (2 * g)
			}
		}
		if kind == stepExpire {
			w.left.expire--
			e.lapse(w, c)
		} else {
			w.left.kill--
			w.byHand |= mine
		}
		w.commit(w.past[0] &^ mine)
		cl.closed = 1
	case stepExpired:
		for i := range cl.requests {
			if r := &cl.requests[i]; r.op != 0 {
				*r = multiRequest{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
			}
		}
		cl.conn, cl.seen, cl.armed, cl.fired, cl.discard = connNone, 0, 0, 0, cl.discard&w.past[0]
		e.feed(w, c, Expired{})
	case stepOpen:
		cl.epoch++
		cl.conn, cl.closed, cl.lag, cl.seen, cl.lease = connUp, 0, 0, 0, true
		e.feed(w, c, Opened{Epoch: Epoch(cl.epoch), Session: session(c, cl.epoch)})
	default:
	}
}

// lapse lets a lease run out.
func (e *multiEnv) lapse(w *multiWorld, c int) {
	cl := &w.clients[c]
	good := cl.lease
	cl.lease = false
	for i := range cl.requests {
		if r := &cl.requests[i]; r.op != 0 && r.write() && (r.status == sent || r.status == executed) {
			r.flags |= reqStale
		}
	}
	if good {
		e.feed(w, c, LeaseRanOut{})
	}
}

// feed lets a client's machine take an input, and carries its effects out.
func (e *multiEnv) feed(w *multiWorld, c int, in Input) {
	cl := &w.clients[c]
	from := e.known[cl.machine].state
	next, effects := e.step(e.known[cl.machine], in)
	cl.machine = e.intern(next)
	if e.log != nil {
		text := fmt.Sprintf("%s: %v", inputText(in), from)
		if next.state != from {
			text += fmt.Sprintf(" -> %v", next.state)
		}
		var does []string
		for _, ef := range effects {
			does = append(does, effectText(ef))
		}
		e.log(c, strings.Join(append([]string{text}, does...), "; "))
	}
	for _, ef := range effects {
		if v := e.perform(w, c, ef); v != "" && e.bad == "" {
			e.bad = v
		}
	}
	if next.state == Over && e.bad == "" {
		switch {
		case cl.told&toldFinish == 0:
			e.bad = outOfOrder
		case e.ownAt(w, c)&^cl.discard != 0:
			e.bad = leftBehind
		}
	}
}

// ownAt returns the nodes of a client's that exist at the leader.
func (e *multiEnv) ownAt(w *multiWorld, c int) (mask uint16) {
	for g, o := range w.groups {
		if o.owner == uint8(c)+1 {
			mask |= 3 << (2 * g)
		}
	}
	return mask & w.past[0]
}

// perform does what the shell promises to do.
func (e *multiEnv) perform(w *multiWorld, c int, ef Effect) violation {
	cl := &w.clients[c]
	about := func(name string) uint16 {
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
		return e.send(w, c, multiRequest{op: uint8(OpCreate), epoch: uint8(ef.Epoch), arg: uint8(ef.Attempt)})
	case List:
		r := multiRequest{op: uint8(OpList), epoch: uint8(ef.Epoch), arg: uint8(ef.Attempt)}
		if ef.Barrier {
			r.flags = reqBarrier
		}
		return e.send(w, c, r)
	case Watch:
		g, d, ok := e.node(c, ef.Node)
		if !ok {
			return nameless
		}
		return e.send(w, c, multiRequest{op: uint8(OpWatch), epoch: uint8(ef.Epoch), node: 2*g + d})
	case Claim:
		nodes := about(ef.Node)
		if !e.whole(c, nodes) && e.shell != shellTakenForWhole {
			nodes = 0 // the shell knows that some are missing
		}
		return e.send(w, c, multiRequest{op: uint8(OpClaim), epoch: uint8(ef.Epoch), view: nodes})
	case Advance:
		g, d, _ := e.node(c, ef.Next)
		return e.send(w, c, multiRequest{op: uint8(OpAdvance), epoch: uint8(ef.Epoch), view: about(ef.Node), node: 2*g + d})
	case Delete:
		if e.roles[c].flags&flagKeep != 0 && cl.told&(toldLost|toldWithdrawn) == toldLost {
			return letIn
		}
		return e.send(w, c, multiRequest{op: uint8(OpDelete), epoch: uint8(ef.Epoch), view: about(ef.Node)})
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
func (e *multiEnv) send(w *multiWorld, c int, r multiRequest) violation {
	cl := &w.clients[c]
	r.status = sent
	switch {
	case cl.conn == connNone || r.epoch != cl.epoch:
		r = multiRequest{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
	case cl.conn == connDown:
		r.status = parked
	}
	if Op(r.op) == OpWatch && r.status != sent {
		return ""
	}
	for i := range cl.requests {
		if cl.requests[i].op == 0 {
			cl.requests[i] = r
			return ""
		}
	}
	return overflow
}
