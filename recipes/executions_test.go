package recipes

// This file is about which requests may be executed next, and how.

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
	case e.several != nil: // other requests as one
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

// pick is what a step says about the i-th request. A part of the request stands in the bits above.
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

// executes returns the request that a server may execute next, or -1. Without a connection, requests that were sent may still
// arrive, but no answer comes back.
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
		return i // the leader has ended the session; a replica that does not know yet answers reads
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
	// A delete that is refused leaves a node, and so does a refused look-up for a create of unknown outcome. A client cannot help
	// that.
	r := cl.requests[i]
	return r.op != OpDelete && (r.op != OpList || r.flags&reqBarrier == 0)
}

// ghosts returns a create of an earlier session that the client library would send again in this one, or -1.
func (cl *client) ghosts() int {
	return cl.where(func(r request) bool { return r.op == OpCreate && r.epoch < cl.epoch && r.status == lost })
}

// mayGoStale reports whether an answer under way would still renew a session's lease.
func (w *world) mayGoStale(c int) (may bool) {
	renews := func(r request) bool {
		return r.op != 0 && r.write() && (r.status == sent || r.status == executed) && r.flags&reqStale == 0
	}
	w.each(c, func(_ int, cl *client) { may = may || cl.where(renews) >= 0 })
	return may
}
