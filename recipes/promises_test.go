package recipes

import (
	"fmt"
	"math/bits"

	"github.com/zkgrant/zkgrant/recipes/internal/searchtest"
)

// A violation says which promise was broken.
type violation = searchtest.Violation

const (
	twoHolders violation = "two holders"
	untold     violation = "a holder that was not told its loss"
	letIn      violation = "a node given up while a function runs under the lock"
	noHold     violation = "a holder whose node is gone"
	unnoted    violation = "a holder that its session does not know"
	unlost     violation = "a loser that its session takes for a holder"
	unproven   violation = "a grant that no claim proves"
	tokenOrder violation = "a token that is not greater"
	outOfOrder violation = "a caller told out of order"
	overfull   violation = "more permits taken than there are"
	overtook   violation = "a grant past an older contender that excludes it"
	apart      violation = "a reader that waits for readers only"
	unfounded  violation = "an end without a reason"
	mingled    violation = "a contender with kazoo's names beside one that kazoo does not see"
	unasked    violation = "a revoke that nobody asked for"
	unheeded   violation = "a holder that was not told its deadline"
	overstayed violation = "a holder beyond its deadline"
	letGo      violation = "a node given up before the loss is told"
	stillHeld  violation = "a strict holder without a connection"
	keptOn     violation = "a withdrawn caller that waits for a connection"
	leftBehind violation = "a node left behind"
	overwrote  violation = "overwritten data of another program"
	falseFloor violation = "a floor with an older contender"
	overflow   violation = "more requests under way than one machine should have"
	nameless   violation = "a request without a node"
	stuck                = searchtest.Stuck
	noWayOut             = searchtest.NoWayOut
)

// feed has a client's machine take an input, and carries out its effects.
func (e *environment) feed(w *world, c int, in input) {
	if e.several != nil {
		e.several.feed(w, c, e.input(in))
		return
	}
	cl := &w.clients[c]
	before := cl.machine
	in = e.rename(&w.forms, in)
	r := e.run(before, in)
	cl.machine = r.next
	if e.log != nil {
		e.log(c, e.describe(before, e.input(in), in.epoch))
	}
	e.listed = in.kind == inListed
	for _, ef := range r.effects {
		if v := e.perform(w, c, ef); v != "" && e.bad == "" {
			e.bad = v
		}
	}
	if v := e.heed(w, c, before, in, r); v != "" && e.bad == "" {
		e.bad = v
	}
	if cl.holds() && !e.plain && e.bad == "" && (in.kind == inExpired || in.kind == inLeaseRanOut || in.kind == inGone && in.arg == e.traits[cl.machine].own) {
		e.bad = untold
	}
	if in.kind == inListed && !e.plain && e.bad == "" && e.mingles(w, &e.traits[before], &e.traits[cl.machine], in) {
		e.bad = mingled
	}
	e.over(w, c)
	if e.traits[cl.machine].state == Lapsed && cl.flags&flagKeep == 0 && in.kind != inWithdrawn { // its side says at once that the loss came first
		e.feed(w, c, e.parting(cl, WhyLost))
	}
}

// over checks what is due when a machine is over: its caller knows, and none of its nodes is left.
func (e *environment) over(w *world, c int) {
	cl := &w.clients[c]
	if e.traits[cl.machine].state != Over || e.bad != "" {
		return
	}
	switch {
	case cl.told&toldFinish == 0:
		e.bad = outOfOrder
	case !e.ghost && w.mine(c, 0)&^cl.discard != 0:
		e.bad = leftBehind
	}
}

// describe tells what a machine made of an input of an epoch.
func (e *environment) describe(before uint32, in Input, epoch uint8) string {
	m := e.machines[before]
	next, effects := e.step(m, in)
	text := inputText(in)
	if _, opened := in.(Opened); epoch != 0 && !opened && Epoch(epoch) != m.epoch {
		text += fmt.Sprintf(" (epoch %d)", epoch)
	}
	text += fmt.Sprintf(": %v", m.state)
	if m.state != next.state {
		text += fmt.Sprintf(" -> %v", next.state)
	}
	for i, ef := range effects {
		text += [...]string{"; ", ", "}[min(i, 1)] + effectText(ef)
	}
	return text
}

// perform does what the shell around the machine promises to do.
func (e *environment) perform(w *world, c int, ef effect) violation {
	cl := &w.clients[c]
	switch ef.kind {
	case efCreate:
		return e.send(w, c, OpCreate, ef)
	case efCancel:
		cl.unwant(ef.epoch)
		return ""
	case efList:
		if v := e.watchOwn(w, c); v != "" {
			return v
		}
		return e.send(w, c, OpList, ef)
	case efWatch:
		return e.send(w, c, OpWatch, ef)
	case efClaim:
		return e.send(w, c, OpClaim, ef)
	case efAdvance:
		return e.send(w, c, OpAdvance, ef)
	case efSurvey:
		return e.send(w, c, OpSurvey, ef)
	case efEnter:
		return e.send(w, c, OpEnter, ef)
	case efDelete:
		if cl.flags&flagKeep != 0 && cl.told&(toldLost|toldWithdrawn) == toldLost {
			return letIn
		}
		if cl.holds() {
			return letGo
		}
		return e.send(w, c, OpDelete, ef)
	case efPause:
		return ""
	case efDiscard:
		if ef.arg >= maxNodes {
			return nameless
		}
		cl.discard |= 1 << ef.arg
		if w.forms[ef.arg].permit() {
			cl.discard |= w.ownPermits(c)
		}
		return ""
	default:
		return e.tell(w, c, ef)
	}
}

// tell notes what a caller hears. Behind the end it hears nothing.
func (e *environment) tell(w *world, c int, ef effect) violation {
	cl := &w.clients[c]
	told := cl.told
	if told&toldFinish != 0 {
		return outOfOrder
	}
	switch ef.kind {
	case efGrant:
		cl.told |= toldGrant
		if v := e.takes(w, c, ef); v != "" {
			return v
		}
		shared := ef.arg < maxNodes && w.forms[ef.arg].reads() // their tokens are not in order
		token := ef.flag
		if ef.arg < maxNodes && w.forms[ef.arg].permit() && token < ef.arg {
			// The token is that of the place in the queue, and in order there.
			shared, token = true, ef.arg
		}
		switch {
		case told&(toldGrant|toldWithdrawn|toldStart) != toldStart:
			return outOfOrder
		case (!e.plain || e.tokens) && (token != ef.arg || !shared && ef.flag < w.token[0] && w.byHand&(1<<ef.arg) == 0):
			// A node that was deleted by hand between its claim and the claim's answer makes room for a younger grant, which may be told
			// first.
			return tokenOrder
		case !e.plain && shared && w.past[0]&w.forms.blocking(ef.arg) != 0:
			return overtook
		case !e.plain && e.proof != ef.arg+1:
			return unproven
		}
		if !shared {
			w.token[0] = max(w.token[0], ef.flag+1)
		}
		return e.watchOwn(w, c)
	case efLose:
		cl.told |= toldLost
		if told&(toldGrant|toldLost|toldWithdrawn) != toldGrant {
			return outOfOrder
		}
	case efRevoke:
		if told&(toldGrant|toldLost|toldWithdrawn) != toldGrant || !cl.wishes.tell(ef.arg) {
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
		case why == WhyMixed && !e.mixes:
			return unfounded
		case why == WhySequenceEnd && e.first == 0, (why == WhySizeMismatch || why == WhyPermits) && !e.sizes:
			return unfounded // no world comes near the end of the numbers
		}
	default: // requests are dealt with above
	}
	return ""
}

// watchOwn sets the shell's own watch on a machine's node, if there is none.
func (e *environment) watchOwn(w *world, c int) violation {
	cl := &w.clients[c]
	own := e.traits[cl.machine].own
	if !e.ownWatch || own == noNode || (cl.armed|cl.fired)&(1<<own) != 0 {
		return ""
	}
	for _, r := range cl.requests {
		if Op(r.op) == OpWatch && r.arg == own {
			return ""
		}
	}
	return e.send(w, c, OpWatch, effect{epoch: cl.epoch, arg: own})
}

// send makes a request, if there is one.
func (e *environment) send(w *world, c int, op Op, ef effect) violation {
	cl := &w.clients[c]
	r := request{op: uint8(op), status: sent, epoch: ef.epoch, arg: ef.arg}
	switch {
	case op == OpList && ef.flag != 0:
		r.flags = reqBarrier
	case op == OpDelete && ef.flag != 0 && (cl.tenure.Floor() || e.shell == shellKeepsWord):
		r.flags = reqFloor
	case op == OpClaim:
		r.mask, r.flags = ef.past, ef.flag*reqHeld
	case op == OpAdvance && (ef.past >= maxNodes || ef.next >= maxNodes):
		return nameless
	case op == OpAdvance:
		r.own = ef.past | ef.next<<4
	}
	if op != OpCreate && op != OpList && op != OpSurvey && ef.arg >= maxNodes {
		return nameless
	}
	if op == OpDelete {
		r.mask = ef.past
	}
	if op == OpDelete || op == OpEnter {
		w.leaves(c, ef.arg, r.flags&reqFloor != 0 || op == OpEnter && ef.flag != 0)
	}
	asks(&r, op, ef)
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
	switch {
	case r.status == lost || e.several != nil:
	case op == OpCreate && cl.role&roleTakes != 0:
		e.takePlace(w, c, &r)
	case op == OpCreate && e.single:
		e.claimNode(w, c, &r)
	case op == OpAdvance:
		cl.shortcut(&r)
	case op == OpList:
		e.joinsListing(w, c, &r)
	}
	if r.status != lost && r.status != executed && e.several == nil {
		cl.tenure = cl.tenure.Asked(op, op, op == OpClaim && ef.flag != 0)
	}
	if e.several == nil {
		r = e.knows(w, c, r)
	}
	if !cl.push(r) {
		return overflow
	}
	return ""
}

// check holds in every world: at most one client believes that it holds the lock, and it is right. Exception: its node was deleted
// by hand.
func (e *environment) check(w *world) {
	if e.several != nil {
		e.several.check(w)
		return
	}
	holders := e.holdOutside(w)
	if f := w.dirs[0].floor(); f != noNode && !e.plain && w.past[0]&(w.forms.older(f)|w.forms.beside(f)) != 0 {
		e.bad = falseFloor
		return
	}
	if v := e.tellsTruth(w); v != "" {
		e.bad = v
		return
	}
	gone := false
	for c := range w.clients {
		cl := &w.clients[c]
		if cl.told&(toldWithdrawn|toldFinish) == toldWithdrawn && !cl.lease && cl.conn == connDown {
			e.bad = keptOn
			return
		}
		if !e.plain && cl.told&toldLost != 0 && cl.tenure.Holds() {
			e.bad = unlost
			return
		}
		if !cl.holds() {
			if !e.plain && e.keptApart(w, cl) {
				e.bad = apart
				return
			}
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
		if !e.plain && !cl.tenure.Holds() {
			e.bad = unnoted
			return
		}
		if w.byHand&(1<<own) != 0 {
			continue
		}
		if holders&(1<<own) != 0 {
			e.bad = twoHolders // the lock is one node
			return
		}
		holders |= 1 << own
		gone = gone || w.past[0]&(1<<own) == 0
	}
	switch {
	case !w.compatible(holders):
		e.bad = twoHolders
	case gone && !e.plain:
		e.bad = noHold
	}
}

// holdOutside returns the nodes of holders that are not clients.
func (e *environment) holdOutside(w *world) (holders uint8) {
	if e.permits {
		return w.outsiders() & w.forms.permits()
	}
	for m := w.outsiders(); m != 0; m &= m - 1 {
		if id := uint8(bits.TrailingZeros8(m)); w.past[0]&w.forms.blocking(id) == 0 {
			holders |= 1 << id
		}
	}
	return holders
}

// compatible tells whether the owners of some nodes may hold at the same time.
func (w *world) compatible(holders uint8) bool {
	for ; holders&(holders-1) != 0; holders &= holders - 1 {
		a := uint8(bits.TrailingZeros8(holders))
		for rest := holders & (holders - 1); rest != 0; rest &= rest - 1 {
			if !w.forms.together(a, uint8(bits.TrailingZeros8(rest))) {
				return false
			}
		}
	}
	return true
}

// keptApart tells whether a reader waits though no contender ahead excludes it, and nothing is under way that could end the wait.
func (e *environment) keptApart(w *world, cl *client) bool {
	t := &e.traits[cl.machine]
	if !t.reads || t.state != Waiting || cl.conn != connUp || cl.closed != 0 || cl.lag > 0 || cl.fired != 0 || cl.requests[0].op != 0 {
		return false
	}
	return w.past[0]&(1<<t.own) != 0 && w.past[0]&w.forms.blocking(t.own) == 0
}

// Goal tells whether all is over and nothing is left.
func (e *environment) Goal(w *world) bool {
	for c := range w.clients {
		if w.clients[c].machine != machineOver || w.mine(c, 0) != 0 {
			return false
		}
	}
	return e.several == nil || w.past[0] == 0
}

// mingles tells whether a contender with kazoo's names has seen a node that kazoo does not see, and goes on.
func (e *environment) mingles(w *world, before, after *traits, in input) bool {
	if !before.kazoo || in.epoch != before.epoch || after.state != Waiting && after.state != Claiming && before.state != Looking {
		return false
	}
	for m := in.mask; m != 0; m &= m - 1 {
		if !w.forms[bits.TrailingZeros8(m)].kazoo() {
			return before.state != after.state && after.state != Over
		}
	}
	return false
}
