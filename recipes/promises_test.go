package recipes

import (
	"fmt"
	"strings"
)

// A violation says which promise was broken.
type violation string

const (
	twoHolders violation = "two live holders"
	untold     violation = "a holder that was not told its loss"
	letIn      violation = "a node given up while a function runs under the lock"
	noHold     violation = "a holder whose node is gone"
	unproven   violation = "a grant that no claim proves"
	tokenOrder violation = "a token that is not greater"
	outOfOrder violation = "a caller told out of order"
	stillHeld  violation = "a holder who asked to lose the lock with the connection, and has none"
	keptOn     violation = "a caller who gave up and is kept waiting for a connection that may never come"
	leftBehind violation = "a node left behind"
	overwrote  violation = "data overwritten that is somebody else's"
	falseFloor violation = "a floor that somebody stands below"
	overflow   violation = "more requests under way than one machine should have"
	nameless   violation = "a request about no node"
	stuck      violation = "stuck"
	noWayOut   violation = "no way to the end"
)

// feed lets a client's machine take an input and carries its effects out.
func (e *environment) feed(w *world, c int, in input) {
	cl := &w.clients[c]
	before := cl.machine
	r := e.run(before, in)
	cl.machine = r.next
	if e.log != nil {
		e.log(c, e.describe(before, in, r))
	}
	for _, ef := range r.effects {
		if v := e.perform(w, c, ef); v != "" && e.bad == "" {
			e.bad = v
		}
	}
	m := &e.machines[cl.machine]
	if cl.holds() && !e.plain && e.bad == "" && (in.kind == inExpired || in.kind == inLeaseRanOut || in.kind == inGone && in.arg == e.traits[cl.machine].own) {
		e.bad = untold
	}
	if m.state == Over && e.bad == "" {
		switch {
		case cl.told&toldFinish == 0:
			e.bad = outOfOrder
		case !e.ghost && w.mine(c, 0)&^cl.discard != 0:
			e.bad = leftBehind
		}
	}
}

// describe tells what a machine made of an input.
func (e *environment) describe(before uint32, in input, r *result) string {
	from, to := e.machines[before].state, e.machines[r.next].state
	text := fmt.Sprintf("%s: %v", inputText(e.input(in)), from)
	if in.epoch != 0 && in.kind != inOpened && Epoch(in.epoch) != e.machines[before].epoch {
		text = fmt.Sprintf("%s (epoch %d): %v", inputText(e.input(in)), in.epoch, from)
	}
	if from != to {
		text += fmt.Sprintf(" -> %v", to)
	}
	if len(r.texts) > 0 {
		text += "; " + strings.Join(r.texts, ", ")
	}
	return text
}

// perform does what the shell around the machine promises to do.
func (e *environment) perform(w *world, c int, ef effect) violation {
	cl := &w.clients[c]
	switch ef.kind {
	case efCreate:
		return e.send(cl, OpCreate, ef)
	case efList:
		if v := e.watchOwn(cl); v != "" {
			return v
		}
		return e.send(cl, OpList, ef)
	case efWatch:
		return e.send(cl, OpWatch, ef)
	case efClaim:
		return e.send(cl, OpClaim, ef)
	case efAdvance:
		return e.send(cl, OpAdvance, ef)
	case efDelete:
		if cl.flags&flagKeep != 0 && cl.told&(toldLost|toldWithdrawn) == toldLost {
			return letIn
		}
		return e.send(cl, OpDelete, ef)
	case efPause:
		return ""
	case efDiscard:
		if ef.arg >= maxNodes {
			return nameless
		}
		cl.discard |= 1 << ef.arg
		return ""
	default:
		return e.tell(w, cl, ef)
	}
}

// tell notes what a caller hears. After the end nothing is said.
func (e *environment) tell(w *world, cl *client, ef effect) violation {
	told := cl.told
	if told&toldFinish != 0 {
		return outOfOrder
	}
	switch ef.kind {
	case efGrant:
		cl.told |= toldGrant
		switch {
		case told&(toldGrant|toldWithdrawn|toldStart) != toldStart:
			return outOfOrder
		case (!e.plain || e.tokens) && (ef.flag != ef.arg || ef.flag < w.token && w.byHand&(1<<ef.arg) == 0):
			// A node that was taken away by hand between its claim and the claim's
			// answer makes room for a younger grant, which may be told first.
			return tokenOrder
		case !e.plain && e.proof != ef.arg+1:
			return unproven
		}
		w.token = max(w.token, ef.flag+1)
		return e.watchOwn(cl)
	case efLose:
		cl.told |= toldLost
		if told&(toldGrant|toldLost|toldWithdrawn) != toldGrant {
			return outOfOrder
		}
	case efQueue, efRequeue:
		if told&(toldGrant|toldWithdrawn) != 0 || ef.kind == efQueue && cl.flags&flagTry != 0 {
			return outOfOrder
		}
	case efFinish:
		cl.told |= toldFinish
		why := Why(ef.arg)
		held := told&toldGrant != 0
		switch {
		case held && told&(toldLost|toldWithdrawn) == 0, why == WhyLost != (told&toldLost != 0), why == 0:
			return outOfOrder
		}
	default: // requests were dealt with before
	}
	return ""
}

// watchOwn sets the shell's own watch on a machine's node, if it has none.
func (e *environment) watchOwn(cl *client) violation {
	own := e.traits[cl.machine].own
	if !e.ownWatch || own == noNode || (cl.armed|cl.fired)&(1<<own) != 0 {
		return ""
	}
	for _, r := range cl.requests {
		if Op(r.op) == OpWatch && r.arg == own {
			return ""
		}
	}
	return e.send(cl, OpWatch, effect{epoch: cl.epoch, arg: own})
}

// send puts a request on its way, if there is one.
func (e *environment) send(cl *client, op Op, ef effect) violation {
	r := request{op: uint8(op), status: sent, epoch: ef.epoch, arg: ef.arg}
	switch {
	case op == OpList && ef.flag != 0:
		r.flags = reqBarrier
	case op == OpDelete && ef.flag != 0:
		r.flags = reqFloor
	case op == OpAdvance && (ef.past >= maxNodes || ef.next >= maxNodes):
		return nameless
	case op == OpAdvance:
		r.own = ef.past | ef.next<<4
	}
	if op != OpCreate && op != OpList && ef.arg >= maxNodes {
		return nameless
	}
	switch {
	case cl.conn == connNone || ef.epoch != cl.epoch:
		if op == OpWatch {
			return ""
		}
		r.status = lost // meant for a session that is over
		r.flags = 0
	case cl.conn == connDown:
		r.status = parked
	}
	if !cl.push(r) {
		return overflow
	}
	return ""
}

// check holds in every world: at most one may believe that it holds the lock,
// and whoever does is right, unless its node was taken away by hand.
func (e *environment) check(w *world) {
	holders := 0
	if oldest := w.past[0] & -w.past[0]; oldest&w.outsiders() != 0 {
		holders++
	}
	if f := w.dirs[0].floor(); f != noNode && !e.plain && w.past[0]&(1<<f-1) != 0 {
		e.bad = falseFloor
		return
	}
	gone := false
	for c := range w.clients {
		cl := &w.clients[c]
		if cl.told&(toldWithdrawn|toldFinish) == toldWithdrawn && !cl.lease && cl.conn == connDown {
			e.bad = keptOn
			return
		}
		if !cl.holds() {
			continue
		}
		if cl.flags&flagStrict != 0 && cl.conn == connDown {
			e.bad = stillHeld
			return
		}
		own := e.traits[cl.machine].own
		if own == noNode {
			e.bad = noHold
			return
		}
		if w.byHand&(1<<own) != 0 {
			continue
		}
		holders++
		gone = gone || w.past[0]&(1<<own) == 0
	}
	switch {
	case holders > 1:
		e.bad = twoHolders
	case gone && !e.plain:
		e.bad = noHold
	}
}

// goal tells whether all is over and nothing is left.
func (e *environment) goal(w *world) bool {
	for c := range w.clients {
		if w.clients[c].machine != machineOver || w.mine(c, 0) != 0 {
			return false
		}
	}
	return true
}
