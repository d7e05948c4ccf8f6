package recipes

// execute makes a server execute a request, or a part of it. Reads see the client's
// replica.
func (e *environment) execute(w *world, c, i int, part uint8, plain bool) {
	cl := &w.clients[c]
	zombie := cl.conn != connUp
	r := &cl.requests[i]
	done := true
	switch op := r.op; {
	case e.several != nil:
		e.several.transact(w, c, r)
	case op == OpCreate, op == OpDelete, op == OpClaim, op == OpEnter:
		if !zombie && (e.claimTogether(w, c, r) || e.turnsOver(w, c, r, plain)) {
			return
		}
		done = e.carryOut(w, c, r, zombie, plain)
	case op == OpAdvance:
		done = !zombie && e.executeAdvance(w, c, r, Part(part), plain)
	case op == OpSurvey:
		done = !zombie && e.executeSurvey(w, c, r, part)
	case op == OpList:
		if r.flags&reqStands != 0 && !zombie {
			e.sized(w, c)
		}
		if r.flags&reqBarrier != 0 {
			e.barrier(w, c, r)
		}
	}
	if zombie {
		*r = r.gone()
		return
	}
	if (r.op != OpAdvance || e.several != nil) && r.write() {
		w.raise(c)
	}
	view := w.past[cl.lag]
	if e.several != nil {
		done = e.several.look(w, c, r, part-1, view)
	}
	if !done {
		return
	}
	if e.shares(cl, r) {
		e.listForAll(w, c)
		return
	}
	r.status = executed
	switch {
	case r.op == OpList && e.several != nil: // see look
	case r.op == OpWatch:
		cl.arm(1<<(r.arg&7), view)
		cl.drop(i)
	default:
		if r.age = cl.lag; r.op == OpList {
			e.list(w, c, r, view)
		}
	}
}

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

// handoff returns the progress of an advance, as noted in its request.
func (r request) handoff() Handoff {
	return Handoff{done: r.mask, free: r.flags&reqFloor != 0, stands: r.flags&reqStands != 0, failed: r.flags&reqMissing != 0}
}

func (r request) keeping(a Handoff) request {
	r.mask, r.flags = a.done, r.flags&^(reqFloor|reqStands|reqMissing)
	r.flag(a.free, reqFloor)
	r.flag(a.stands, reqStands)
	r.flag(a.failed, reqMissing)
	return r
}

// executions appends the ways in which a server may execute a request next.
func (e *environment) executions(w *world, cl *client, r request, s step, steps []step) []step {
	switch {
	case e.several != nil && r.op == OpList: // one directory at a time, in any order
		for _, d := range e.several.roles[s.client].dirs {
			if r.own&(1<<d) == 0 {
				steps = append(steps, step{kind: s.kind, client: s.client, node: s.node | (d+1)<<4})
			}
		}
		return steps
	case e.several != nil: // other requests are executed as a whole
	case r.op == OpAdvance && cl.conn == connUp:
		cl.shortcut(&r)
		for part := PartFloor; part <= PartClaim; part++ {
			if !r.handoff().Wants(part) {
				continue
			}
			steps = append(steps, step{kind: s.kind, client: s.client, node: s.node | uint8(part)<<4})
			if part == PartFloor && e.either {
				steps = append(steps, step{kind: stepExecutePlain, client: s.client, node: s.node | uint8(part)<<4})
			}
		}
		return steps
	case r.op == OpSurvey && cl.conn == connUp:
		for part := partSize; part <= partOwn; part++ {
			if r.mask&(1<<part) == 0 {
				steps = append(steps, step{kind: s.kind, client: s.client, node: s.node | part<<4})
			}
		}
		return steps
	case w.left.once > 0 && r.op == OpCreate && r.mask == 0: // the session may expect that the semaphore is not free
		steps = append(steps, step{kind: stepExecutePlain, client: s.client, node: s.node})
	case e.either && cl.knows.ours() != 0 && (r.op == OpCreate || r.flags&reqFloor != 0):
		steps = append(steps, step{kind: stepExecutePlain, client: s.client, node: s.node})
	}
	return append(steps, s)
}

// pick returns what a step says about the i-th request. The bits above are for a part of
// the request.
func pick(i int, first bool) uint8 {
	if first {
		return 0
	}
	return uint8(i) + 1
}

// picked returns the request that a step of execution names, and its part.
func (e *environment) picked(cl *client, s step) (i int, part uint8) {
	i = int(s.node & 0xf)
	if i == 0 {
		return e.executes(cl), s.node >> 4
	}
	return i - 1, s.node >> 4
}

// executes returns the request that a server may execute next, or -1. Without a
// connection, requests that were sent may still arrive, but no answer comes back.
func (e *environment) executes(cl *client) int {
	i := cl.where(func(r request) bool {
		return r.status == sent && !(r.flags&reqNext != 0 && e.shares(cl, &r))
	})
	if i < 0 || cl.conn == connUp && cl.closed == 0 {
		return i
	}
	r := cl.requests[i]
	switch {
	case cl.conn == connUp && e.several == nil && !cl.knowsEnd() && !r.write():
		return i // the leader has ended the session, but a replica that does not know yet answers reads
	case cl.conn == connUp || cl.closed != 0:
		return -1
	case e.several == nil:
		return cl.where(func(r request) bool { return r.status == sent && r.write() })
	case r.write() && r.op != OpAdvance && r.op != OpList:
		return i
	default:
		return -1
	}
}

// refusable reports whether a server may refuse the next request.
func (e *environment) refusable(cl *client) bool {
	i := cl.find(sent)
	if i < 0 {
		return false
	}
	// A delete that is refused leaves a node, and so does a refused look-up for a create
	// of unknown outcome. A client cannot help that.
	r := cl.requests[i]
	return r.op != OpDelete && (r.op != OpList || r.flags&reqBarrier == 0)
}

// ghosts returns the index of a create of an earlier session that the client library
// would send again in this one, or -1.
func (cl *client) ghosts() int {
	return cl.where(func(r request) bool { return r.op == OpCreate && r.epoch < cl.epoch && r.status == lost })
}

// mayGoStale reports whether an answer in progress would still renew a session's lease.
func (w *world) mayGoStale(c int) (may bool) {
	renews := func(r request) bool {
		return r.op != 0 && r.write() && (r.status == sent || r.status == executed) && r.flags&reqStale == 0
	}
	w.each(c, func(_ int, cl *client) { may = may || cl.where(renews) >= 0 })
	return may
}
