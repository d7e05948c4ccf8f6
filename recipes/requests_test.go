package recipes

// What servers do about requests.

// execute lets a server execute a request, or a part of it. Reads see the client's
// replica.
func (e *environment) execute(w *world, c, i int, part uint8, plain bool) {
	if e.several != nil {
		e.several.execute(w, c, i, part-1)
		return
	}
	cl := &w.clients[c]
	zombie := cl.conn != connUp
	r := &cl.requests[i]
	done := true
	bit := uint8(1) << (r.arg & 7)
	switch Op(r.op) {
	case OpCreate:
		done = e.executeCreate(w, c, r, zombie, plain)
	case OpClaim:
		if e.readsEarly(w, c, r) {
			return
		}
		w.claim(r)
		e.claims(w, r)
	case OpDelete:
		done = e.executeUnrecorded(w, c, r, plain)
	case OpAdvance:
		done = !zombie && e.executeAdvance(w, c, r, part, plain)
	case OpSurvey:
		done = !zombie && e.executeSurvey(w, c, r, part)
	case OpEnter:
		done = e.executeEnter(w, c, r)
	case OpList:
		if r.flags&reqStands != 0 && !zombie {
			e.sized(w, c)
		}
	default: // a read, for which see below
	}
	if zombie {
		*r = request{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
		return
	}
	if Op(r.op) != OpAdvance && r.write() {
		w.raise(c)
	}
	if !done {
		return
	}
	r.status, r.age = executed, cl.lag
	view := w.past[cl.lag]
	switch Op(r.op) {
	case OpList:
		e.list(w, c, r, view)
		e.listForOthers(w, c)
	case OpWatch:
		if view&bit != 0 {
			cl.armed |= bit
		} else {
			cl.fired |= bit
		}
		cl.drop(i)
	default: // a write
	}
}

// claim checks a request's own node at the leader.
func (w *world) claim(r *request) {
	bit := uint8(1) << (r.arg & 7)
	switch {
	case w.past[0]&bit == 0, w.forms[r.arg&7]&formMask == formRest:
		r.flags |= reqMissing
	case w.past[0]&w.forms.blocking(r.arg&7) == 0:
		r.flags |= reqFirst
	}
}

// executeCreate makes the directory if there is none, and at the next call the node;
// with a marker if the client takes the directory for one of ours. The answer to
// that tells whether the node is alone.
func (e *environment) executeCreate(w *world, c int, r *request, zombie, plain bool) (done bool) {
	cl := &w.clients[c]
	switch {
	case cl.role&roleTakes != 0:
		e.createInPlace(w, c, r)
		return true
	case r.flags&reqHalf != 0: // the seeded bug: it counts now
		if view := w.past[cl.lag]; view&(view-1) == 0 && view != 0 {
			r.flags |= reqStands
		}
		r.flags &^= reqHalf
		return true
	case w.dirs[0] == 0 && zombie:
		return true // and nobody hears that there is no directory
	case w.dirs[0] == 0:
		w.born(true)
		w.read(c, w.dirs[0])
		return false
	}
	first := w.past[0]&^w.forms.leases() == 0
	if e.single && !first {
		r.flags |= reqMissing // or rather, one too many
		return true
	}
	var data directory
	if !plain && !e.single && e.writes(w, cl) {
		data = dataMarker
	}
	known := cl.knows.ours() == w.dirs[0].identity()
	r.own = 1 + w.create(node{owner: uint8(c) + 1, epoch: cl.epoch, attempt: r.arg}, cl.form(), data)
	if first {
		r.flags |= reqFirst
	}
	switch {
	case e.shell == shellCounts && !zombie:
		r.flags |= reqHalf
		return false
	case e.single && !plain:
		r.flags |= reqStands
	case data == 0 || zombie:
	default:
		if first && known {
			r.flags |= reqStands
		}
		w.saw(c, w.dirs[0])
	}
	return true
}

// executeDelete removes the own node, and leaves a floor if it should and the client
// takes the directory for one of ours.
func (e *environment) executeDelete(w *world, c int, r *request, plain bool) (done bool) {
	cl := &w.clients[c]
	bit := uint8(1) << (r.arg & 7)
	floor := dataFloor + directory(r.arg)
	if w.forms[r.arg&7].lease() {
		e.giveBack(w, c, bit)
		return true
	}
	if e.shell == shellNumbers {
		floor = dataFloor + directory(w.numberOf(r.arg))
	}
	switch {
	case r.flags&reqHalf != 0: // the seeded bug: it writes the floor now
		r.flags &^= reqHalf
		if w.dirs[0] != 0 {
			w.commit(w.past[0], w.dirs[0].with(floor))
		}
	case w.past[0]&bit == 0:
	case plain && e.shell == shellGivesUp:
	case r.flags&reqFloor == 0, plain, e.shell == shellKeepsWord && !cl.tenure.Floor():
		w.without(bit)
	case e.shell == shellApart || e.shell == shellNumbers:
		w.without(bit)
		r.flags |= reqHalf
		return false
	case e.writes(w, cl):
		w.commit(w.past[0]&^bit, w.dirs[0].with(floor))
	default:
		w.without(bit)
	}
	return true
}

// executeAdvance does one part, and reports whether it was the last.
func (e *environment) executeAdvance(w *world, c int, r *request, part uint8, plain bool) (done bool) {
	cl := &w.clients[c]
	cl.shortcut(r)
	for part == 0 || r.mask&(1<<part) != 0 {
		part++ // whichever has not been done
	}
	r.mask |= 1 << part
	defer func() { r.age = cl.lag }()
	switch part {
	case partFloor:
		d := w.dirs[cl.lag]
		if !plain && e.floorIs(w, d, r.own&0xf) {
			r.flags |= reqFloor
		}
		w.read(c, d)
	case partWatch:
		if bit := uint8(1) << (r.own >> 4); w.past[cl.lag]&bit != 0 {
			r.flags |= reqStands
			if e.shell != shellUnwatched {
				cl.armed |= bit
			}
		}
	case partClaim:
		w.claim(r)
		w.raise(c)
	}
	return r.mask == allParts
}
