package recipes

import "math/bits"

// This file brings a world into its normal form: it forgets whatever has no influence any
// more, so that worlds with the same future are the same.

func (e *environment) normalise(w *world) {
	if e.several != nil {
		e.several.normalise(w)
		return
	}
	var owns, named uint8
	var asked uint8 // nodes that the floor may still be compared with
	need := uint8(0)
	for c := range w.clients {
		e.normaliseClient(w, c)
	}
	for c := range w.clients {
		cl := &w.clients[c]
		if w.leads(c) {
			e.normaliseSession(w, c)
			e.unlisted(w, c)
		}
		t := &e.traits[cl.machine]
		if t.own != noNode {
			owns |= 1 << t.own
		}
		asked |= t.older
		named |= cl.armed | cl.fired | cl.discard
		need = max(need, cl.lag, cl.seen)
		for i := range cl.requests {
			r := &cl.requests[i]
			if !e.late && r.status == sent {
				r.age = 0 // only a part that was executed before a cut counts
			}
			switch r.op {
			case OpList:
				asked |= r.mask
				if id := r.own & 0xf; id != 0 {
					named |= 1 << (id - 1)
				}
			case OpCreate:
				if r.own != 0 {
					owns |= 1 << (r.own - 1) // the answer may grant it
				}
				if r.mask != 0 && (r.own == 0 || !e.permits) {
					named |= 1 << (r.mask - 1)
				}
			case OpEnter:
				named |= 1 << (r.arg & 7)
				if r.own != 0 {
					owns |= 1 << (r.own - 1)
				}
			case OpAdvance:
				named |= 1<<(r.own&7) | 1<<(r.own>>4&7) | 1<<(r.arg&7)
			default:
				named |= 1 << (r.arg & 7)
			}
		}
	}
	if w.wrote > need {
		w.wrote = 0
	}
	w.requested &= owns
	clear(w.records[1:]) // the record is read only after a write
	exist := w.past[0]
	w.spare &= exist | owns
	for i := range w.past {
		if uint8(i) > need {
			w.past[i], w.dirs[i], w.sizes[i], w.records[i] = 0, 0, 0, 0
		}
		exist |= w.past[i]
	}
	if e.warms() {
		owns |= exist | asked | named // a listing may grant a node that it has
	}
	w.byHand &= owns
	for i := range w.nodes {
		if exist&(1<<i) == 0 {
			w.nodes[i] = node{}
		}
	}
	if !w.forms.plain() {
		for i := range w.forms {
			if (exist|owns|asked|named)&(1<<i) == 0 {
				w.forms[i] = 0
			}
		}
	}
	// A floor whose node no client remembers or can still list counts as none.
	asked |= exist
	for i, d := range w.dirs {
		if f := d.floor(); f != noNode && asked&(1<<f) == 0 {
			w.dirs[i] = d.with(dataMarker)
		}
	}
}

func (e *environment) normaliseClient(w *world, c int) {
	cl := &w.clients[c]
	cl.discard &= w.past[0]
	if cl.told&(toldGrant|toldFinish) != toldGrant {
		cl.told &^= toldOwed
	}
	if cl.told&toldFinish != 0 {
		cl.revocations = 0 // the clock is stopped
	}
	t := &e.traits[cl.machine]
	if t.state >= Held {
		cl.told &^= toldPlace
	}
	if !e.whole && (cl.requests[0].op != 0 || cl.armed|cl.fired|cl.look != 0) {
		e.unheard(cl, t)
	}
	if t.state == Over && cl.requests[0].op == 0 && cl.discard == 0 || cl.told == 0 && cl.role&roleTakes != 0 && w.never(c) {
		*cl = cl.ended()
	}
}

// normaliseSession forgets what all clients of a session share, if it has no influence on
// any of them.
func (e *environment) normaliseSession(w *world, c int) {
	sees, stale := false, false
	for m := w.mates(c); m != 0; m &= m - 1 {
		cl := &w.clients[bits.TrailingZeros8(m)]
		sees = sees || e.whole || e.writes || !e.blind(cl)
		stale = stale || cl.stale()
	}
	for m := w.mates(c); m != 0; m &= m - 1 {
		cl := &w.clients[bits.TrailingZeros8(m)]
		if !sees {
			cl.lag, cl.seen = 0, 0
		}
		if cl.conn != connUp {
			cl.lag = 0
		}
		if cl.conn == connNone || cl.conn == connUp && w.left.cut == 0 {
			cl.seen = 0 // only a new connection uses it
		}
		if w.left.lapse == 0 && w.left.expire == 0 && !stale && !e.warms() {
			cl.lease = true // it is no longer used
		}
	}
}

// blind reports whether the state of its replica no longer matters to a client.
// TestExploreLosesNothing checks this, and what unheard leaves out. Seeded bugs are
// explored without either. Nothing is left out that another client, the leader or the
// caller could notice.
func (e *environment) blind(cl *client) bool {
	switch e.traits[cl.machine].state {
	case Held, Lapsed, Releasing, Over:
		// If there is another request, it is a write. After that, the client reads only
		// through its own watch.
		return !cl.reads()
	case Creating, Recovering, Claiming:
		// A write will bring the replica up to date. Once it was executed, the replica
		// may fall behind again before the answer arrives.
		return !cl.reads() && cl.find(executed) < 0
	default:
		return false // its next news depends on its replica
	}
}

// reads reports whether the state of the client's replica matters to it, because of a
// watch or an answer in progress.
func (cl *client) reads() bool {
	return cl.armed|cl.fired|cl.look != 0 || cl.where(func(r request) bool { return r.op != 0 && r.read() }) >= 0
}

// unheard drops watches and requests whose results the machine will ignore.
//
//   - If a request of a past epoch has an unknown outcome, that changes nothing, unless
//     the request may still be executed.
//   - A machine that is releasing waits only for its delete. One that is over waits for
//     nothing.
//   - A holder watches only its own node.
func (e *environment) unheard(cl *client, t *traits) {
	hears := uint8(0xff)
	switch t.state {
	case Releasing, Over:
		hears = 0
	case Held, Lapsed:
		if hears = 1 << (t.own & 7); e.several != nil {
			hears = cl.known
		}
	default:
	}
	if t.state >= Held {
		cl.look = 0
	}
	cl.armed &= hears
	cl.fired &= hears
	cl.forget(func(r request) bool {
		op, dead := r.op, r.status == lost && r.epoch != t.epoch
		switch {
		case op == 0, (op == OpCreate || op == OpEnter) && (e.ghost || !dead):
			return false
		case op == OpWatch && hears&(1<<(r.arg&7)) == 0:
			return true
		default:
			return dead || e.several == nil && hears == 0 && (op != OpDelete || t.state == Over)
		}
	})
}
