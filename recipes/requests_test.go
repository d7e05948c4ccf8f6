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
	case OpCreate, OpDelete, OpClaim, OpEnter:
		if e.readsEarly(w, c, r) {
			return
		}
		done = e.carryOut(w, c, r, zombie, plain)
	case OpAdvance:
		done = !zombie && e.executeAdvance(w, c, r, part, plain)
	case OpSurvey:
		done = !zombie && e.executeSurvey(w, c, r, part)
	case OpList:
		if r.flags&reqStands != 0 && !zombie {
			e.sized(w, c)
		}
		if r.flags&reqBarrier != 0 {
			e.barrier(w, c, r)
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
		e.proves(w, c, r)
		w.raise(c)
	}
	return r.mask == allParts
}
