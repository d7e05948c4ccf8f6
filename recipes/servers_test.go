package recipes

// do executes a step of servers, connections, callers or other processes.
func (e *environment) do(w *world, s step) {
	c := int(s.client)
	cl := &w.clients[c]
	switch s.kind {
	case stepStart:
		cl.told |= toldStart
		e.feed(w, c, cl.started())
	case stepExecute, stepExecutePlain:
		i, part := e.picked(cl, s)
		e.execute(w, c, i, part, s.kind == stepExecutePlain)
	case stepAnswer:
		i := cl.find(executed)
		if s.node > 0 {
			i = int(s.node) - 1
		}
		e.answer(w, c, i)
	case stepFail:
		e.fail(w, c)
	case stepGone:
		cl.fired &^= 1 << s.node
		if e.several != nil {
			e.feed(w, c, Gone{Epoch: Epoch(cl.epoch), Node: e.several.told(w, c, s.node)})
			return
		}
		if e.traits[cl.machine].own == s.node {
			e.heardOwn(w, c, Gone{})
		}
		e.feed(w, c, Gone{Epoch(cl.epoch), e.nameOf(w, s.node)})
	case stepChanged:
		cl.look &^= lookFired
		e.feed(w, c, Changed{Epoch(cl.epoch)})
	case stepListed:
		e.listingEnds(w, c)
	case stepCatchUp:
		w.catchUp(c)
	case stepReconnect:
		e.reconnect(w, c)
	case stepDropDead:
		e.cut(w, c)
	case stepExpired:
		e.expired(w, c)
	case stepOpen:
		w.each(c, func(c int, cl *client) {
			cl.epoch++
			cl.conn, cl.closed, cl.lag, cl.seen, cl.lease, cl.left, cl.look = connUp, 0, 0, 0, true, LeaverBook[uint8]{}, 0
			cl.role &^= roleClaims
			cl.told &^= toldPlace
			e.feed(w, c, Opened{Epoch: Epoch(cl.epoch), Session: sessionID(cl.epoch)})
		})
	case stepDiscard:
		w.raise(c)
		bit := cl.discard & -cl.discard
		cl.discard &^= bit
		w.without(bit)
		w.raise(c)
	case stepCancel:
		e.cancel(w, c)
	case stepWrite:
		w.commit(w.past[0], w.dirs[0])
		w.wrote = 1
	case stepPaused:
		e.feed(w, c, Paused{Epoch(cl.epoch)})
	case stepDelayOver:
		w.delayOver()
	case stepRelease, stepReleaseEarly, stepFollows, stepCrash:
		why := WhyReleased
		if s.kind == stepCrash {
			why = WhyPanicked
		} else if cl.holds() {
			cl.told |= toldClean
		}
		cl.told |= toldWithdrawn
		e.feed(w, c, e.parting(cl, why))
	case stepUntaken:
		cl.told |= toldWithdrawn
		w.acted &^= 1 << e.traits[cl.machine].own
		e.feed(w, c, Withdrawn{Why: WhyReleased})
	case stepWithdraw:
		w.left.withdraw--
		cl.told |= toldWithdrawn
		e.feed(w, c, Withdrawn{Why: WhyContext})
	case stepCut:
		w.left.cut--
		e.cut(w, c)
	case stepLapse:
		w.left.lapse--
		e.lapse(w, c)
	case stepExpire:
		w.left.expire--
		e.lapse(w, c) // the leader waits that long, too
		w.end(c)
	case stepKill:
		w.left.kill--
		w.byHand |= w.ends(c) & e.proven(w)
		if e.several != nil {
			w.byHand |= w.mineOf(c, cl.epoch, 0xff)
		}
		w.end(c)
	case stepRemove:
		w.left.remove--
		w.byHand |= 1 << s.node & e.proven(w)
		w.removePermit(s.node)
		for c := range w.clients {
			if cl := &w.clients[c]; e.clings && cl.conn == connDown && cl.holds() && e.traits[cl.machine].own == s.node {
				cl.told |= toldOwed
			}
		}
	case stepRefuse:
		w.left.refuse--
		r := &cl.requests[cl.find(sent)]
		r.status, r.flags, r.age = executed, r.flags|reqRefused, cl.lag
	case stepRenew:
		w.renewed(c) // by a ping, or by a request of another client of the session
	case stepGhost:
		r := &cl.requests[cl.ghosts()]
		id := w.create(node{owner: s.client + 1, epoch: cl.epoch, attempt: r.arg}, cl.form(), 0)
		r.status, r.own = executed, id+1
		w.raise(c)
	case stepRevoke, stepRevokeSoon, stepRevokeLate:
		by := s.kind - stepRevoke
		*w.left.revocations()[by]--
		e.askBack(w, s.node, uint8(by))
	case stepOverdue:
		e.feed(w, c, Overdue{Moment(cl.revocations.due())})
	default:
		e.outside(w, s)
	}
}

func (cl *client) started() Started {
	return Started{Try: cl.flags&flagTry != 0, Strict: cl.flags&flagStrict != 0, Detect: cl.flags&flagDetect != 0}
}

func (e *environment) foreigners() form {
	switch {
	case e.kazoos && e.readers:
		return formKazooRead
	case e.kazoos:
		return formKazooLock
	case e.readers:
		return formRead
	default:
		return formLock
	}
}

func (e *environment) outside(w *world, s step) {
	switch s.kind {
	case stepLeaves, stepGivesUp:
		w.without(1 << s.node)
	case stepLeavesFloor:
		w.commit(w.past[0]&^(1<<s.node), w.dirs[0].with(dataFloor+directory(s.node)))
	case stepForeignJoins:
		w.left.foreign--
		if w.dirs[0] == 0 {
			w.born(false)
		}
		w.create(node{owner: foreign}, e.foreigners(), 0)
	case stepGuestJoins:
		w.left.guest--
		if w.dirs[0] == 0 {
			w.born(true)
		}
		var data directory
		if w.dirs[0].ours() {
			data = dataMarker
		}
		f := formLock
		if e.sharing {
			f = formWrite
		}
		w.create(node{owner: guest}, f, data)
	case stepDowngrade:
		if e.several != nil {
			w.left.trade--
			w.commit(w.past[0]|multiNode(1, 0), 0)
			return
		}
		w.create(node{owner: foreign}, twinOf(s.node), 0)
	case stepEnters:
		w.guestEnters(s.node)
	case stepLarger:
		w.left.resize--
		w.resize(w.sizes[0].permits() + 1)
	case stepSmaller:
		w.left.resize--
		w.resize(w.sizes[0].permits() - 1)
	case stepReap:
		w.left.reap--
		w.commit(w.past[0], 0)
	case stepChange:
		w.left.change--
		w.commit(w.past[0], w.dirs[0].with(dataTheirs))
	default: // a client's step
	}
}

// end makes the leader end a session: one transaction removes all of its nodes.
func (w *world) end(c int) {
	w.without(w.ends(c))
	w.each(c, func(_ int, cl *client) { cl.closed = 1 })
}

func (w *world) ends(c int) (mask uint8) {
	w.each(c, func(c int, cl *client) { mask |= w.mine(c, cl.epoch) })
	return mask
}

func (w *world) renewed(c int) { w.each(c, func(_ int, cl *client) { cl.lease = true }) }

// proven returns the nodes of holders, and of clients that will learn from an answer in
// progress that they may enter, or at least that no contender is ahead. If such a node is
// deleted by hand, its owner cannot know that yet.
func (e *environment) proven(w *world) uint8 {
	if e.several != nil {
		return 0xff
	}
	var mask uint8
	if e.warms() {
		mask = w.firsts()
	}
	for c := range w.clients {
		cl := &w.clients[c]
		if own := e.traits[cl.machine].own; cl.holds() && own != noNode {
			mask |= 1 << own
		}
		for _, r := range cl.requests {
			if r.flags&reqFirst != 0 {
				mask |= 1 << r.granted()
			}
		}
	}
	return mask
}

// raise brings a client's replica up to date with the leader, as the client's writes do.
func (w *world) raise(c int) {
	for w.clients[c].lag > 0 {
		w.catchUp(c)
	}
}

// lose gives up the requests with a status. Watches are not answered.
func (cl *client) lose(s status) {
	cl.forget(func(r request) bool { return r.status == s && r.op == OpWatch })
	for i := range cl.requests {
		if r := &cl.requests[i]; r.status == s {
			*r = r.gone()
		}
	}
}

func (e *environment) cut(w *world, c int) {
	w.each(c, func(_ int, cl *client) { e.disconnect(cl) })
	if w.lists.now == listingBegun && w.clients[c].role&roleShares != 0 {
		e.listingEnds(w, c)
	}
	seen := uint8(maxLag)
	w.each(c, func(_ int, cl *client) { seen = min(seen, cl.seen) })
	w.each(c, func(c int, cl *client) {
		cl.seen = seen
		e.feed(w, c, Suspended{})
	})
}

// disconnect does to one client what a broken connection does: answers in progress are
// lost, and watches may be.
func (e *environment) disconnect(cl *client) {
	cl.conn, cl.lag, cl.look = connDown, 0, 0
	if !e.late {
		cl.lose(executed)
	}
	for _, r := range cl.requests {
		if r.status == executed || e.late && r.begun() && r.op != OpList {
			cl.seen = min(cl.seen, r.age) // the answer has arrived, and is only delivered late
		}
	}
	cl.forget(func(r request) bool { return r.op == OpWatch })
	if !e.rearm {
		cl.armed, cl.fired = 0, 0
	}
	cl.armed, cl.fired = cl.armed|cl.fired, 0
}

// reconnect finds a replica that is at least as new as what the client has seen. Requests
// that were sent on the old connection are no longer executed.
func (e *environment) reconnect(w *world, c int) {
	w.each(c, func(c int, cl *client) {
		lingers := e.early && cl.survey(sent) >= 0
		if e.dated {
			e.outdate(w, c)
		}
		e.connect(w, cl)
		if lingers {
			e.finishSurvey(w, c)
		}
	})
	w.each(c, func(c int, _ *client) { e.feed(w, c, Reconnected{}) })
}

// outdate treats answers that have arrived and were not delivered as lost, unless they
// stay true. So no grant rests on an answer whose node was deleted by hand meanwhile.
func (e *environment) outdate(w *world, c int) {
	cl := &w.clients[c]
	for i := range cl.requests {
		r := &cl.requests[i]
		if r.status != executed {
			continue
		}
		if r.flags&reqFirst != 0 && !cl.holds() && !e.warms() { // a warm session may grant by the next listing
			w.byHand &^= 1 << r.granted()
		}
		if !Lasts(e.reply(w, c, *r)) {
			*r = r.gone()
		}
	}
}

func (e *environment) connect(w *world, cl *client) {
	for i := range cl.requests {
		if r := &cl.requests[i]; e.late && e.several == nil && r.status == sent && (r.op == OpAdvance || r.op == OpSurvey) {
			r.status = parked // a part of it was not sent in time, and is sent on the new connection
		}
	}
	cl.lose(sent)
	for i := range cl.requests {
		if cl.requests[i].status == parked {
			cl.requests[i].status = sent
		}
	}
	cl.conn, cl.lag, cl.lease, cl.told = connUp, cl.seen, true, cl.told&^toldPlace
	if e.several == nil { // with several, the shell has looked for its own nodes since the cut
		cl.fired = cl.armed &^ w.past[cl.lag]
		cl.armed &^= cl.fired
	}
}

func (e *environment) expired(w *world, c int) {
	w.each(c, func(_ int, cl *client) {
		cl.lose(executed)
		cl.lose(sent)
		cl.lose(parked)
		cl.armed, cl.fired, cl.conn, cl.seen, cl.look = 0, 0, connNone, 0, 0
	})
	w.each(c, func(c int, _ *client) { e.feed(w, c, Expired{}) })
}

// lapse lets T pass for one client: what it has sent so far no longer proves anything,
// and a good lease runs out.
func (e *environment) lapse(w *world, c int) {
	good := w.clients[c].lease
	w.each(c, func(_ int, cl *client) {
		for i := range cl.requests {
			r := &cl.requests[i]
			r.flag(r.op != 0 && r.write() && (r.status == sent || r.status == executed), reqStale)
		}
		cl.lease = false
	})
	if good {
		w.each(c, func(c int, cl *client) {
			e.feed(w, c, LeaseRanOut{})
		})
	}
}
