package recipes

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes/internal/searchtest"
)

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
	outdated   violation = "a holder that may read older data than an earlier holder wrote"
	nameless   violation = "a request without a node"
)

// fails notes which promise was broken; "" is none. The first one counts.
func (e *environment) fails(v violation) {
	if e.bad == "" {
		e.bad = v
	}
}

// feed passes an input to a client's machine, and executes the effects.
func (e *environment) feed(w *world, c int, in Input) {
	cl := &w.clients[c]
	before := cl.machine
	r := e.run(before, in)
	if e.log != nil {
		e.log(c, e.describe(before, in))
	}
	_, e.listed = in.(Listed)
	if cl.machine = r.next; e.traits[cl.machine].state != Held {
		cl.hold &^= holdProven
	}
	for _, ef := range r.effects {
		e.fails(e.perform(w, c, ef))
	}
	e.fails(e.heed(w, c, before, in, r.effects))
	if !e.plain && cl.holds() && tellsLoss(in, e.machines[cl.machine].own.Name) {
		e.fails(untold)
	}
	if l, listed := in.(Listed); listed && !e.plain && mingles(&e.traits[before], &e.traits[cl.machine], l) {
		e.fails(mingled)
	}
	e.over(w, c)
	_, withdrawn := in.(Withdrawn)
	if e.traits[cl.machine].state == Lapsed && cl.flags&flagKeep == 0 && !withdrawn {
		e.feed(w, c, e.parting(cl, WhyLost)) // the caller reports at once that the loss came first
	}
}

// tellsLoss reports whether the input means that the owner of a node no longer holds.
func tellsLoss(in Input, own events.Name) bool {
	switch in := in.(type) {
	case Expired, LeaseRanOut:
		return true
	case Gone:
		return in.Node.Same(own)
	default:
		return false
	}
}

// over checks a machine that is over: its caller must know, and none of its nodes may be
// left.
func (e *environment) over(w *world, c int) {
	switch cl := &w.clients[c]; {
	case e.traits[cl.machine].state != Over:
	case cl.told&toldFinish == 0:
		e.fails(outOfOrder)
	case !e.ghost && w.mine(c, 0)&^cl.discard != 0:
		e.fails(leftBehind)
	}
}

// describe describes what a machine did with an input.
func (e *environment) describe(before uint32, in Input) string {
	m := e.machines[before]
	next, effects := e.step(m, in)
	text := inputText(in)
	if epoch, has := epochOf(in); has && epoch != m.epoch && e.several == nil {
		text += fmt.Sprintf(" (epoch %d)", epoch)
	}
	text += fmt.Sprintf(": %v", m.state) + also(m.state != next.state, fmt.Sprintf(" -> %v", next.state))
	return text + also(len(effects) > 0, "; "+texts(effects))
}

// perform does what the shell around the machine promises to do.
func (e *environment) perform(w *world, c int, ef Effect) violation {
	cl := &w.clients[c]
	switch ef := ef.(type) {
	case Cancel:
		cl.unwant(uint8(ef.Epoch))
		return ""
	case Pause, Warm:
		return ""
	case List:
		if v := e.watchOwn(w, c); v != "" {
			return v
		}
	case Delete:
		if cl.flags&flagKeep != 0 && cl.told&(toldLost|toldWithdrawn) == toldLost {
			return letIn
		}
		if cl.holds() {
			return letGo
		}
	case Discard:
		about, ok := e.about(w, c, ef.Node)
		cl.discard |= about
		if !ok {
			return nameless
		}
		return ""
	case Grant, Lose, Queue, Requeue, Revoke, Finish:
		return e.tell(w, c, ef)
	}
	r, ok := e.requestOf(w, c, ef)
	if !ok {
		return nameless
	}
	return e.send(w, c, r)
}

// about returns the nodes that a machine means by a name.
func (e *environment) about(w *world, c int, name events.Name) (nodes uint8, ok bool) {
	if e.several != nil {
		return e.several.about(w, c, name), true
	}
	id := e.node(name.Text)
	if id >= maxNodes {
		return 0, false
	}
	if nodes = 1 << id; w.forms[id].permit() {
		nodes |= w.ownPermits(c)
	}
	return nodes, true
}

// tell notes what is reported to the caller. After the end, nothing is.
func (e *environment) tell(w *world, c int, ef Effect) violation {
	cl := &w.clients[c]
	told := cl.told
	if told&toldFinish != 0 {
		return outOfOrder
	}
	switch ef := ef.(type) {
	case Grant:
		return e.granted(w, c, ef)
	case Lose:
		if cl.told |= toldLost; told&(toldGrant|toldLost|toldWithdrawn) != toldGrant {
			return outOfOrder
		}
	case Revoke:
		if told&(toldGrant|toldLost|toldWithdrawn) != toldGrant || !cl.revocations.tell(uint8(ef.By)) {
			return outOfOrder
		}
	case Queue:
		if told&(toldGrant|toldWithdrawn) != 0 || cl.flags&flagTry != 0 {
			return outOfOrder
		}
	case Requeue:
		if told&(toldGrant|toldWithdrawn) != 0 {
			return outOfOrder
		}
	case Finish:
		cl.told |= toldFinish
		held, lost := told&toldGrant != 0, told&toldLost != 0
		switch {
		case held && told&(toldLost|toldWithdrawn) == 0, (ef.Why == WhyLost) != lost, ef.Why == 0:
			return outOfOrder
		case ef.Why == WhyMixed && !e.mixes, (ef.Why == WhySizeMismatch || ef.Why == WhyPermits) && !e.sizes:
			return unfounded
		case ef.Why == WhySequenceEnd && e.first == 0: // no other world comes near the end of the numbers
			return unfounded
		}
	}
	return ""
}

func (e *environment) granted(w *world, c int, ef Grant) violation {
	if e.several != nil {
		return e.several.granted(w, c, ef)
	}
	cl := &w.clients[c]
	told, own := cl.told, e.node(ef.Node)
	cl.told |= toldGrant
	if v := e.takes(w, c, ef); v != "" {
		return v
	}
	shared := own < maxNodes && w.forms[own].reads() // their tokens are in no order
	node := uint8(ef.Token - tokenBase)
	token := node
	if own < maxNodes && w.forms[own].permit() && token <= own {
		// The token is either that of the place in the queue, in whose order tokens grow,
		// or that of the permits; see entersAtOnce.
		shared, token = true, own
	}
	switch {
	case told&(toldGrant|toldWithdrawn|toldStart) != toldStart:
		return outOfOrder
	case (!e.plain || e.tokens) && (token != own || !shared && node < w.token[0] && w.byHand&(1<<own) == 0):
		// If a node is deleted by hand between its claim and the answer to the claim, a
		// younger contender may be granted the lock, and may learn of it first.
		return tokenOrder
	case own < maxNodes && w.spare&(1<<own) != 0:
		return overfull
	case !e.plain && shared && w.past[0]&w.forms.blocking(own) != 0:
		return overtook
	case !e.plain && e.proof != own+1:
		return unproven
	case w.wrote != 0 && w.byHand&(1<<own) == 0 && (cl.lag >= w.wrote || !e.news && cl.seen >= w.wrote): // if it was deleted by hand, a later holder may have written
		return outdated
	}
	if !shared {
		w.token[0] = max(w.token[0], node+1)
	}
	return e.watchOwn(w, c)
}

// watchOwn arms the shell's own watch on a machine's node, unless it is armed.
func (e *environment) watchOwn(w *world, c int) violation {
	cl := &w.clients[c]
	own := e.traits[cl.machine].own
	watched := func(r request) bool { return r.op == OpWatch && r.arg == own }
	if !e.ownWatch || own == noNode || (cl.armed|cl.fired)&(1<<own) != 0 || cl.where(watched) >= 0 {
		return ""
	}
	return e.send(w, c, request{op: OpWatch, epoch: cl.epoch, arg: own})
}

// requestOf returns the request that an effect asks for. It returns false if the effect
// names no node.
func (e *environment) requestOf(w *world, c int, ef Effect) (r request, ok bool) {
	op, epoch, own := Requested(ef)
	r = request{op: op, epoch: uint8(epoch), arg: e.node(own.Text)}
	switch ef := ef.(type) {
	case Create:
		w.clients[c].known = 0
		if r.arg = uint8(ef.Attempt); ef.Back.Text != "" {
			r.mask = e.node(ef.Back.Text) + 1
		}
		return r, true
	case List:
		r.arg = uint8(ef.Attempt)
		r.flag(ef.Barrier, reqBarrier)
		r.flag(ef.Size, reqStands)
		return r, true
	}
	if e.several != nil {
		return e.several.requestOf(w, c, ef, r)
	}
	switch ef := ef.(type) {
	case Survey:
		r.arg = min(r.arg, nobody)
		r.flag(ef.Watch, reqStands)
		if !ef.Looks() {
			r.mask = 1 << partOwn
		}
		return r, true
	case Watch:
		r.arg = e.node(ef.Node.Text)
	case Claim:
		r.mask = uint8(ef.Record)
		r.flag(ef.Held, reqHeld)
	case Advance:
		past, next := e.node(ef.Past.Text), e.node(ef.Next.Text)
		if max(past, next) >= maxNodes {
			return r, false
		}
		r.own = past | next<<4
	case Enter:
		r.mask = uint8(ef.Permits) | uint8(ef.Version)<<4
		r.flag(ef.Floor, reqFloor)
	case Delete:
		r.flag(ef.Floor && w.clients[c].hold&holdTraded == 0, reqFloor)
		if ef.Clean {
			r.mask = maskClean
		}
	}
	return r, r.arg < maxNodes
}

func (e *environment) send(w *world, c int, r request) violation {
	cl, op := &w.clients[c], r.op
	if (op == OpDelete || op == OpEnter) && e.several == nil {
		w.leaves(c, r.arg, r.flags&reqFloor != 0)
	}
	switch r.status = sent; {
	case cl.conn == connNone || r.epoch != cl.epoch: // for a session that is over
		if r.status, r.flags = lost, r.gone().flags; e.several != nil {
			r.mask, r.own = 0, 0
		}
	case cl.conn == connDown:
		r.status = parked
	}
	if op == OpWatch && (r.status == lost || r.status == parked && e.several != nil) {
		return ""
	}
	switch {
	case r.status == lost:
	case op == OpCreate && cl.role&roleTakes != 0:
		e.takePlace(w, c, &r)
	case op == OpCreate && e.single:
		e.claimNode(w, c, &r)
	case op == OpAdvance && e.several == nil:
		cl.shortcut(&r)
	case op == OpList:
		e.joinsListing(w, c, &r)
	}
	// Machines of multi-locks have one request fewer in progress than others.
	if !cl.push(e.knows(w, c, r)) || e.several != nil && cl.requests[maxRequests-1].op != 0 {
		return overflow
	}
	return ""
}

// check is called in every world. At most one client may believe that it holds the lock,
// and it must be right, unless its node was deleted by hand.
func (e *environment) check(w *world) violation {
	if e.several != nil {
		return e.several.check(w)
	}
	holders := e.holdOutside(w)
	if f := w.dirs[0].floor(); f != noNode && !e.plain && w.past[0]&(w.forms.older(f)|w.forms.beside(f)) != 0 {
		return falseFloor
	}
	if v := e.tellsTruth(w); v != "" {
		return v
	}
	gone := false
	for c := range w.clients {
		cl := &w.clients[c]
		own := e.traits[cl.machine].own
		switch holds := cl.holds(); {
		case cl.told&(toldWithdrawn|toldFinish) == toldWithdrawn && !cl.lease && cl.conn == connDown:
			return keptOn
		case !e.plain && cl.told&toldLost != 0 && cl.hold&holdProven != 0:
			return unlost
		case !holds && !e.plain && e.keptApart(w, cl):
			return apart
		case !holds:
		case cl.flags&flagStrict != 0 && cl.conn == connDown:
			return stillHeld
		case own == noNode:
			return noHold
		case !e.plain && cl.hold&holdProven == 0:
			return unnoted
		case w.byHand&(1<<own) != 0:
		case holders&(1<<own) != 0: // the lock is one node
			return twoHolders
		default:
			holders |= 1 << own
			gone = gone || w.past[0]&(1<<own) == 0
		}
	}
	switch {
	case !w.compatible(holders):
		return twoHolders
	case gone && !e.plain:
		return noHold
	default:
		return ""
	}
}

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

// keptApart reports whether a reader waits although no contender ahead excludes it and
// nothing in progress could end the wait.
func (e *environment) keptApart(w *world, cl *client) bool {
	t := &e.traits[cl.machine]
	if !t.reads || t.state != Waiting || cl.conn != connUp || cl.closed != 0 || cl.lag > 0 || cl.fired != 0 || cl.requests[0].op != 0 {
		return false
	}
	return w.past[0]&(1<<t.own) != 0 && w.past[0]&w.forms.blocking(t.own) == 0
}

func (e *environment) Goal(w *world) bool {
	for c := range w.clients {
		if w.clients[c].machine != machineOver || w.mine(c, 0) != 0 {
			return false
		}
	}
	return e.several == nil || w.past[0] == 0
}

// mingles reports whether a contender with kazoo's names has seen a node that kazoo does
// not see, and continues.
func mingles(before, after *traits, in Listed) bool {
	waits := after.state == Waiting || after.state == Claiming || before.state == Looking
	if !before.kazoo || uint8(in.Epoch) != before.epoch || !waits || before.state == after.state || after.state == Over {
		return false
	}
	return slices.ContainsFunc(in.Queue, func(n events.Name) bool { return !n.Kind.Kazoo() })
}
