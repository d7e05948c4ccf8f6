package recipes

// This file is about what servers do with requests.

// execute has a server execute a request, or a part of it. Reads see the client's replica.
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
	switch r.op {
	case OpCreate, OpDelete, OpClaim, OpEnter:
		if !zombie && (e.claimTogether(w, c, r) || e.turnsOver(w, c, r, plain)) {
			return
		}
		done = e.carryOut(w, c, r, zombie, plain)
	case OpAdvance:
		done = !zombie && e.executeAdvance(w, c, r, Part(part), plain)
	case OpSurvey:
		done = !zombie && e.executeSurvey(w, c, r, part)
	case OpList:
		if r.flags&reqStands != 0 && !zombie {
			e.sized(w, c)
		}
		if r.flags&reqBarrier != 0 {
			e.barrier(w, c, r)
		}
	default: // a read: see below
	}
	if zombie {
		*r = r.gone()
		return
	}
	if r.op != OpAdvance && r.write() {
		w.raise(c)
	}
	if !done {
		return
	}
	if e.shares(cl, r) {
		e.listForAll(w, c)
		return
	}
	r.status, r.age = executed, cl.lag
	view := w.past[cl.lag]
	switch r.op {
	case OpList:
		e.list(w, c, r, view)
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

// executeAdvance executes one part, and reports whether it was the last.
func (e *environment) executeAdvance(w *world, c int, r *request, part Part, plain bool) (done bool) {
	cl := &w.clients[c]
	cl.shortcut(r)
	for part == 0 || !r.handoff().Wants(part) {
		part++ // the part that may be asked
	}
	switch part {
	case PartFloor:
		d := w.dirs[cl.lag]
		says := d.says()
		if plain {
			says = DirectoryData{}
		}
		*r = r.keeping(r.handoff().Read(says, int64(r.own&0xf)+1))
		w.read(c, d)
	case PartNext:
		bit := uint8(1) << (r.own >> 4)
		stands := w.past[cl.lag]&bit != 0
		if stands {
			cl.armed |= bit
		}
		*r = r.keeping(r.handoff().Looked(stands))
	case PartClaim:
		*r = r.keeping(r.handoff().Claimed(e.claims(w, c, r)))
		w.raise(c)
	}
	r.age = cl.lag
	a := r.handoff()
	return !a.Wants(PartFloor) && !a.Wants(PartClaim) && !a.Wants(PartNext)
}

// handoff is how far an advance has come, as noted in its request.
func (r request) handoff() Handoff {
	return Handoff{done: r.mask, free: r.flags&reqFloor != 0, stands: r.flags&reqStands != 0, failed: r.flags&reqMissing != 0}
}

func (r request) keeping(a Handoff) request {
	r.mask, r.flags = a.done, r.flags&^(reqFloor|reqStands|reqMissing)
	if a.free {
		r.flags |= reqFloor
	}
	if a.stands {
		r.flags |= reqStands
	}
	if a.failed {
		r.flags |= reqMissing
	}
	return r
}
